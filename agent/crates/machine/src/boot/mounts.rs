//! What is mounted where, from `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`).

use std::path::{Path, PathBuf};

use crate::source::Source;

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) place: PathBuf,
    /// Kind of the file system.
    pub(super) kind: String,
    /// Numbers of the block device, `8:1`.
    pub(super) device: String,
    /// Whether it is read-only here, and whether the file system is everywhere.
    pub(super) read_only: bool,
    pub(super) all_read_only: bool,
}

/// All mounts, in their order: a later one hides an earlier one.
pub(super) fn mounts(source: Source<'_>) -> Vec<Mount> {
    source.text("proc/self/mountinfo").unwrap_or_default().lines().filter_map(mount).collect()
}

/// The mount that a path without symbolic links is on.
pub(super) fn mount_of(source: Source<'_>, path: &Path) -> Option<Mount> {
    let all = mounts(source).into_iter().filter(|mount| path.starts_with(&mount.place));
    all.max_by_key(|mount| mount.place.components().count())
}

fn mount(line: &str) -> Option<Mount> {
    let (here, file_system) = line.split_once(" - ")?;
    let mut here = here.split(' ').skip(2);
    let (device, _, place, options) = (here.next()?, here.next()?, here.next()?, here.next()?);
    let mut file_system = file_system.split(' ');
    let (kind, _, all_options) = (file_system.next()?, file_system.next()?, file_system.next().unwrap_or(""));
    let read_only = |options: &str| options.split(',').any(|option| option == "ro");
    Some(Mount {
        place: PathBuf::from(unescaped(place)),
        kind: kind.to_owned(),
        device: device.to_owned(),
        read_only: read_only(options),
        all_read_only: read_only(all_options),
    })
}

/// Blanks and backslashes are written as octal numbers.
fn unescaped(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_fields_when_a_line_has_optional_ones() {
        let line = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 propagate_from:2 - ext3 /dev/root ro,errors=continue";
        let expected = Mount {
            place: PathBuf::from("/mnt 2"),
            kind: "ext3".to_owned(),
            device: "98:0".to_owned(),
            read_only: false,
            all_read_only: true,
        };
        assert_eq!(mount(line), Some(expected));
        assert_eq!(mount("36 35 98:0"), None);
    }
}
