//! systemd-boot boots an entry once: by the EFI variable `LoaderEntryOneShot`, which it deletes before it does (the Boot Loader
//! Interface of systemd). What it boots by itself is not touched.
//!
//! Its entries are files. For the words there has to be another one: a copy, which is removed after the boot. That is made only
//! where the loader's configuration names what is booted otherwise, so that the copy can never be.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{
    Words,
    efi::{
        VariableError,
        variables::{LOADER, Variables, from_utf16, to_utf16},
    },
    entry_file::EntryFile,
    mounts::mounts,
};
use crate::source::Source;

const ONE_SHOT: &str = "LoaderEntryOneShot";

/// The bit of `LoaderFeatures` that says that there is [`ONE_SHOT`] (`EFI_LOADER_FEATURE_ENTRY_ONESHOT`).
const FEATURE_ONE_SHOT: u64 = 1 << 3;

/// The copy with the words.
const ONCE: &str = "drover-once.conf";

/// Where the EFI system partition, and the one for kernels, are mounted; the latter comes first.
const PLACES: [&str; 3] = ["/boot", "/efi", "/boot/efi"];

/// Why systemd-boot cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum SystemdBootError {
    /// Variables cannot be used.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// Another boot loader was used.
    #[error("this host was not booted by systemd-boot, but by {0}")]
    Other(String),
    /// It is too old.
    #[error("{0} is too old: it cannot boot an entry once")]
    Old(String),
    /// It remembers what it booted last.
    #[error("`{}` says `default @saved`: what is booted once would be booted ever after; name an entry there", .0.display())]
    Saved(PathBuf),
    /// There is no such entry.
    #[error("systemd-boot has no entry `{name}`; there are: {there}")]
    Absent {
        /// What was asked for.
        name: String,
        /// All entries.
        there: String,
    },
    /// A file cannot be used.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What is to be done.
#[derive(Debug)]
pub(super) struct Plan {
    entry: String,
    /// The copy and its text.
    pub(super) once: Option<(PathBuf, String)>,
}

/// Looks whether `entry` can be booted once.
pub(super) fn plan(source: Source<'_>, entry: &str, words: &Words) -> Result<Plan, SystemdBootError> {
    let variables = usable(source)?;
    let file_name = if entry.ends_with(".conf") { entry.to_owned() } else { format!("{entry}.conf") };
    let listed = variables.get("LoaderEntries", LOADER)?.unwrap_or_default();
    let listed = split_utf16(&listed);
    let found = folders(source).into_iter().find(|folder| folder.join(&file_name).is_file());
    // A name must not lead out of the folder.
    let found = found.filter(|_| !file_name.contains('/') && file_name != ONCE);
    let Some(folder) = found else {
        // Some have no file: kernels that are EFI programs, other systems.
        if listed.iter().any(|known| known == entry) {
            return Ok(Plan { entry: entry.to_owned(), once: None });
        }
        return Err(absent(source, entry, listed));
    };
    let once = match default(source, variables)? {
        Some(default) if !may_match(&default, ONCE) => {
            Some((folder.join(ONCE), copy(&folder.join(&file_name), words)?))
        }
        _ => None,
    };
    let entry = once.as_ref().map_or(file_name, |_| ONCE.to_owned());
    Ok(Plan { entry, once })
}

