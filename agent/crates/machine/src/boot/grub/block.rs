//! GRUB's environment block: 1024 bytes with lines `name=value`, filled up with `#`. GRUB writes over it in place at boot, by the
//! sectors where it found the file; it knows nothing of the file system's structures then.
//!
//! It is written in place here too. `grub-editenv` writes a new file, whose blocks may be in the journal only when the machine
//! goes down, and GRUB does not read the journal.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Length, in bytes (`GRUB_ENVBLK_DEFAULT_SIZE`).
const LENGTH: usize = 1024;

/// One byte more shows that there are more.
const READ_AT_MOST: u64 = 1025;

/// First line (`GRUB_ENVBLK_SIGNATURE`).
const SIGNATURE: &[u8] = b"# GRUB Environment Block\n";

/// Why an environment block cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BlockError {
    /// The file system said no.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is none.
    #[error("there is no environment block `{}`: make it with `grub-editenv {} create`", .0.display(), .0.display())]
    Absent(PathBuf),
    /// It is not one.
    #[error(
        "`{}` is no environment block: {why}; make it anew with `grub-editenv {} create`",
        path.display(),
        path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
    /// There is no room in it.
    #[error("`{}` is full: {LENGTH} bytes, and {missing} more are needed", path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// Bytes that do not fit.
        missing: usize,
    },
    /// It is not what was written.
    #[error("`{}` was written and does not say so", path.display())]
    NotTaken {
        /// The file.
        path: PathBuf,
    },
}

/// An environment block as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    path: PathBuf,
    /// Names and values, in order; comments, with no value.
    lines: Vec<(String, Option<String>)>,
}

impl Block {
    /// Reads the one in `path`.
    ///
    /// # Errors
    /// When it is not there, or is not one that GRUB would write to.
    pub(super) fn read(path: &Path) -> Result<Self, BlockError> {
        let fail = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => BlockError::Absent(path.to_owned()),
            _ => BlockError::Io { action: "read", path: path.to_owned(), source },
        };
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        let mut bytes = Vec::new();
        file.take(READ_AT_MOST).read_to_end(&mut bytes).map_err(fail)?;
        let malformed = |why| BlockError::Malformed { path: path.to_owned(), why };
        if metadata.blocks() == 0 {
            return Err(malformed("it has no block of its own on the disk"));
        }
        Self::parse(path, &bytes).map_err(malformed)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() != LENGTH {
            return Err("it does not have 1024 bytes");
        }
        let rest =
            bytes.strip_prefix(SIGNATURE).ok_or("it does not begin with `# GRUB Environment Block`")?;
        let mut lines = Vec::new();
        for line in split(rest) {
            let text = std::str::from_utf8(&line).map_err(|_| "it is not UTF-8")?;
            match text.split_once('=') {
                Some((name, value)) if !name.starts_with('#') => {
                    lines.push((name.to_owned(), Some(value.to_owned())));
                }
                // The filling has no end of line.
                _ if text.starts_with('#') && !text.trim_start_matches('#').is_empty() => {
                    lines.push((text.to_owned(), None));
                }
                _ => {}
            }
        }
        Ok(Self { path: path.to_owned(), lines })
    }

    /// The value of a variable.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.lines.iter().find_map(|(known, value)| value.as_deref().filter(|_| known == name))
    }

    /// Gives a variable a value, or takes it away.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>) {
        let place = self.lines.iter().position(|(known, old)| known == name && old.is_some());
        match (place, value) {
            (Some(place), Some(value)) => {
                if let Some((_, old)) = self.lines.get_mut(place) {
                    *old = Some(value.to_owned());
                }
            }
            (Some(place), None) => {
                self.lines.remove(place);
            }
            (None, Some(value)) => self.lines.push((name.to_owned(), Some(value.to_owned()))),
            (None, None) => {}
        }
    }

    fn bytes(&self) -> Result<Vec<u8>, BlockError> {
        let mut bytes = SIGNATURE.to_vec();
        for (name, value) in &self.lines {
            bytes.extend(name.bytes());
            if let Some(value) = value {
                bytes.push(b'=');
                for byte in value.bytes() {
                    if matches!(byte, b'\\' | b'\n') {
                        bytes.push(b'\\');
                    }
                    bytes.push(byte);
                }
            }
            bytes.push(b'\n');
        }
        match bytes.len().checked_sub(LENGTH) {
            Some(missing) if missing > 0 => Err(BlockError::Full { path: self.path.clone(), missing }),
            _ => {
                bytes.resize(LENGTH, b'#');
                Ok(bytes)
            }
        }
    }

    /// Writes it where it was read, waits until it is on the disk, reads it again and compares.
    ///
    /// # Errors
    /// When there is no room in it, it cannot be written, or it is not what was written.
    pub(super) fn write(&self) -> Result<(), BlockError> {
        let bytes = self.bytes()?;
        let fail = |source| BlockError::Io { action: "write", path: self.path.clone(), source };
        let file = OpenOptions::new().write(true).open(&self.path).map_err(fail)?;
        file.write_all_at(&bytes, 0).and_then(|()| file.sync_all()).map_err(fail)?;
        if Self::read(&self.path)? == *self {
            Ok(())
        } else {
            Err(BlockError::NotTaken { path: self.path.clone() })
        }
    }
}

