//! Writes an archive in the format that the kernel unpacks as its first root file system: `newc`
//! (`Documentation/driver-api/early-userspace/buffer-format.rst`). Owner is root and the time 0 throughout, so that the same
//! contents give the same bytes.

use std::collections::BTreeSet;

/// Kinds of `st_mode`.
const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// Name of the entry that ends an archive.
const TRAILER: &str = "TRAILER!!!";

/// An archive in the making.
#[derive(Debug, Default)]
pub struct Cpio {
    bytes: Vec<u8>,
    inode: u32,
    directories: BTreeSet<String>,
}

/// A file is larger than the format can say: 4 GiB.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` is too large for an initramfs: {length} bytes")]
pub struct TooLarge {
    /// The entry.
    pub name: String,
    /// Its length, in bytes.
    pub length: usize,
}

impl Cpio {
    /// An empty archive.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory (mode 755) and those above it, once. `path` has no leading slash, as everywhere here.
    pub fn directory(&mut self, path: &str) {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for directory in ends.filter_map(|end| path.get(..end)).filter(|directory| !directory.is_empty()) {
            if self.directories.insert(directory.to_owned()) {
                self.entry(directory, DIRECTORY | 0o755, &[], 0, (0, 0));
            }
        }
    }

    /// Adds a file, and the directories above it. `mode` is its permissions.
    ///
    /// # Errors
    /// When it is larger than 4 GiB.
    pub fn file(&mut self, path: &str, mode: u32, contents: &[u8]) -> Result<(), TooLarge> {
        self.above(path);
        let length = u32::try_from(contents.len())
            .map_err(|_| TooLarge { name: path.to_owned(), length: contents.len() })?;
        self.entry(path, FILE | mode & 0o7777, contents, length, (0, 0));
        Ok(())
    }

    /// Adds a symbolic link, and the directories above it.
    ///
    /// # Errors
    /// When the target is longer than 4 GiB.
    pub fn symlink(&mut self, path: &str, target: &str) -> Result<(), TooLarge> {
        self.above(path);
        let length = u32::try_from(target.len())
            .map_err(|_| TooLarge { name: path.to_owned(), length: target.len() })?;
        self.entry(path, SYMLINK | 0o777, target.as_bytes(), length, (0, 0));
        Ok(())
    }

    /// Adds a character device, and the directories above it. Needs no root: it is only written down.
    pub fn device(&mut self, path: &str, mode: u32, major: u32, minor: u32) {
        self.above(path);
        self.entry(path, CHARACTER_DEVICE | mode & 0o7777, &[], 0, (major, minor));
    }

    /// The whole archive.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.inode = 0;
        self.entry(TRAILER, 0, &[], 0, (0, 0));
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self.bytes
    }

    fn above(&mut self, path: &str) {
        if let Some((directory, _)) = path.rsplit_once('/') {
            self.directory(directory);
        }
    }

    fn entry(&mut self, name: &str, mode: u32, contents: &[u8], length: u32, device: (u32, u32)) {
        let links = if mode & DIRECTORY != 0 && mode & FILE == 0 { 2 } else { 1 };
        // A name is far shorter than 4 GiB: it was a path on this machine.
        let name_length = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        self.bytes.extend(b"070701");
        let fields = [self.inode, mode, 0, 0, links, 0, length, 0, 0, device.0, device.1, name_length, 0];
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(contents);
        self.pad();
        self.inode += 1;
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        os::unix::fs::{MetadataExt, PermissionsExt},
        process::{Command, Stdio},
    };

    use super::Cpio;

    #[test]
    fn expect_the_entries_when_the_archive_is_unpacked_by_another_program() {
        let mut archive = Cpio::new();
        archive.file("bin/tool", 0o755, b"odd length").unwrap();
        archive.file("bin/empty", 0o600, b"").unwrap();
        archive.symlink("init", "bin/tool").unwrap();
        archive.directory("proc");
        let dir = tempfile::tempdir().unwrap();
        let mut cpio = Command::new("cpio")
            .args(["--extract", "--quiet", "--make-directories"])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        cpio.stdin.take().unwrap().write_all(&archive.finish()).unwrap();
        assert!(cpio.wait().unwrap().success());
        assert_eq!(std::fs::read(dir.path().join("init")).unwrap(), b"odd length");
        assert_eq!(
            std::fs::metadata(dir.path().join("bin/empty")).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(std::fs::metadata(dir.path().join("bin/empty")).unwrap().size(), 0);
        assert_eq!(
            std::fs::metadata(dir.path().join("bin/tool")).unwrap().permissions().mode() & 0o777,
            0o755
        );
        assert!(dir.path().join("proc").is_dir());
    }

    #[test]
    fn expect_the_same_bytes_when_an_archive_is_made_twice() {
        let make = || {
            let mut archive = Cpio::new();
            archive.device("dev/console", 0o600, 5, 1);
            archive.finish()
        };
        assert_eq!(make(), make());
        assert_eq!(make().len() % 512, 0);
    }
}