/// The variables of a host that systemd-boot has booted.
pub(super) fn usable(source: Source<'_>) -> Result<Variables<'_>, SystemdBootError> {
    let variables = Variables::of(source)?;
    let info = variables.get("LoaderInfo", LOADER)?.map(|bytes| from_utf16(&bytes));
    let info = info.ok_or_else(|| SystemdBootError::Other("one that does not say what it is".to_owned()))?;
    if !info.starts_with("systemd-boot") {
        return Err(SystemdBootError::Other(info));
    }
    let features = variables.get("LoaderFeatures", LOADER)?;
    let features = features.and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
    if features.is_none_or(|features| features & FEATURE_ONE_SHOT == 0) {
        return Err(SystemdBootError::Old(info));
    }
    Ok(variables)
}

impl Plan {
    /// Does it, and reads it back.
    pub(super) fn carry_out(self, source: Source<'_>) -> Result<(), SystemdBootError> {
        if let Some((path, text)) = &self.once {
            write(path, text)?;
        }
        Ok(Variables::of(source)?.set(ONE_SHOT, LOADER, &to_utf16(&self.entry))?)
    }
}

/// Takes back what was done; whether an entry was still to be booted.
pub(super) fn disarm(source: Source<'_>, once: Option<&Path>) -> Result<bool, SystemdBootError> {
    let was_set = Variables::of(source)?.delete(ONE_SHOT, LOADER)?;
    if let Some(path) = once {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(SystemdBootError::Io { action: "remove", path: path.to_owned(), source: error });
            }
            _ => {}
        }
    }
    Ok(was_set)
}

/// Folders with entries.
fn folders(source: Source<'_>) -> Vec<PathBuf> {
    let mounted: Vec<PathBuf> = mounts(source).into_iter().map(|mount| mount.place).collect();
    let places = PLACES.iter().filter(|place| mounted.iter().any(|mount| mount == Path::new(place)));
    places.map(|place| source.path(&format!("{}/loader/entries", place.trim_start_matches('/')))).collect()
}

/// What is booted otherwise, as the user or the configuration says: a pattern for the names of entries.
fn default(source: Source<'_>, variables: Variables<'_>) -> Result<Option<String>, SystemdBootError> {
    if let Some(chosen) = variables.get("LoaderEntryDefault", LOADER)? {
        return Ok(Some(from_utf16(&chosen)));
    }
    for place in PLACES {
        let path = source.path(&format!("{}/loader/loader.conf", place.trim_start_matches('/')));
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(SystemdBootError::Io { action: "read", path, source }),
        };
        match EntryFile::parse(&text).get("default") {
            Some("@saved") => return Err(SystemdBootError::Saved(path)),
            default => return Ok(default.map(str::to_owned)),
        }
    }
    Ok(None)
}

/// Whether a pattern may match a name: not if they differ before its first special character.
fn may_match(pattern: &str, name: &str) -> bool {
    match pattern.find(['*', '?', '[', '\\']) {
        Some(at) => pattern.get(..at).is_none_or(|start| name.starts_with(start)),
        None => pattern == name || format!("{pattern}.conf") == name,
    }
}

/// The text of the copy.
fn copy(path: &Path, words: &Words) -> Result<String, SystemdBootError> {
    let fail = |source| SystemdBootError::Io { action: "read", path: path.to_owned(), source };
    let mut file = EntryFile::parse(&fs::read_to_string(path).map_err(fail)?);
    let title = format!("{} (once, by drover)", file.get("title").unwrap_or("Linux"));
    file.remove("title");
    file.push("title", title);
    file.push("options", words.line());
    Ok(file.text())
}

fn write(path: &Path, text: &str) -> Result<(), SystemdBootError> {
    let fail = |source| SystemdBootError::Io { action: "write", path: path.to_owned(), source };
    let mut file = File::create(path).map_err(fail)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(fail)?;
    // The boot loader reads what is on the disk.
    let folder = path.parent().map(File::open).transpose().map_err(fail)?;
    folder.map_or(Ok(()), |folder| folder.sync_all()).map_err(fail)
}

fn split_utf16(bytes: &[u8]) -> Vec<String> {
    let (mut all, mut rest) = (Vec::new(), bytes);
    while rest.len() >= 2 {
        let text = from_utf16(rest);
        let length = 2 * (text.encode_utf16().count() + 1);
        rest = rest.get(length..).unwrap_or_default();
        if !text.is_empty() {
            all.push(text);
        }
    }
    all
}