/// Lines, in which a backslash keeps the character after it.
fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut lines, mut line, mut kept) = (Vec::new(), Vec::new(), false);
    for &byte in bytes {
        match byte {
            b'\\' if !kept => {
                kept = true;
                continue;
            }
            b'\n' if !kept => lines.push(std::mem::take(&mut line)),
            _ => line.push(byte),
        }
        kept = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As `grub-editenv` of Debian 12 makes them: `create`, and `set saved_entry='a\b' next_entry='Advanced>x'`.
    const EMPTY: &[u8] = include_bytes!("../../../tests/testdata/boot/grubenv.empty");
    const SET: &[u8] = include_bytes!("../../../tests/testdata/boot/grubenv.set");

    fn parse(bytes: &[u8]) -> Result<Block, &'static str> {
        Block::parse(Path::new("grubenv"), bytes)
    }

    #[test]
    fn expect_the_same_bytes_when_a_block_of_grub_editenv_is_read_and_written() {
        for bytes in [EMPTY, SET] {
            assert_eq!(parse(bytes).unwrap().bytes().unwrap(), bytes);
        }
        let set = parse(SET).unwrap();
        assert_eq!((set.get("saved_entry"), set.get("next_entry")), (Some("a\\b"), Some("Advanced>x")));
        let mut made = parse(EMPTY).unwrap();
        made.set("saved_entry", Some("a\\b"));
        made.set("next_entry", Some("Advanced>x"));
        assert_eq!(made.bytes().unwrap(), SET);
        made.set("saved_entry", None);
        made.set("next_entry", None);
        assert_eq!(made.bytes().unwrap(), EMPTY);
    }

    #[test]
    fn expect_a_refusal_when_grub_would_not_take_it_for_a_block() {
        assert!(parse(&SET[..1000]).unwrap_err().contains("1024 bytes"));
        let mut longer = SET.to_vec();
        longer.push(b'#');
        assert!(parse(&longer).unwrap_err().contains("1024 bytes"));
        assert!(parse(&[b'#'; 1024]).unwrap_err().contains("begin with"));
        let mut full = parse(EMPTY).unwrap();
        full.set("x", Some(&"y".repeat(1000)));
        assert!(full.bytes().unwrap_err().to_string().contains("is full"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("grubenv");
        assert!(Block::read(&path).unwrap_err().to_string().contains("grub-editenv"));
    }

    #[test]
    fn expect_the_file_kept_in_place_when_a_block_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("grubenv");
        std::fs::write(&path, EMPTY).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let inode = path.metadata().unwrap().ino();
        let mut block = Block::read(&path).unwrap();
        block.set("next_entry", Some("x"));
        block.write().unwrap();
        assert_eq!(path.metadata().unwrap().ino(), inode);
        assert_eq!(Block::read(&path).unwrap().get("next_entry"), Some("x"));
    }

    proptest! {
        #[test]
        fn expect_every_value_back_when_it_fits(
            values in proptest::collection::btree_map("[a-z_]{1,8}", "[ -~\\n]{0,40}", 0..8)
        ) {
            let mut block = parse(EMPTY).unwrap();
            for (name, value) in &values {
                block.set(name, Some(value));
            }
            let read = parse(&block.bytes().unwrap()).unwrap();
            prop_assert_eq!(&read, &block);
            for (name, value) in &values {
                prop_assert_eq!(read.get(name), Some(value.as_str()));
            }
        }

        #[test]
        fn expect_no_panic_when_the_bytes_are_arbitrary(bytes in proptest::collection::vec(any::<u8>(), 999)) {
            let mut all = SIGNATURE.to_vec();
            all.extend(bytes);
            let _ = parse(&all);
        }
    }
}
