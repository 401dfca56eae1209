//! Entries that Fedora's GRUB takes from files (`blscfg`), one for each kernel.

use super::{
    GrubError,
    menu::{Entry, VARIABLE},
    read,
};
use crate::{boot::entry_file::EntryFile, source::Source};

const FOLDER: &str = "boot/loader/entries";

/// The entries. The id of one is the name of its file.
pub(super) fn entries(source: Source<'_>) -> Result<Vec<Entry>, GrubError> {
    let names = source.names(FOLDER);
    let stems = names.iter().filter_map(|name| name.strip_suffix(".conf"));
    let entries = stems.map(|stem| {
        let file = EntryFile::parse(&read(&source.path(&format!("{FOLDER}/{stem}.conf")))?);
        let takes = |options: &str| {
            let mut words = options.split_whitespace();
            words.any(|word| word == format!("${VARIABLE}") || word == format!("${{{VARIABLE}}}"))
        };
        Ok(Entry {
            title: file.get("title").unwrap_or(stem).to_owned(),
            id: Some(stem.to_owned()),
            submenu: None,
            takes_words: file.all("options").any(takes),
            unrestricted: file.get("grub_arg").is_some_and(|words| words.contains("--unrestricted")),
        })
    });
    entries.collect()
}