fn absent(source: Source<'_>, name: &str, listed: Vec<String>) -> SystemdBootError {
    let names = |folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok())
    };
    let files = folders(source).into_iter().flat_map(names);
    let mut there: Vec<String> =
        files.filter(|name| name.ends_with(".conf") && name != ONCE).chain(listed).collect();
    there.sort_unstable();
    there.dedup();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    SystemdBootError::Absent { name: name.to_owned(), there }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What systemd-boot 252 says of itself.
    const INFO: &[u8] = include_bytes!("../../tests/testdata/boot/LoaderInfo");
    const FEATURES: &[u8] = include_bytes!("../../tests/testdata/boot/LoaderFeatures");
    const ENTRIES: &[u8] = include_bytes!("../../tests/testdata/boot/LoaderEntries");

    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Self {
            let host = Self(tempfile::tempdir().unwrap());
            for (name, bytes) in
                [("LoaderInfo", INFO), ("LoaderFeatures", FEATURES), ("LoaderEntries", ENTRIES)]
            {
                host.variable(name, bytes);
            }
            host.write(
                "proc/self/mountinfo",
                b"21 1 8:2 / / rw - ext4 /dev/sda2 rw\n22 21 8:1 / /boot rw - vfat /dev/sda1 rw\n",
            );
            host.write("boot/loader/loader.conf", b"timeout 3\ndefault golden.conf\n");
            host.write("boot/loader/entries/golden.conf", b"title G\nlinux /g\noptions ro\n");
            host.write("boot/loader/entries/other.conf", b"title O\nlinux /o\noptions ro quiet\n");
            host
        }

        fn write(&self, path: &str, bytes: &[u8]) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }

        fn variable(&self, name: &str, bytes: &[u8]) {
            self.write(&format!("sys/firmware/efi/efivars/{name}-{LOADER}"), bytes);
        }

        fn source(&self) -> Source<'_> {
            Source { root: self.0.path() }
        }

        fn plan(&self, entry: &str) -> Result<Plan, SystemdBootError> {
            plan(self.source(), entry, &Words::new("n1", &["nr_cpus=2".to_owned()]).unwrap())
        }
    }

    #[test]
    fn expect_a_copy_with_the_words_when_armed_and_none_when_disarmed() {
        let host = Host::new();
        let plan = host.plan("other").unwrap();
        let (path, text) = plan.once.clone().unwrap();
        assert_eq!(path, host.0.path().join("boot/loader/entries").join(ONCE));
        assert_eq!(
            text,
            "linux /o\noptions ro quiet\ntitle O (once, by drover)\noptions drover.nonce=n1 nr_cpus=2\n"
        );
        plan.carry_out(host.source()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        let set = Variables::of(host.source()).unwrap().get(ONE_SHOT, LOADER).unwrap().unwrap();
        assert_eq!(from_utf16(&set), ONCE);
        assert!(disarm(host.source(), Some(&path)).unwrap());
        assert!(!path.exists());
        assert!(!disarm(host.source(), Some(&path)).unwrap());
    }

    #[test]
    fn expect_the_entry_as_it_is_when_the_copy_might_be_booted_otherwise() {
        let host = Host::new();
        for default in ["default d*\n", "default drover-once\n", "default *\n", "timeout 1\n"] {
            host.write("boot/loader/loader.conf", default.as_bytes());
            let plan = host.plan("other.conf").unwrap();
            assert!(plan.once.is_none() && plan.entry == "other.conf", "{default}");
        }
        host.write("boot/loader/loader.conf", b"default golden-*\n");
        assert!(host.plan("other.conf").unwrap().once.is_some());
        host.write("boot/loader/loader.conf", b"default @saved\n");
        assert!(host.plan("other.conf").unwrap_err().to_string().contains("@saved"));
    }

    #[test]
    fn expect_the_reason_when_there_is_no_entry_or_another_loader() {
        let host = Host::new();
        let text = host.plan("none").unwrap_err().to_string();
        assert!(text.contains("golden.conf, other.conf"), "{text}");
        assert!(host.plan("../entries/other").is_err());
        host.variable("LoaderFeatures", &[6, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert!(host.plan("other").unwrap_err().to_string().contains("too old"));
        let mut grub = vec![6, 0, 0, 0];
        grub.extend(to_utf16("GRUB 2.12"));
        host.variable("LoaderInfo", &grub);
        assert!(host.plan("other").unwrap_err().to_string().contains("but by GRUB 2.12"));
    }
}
