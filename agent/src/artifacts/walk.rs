//! Finds the files of a folder that match patterns. Blocks on the disk.

use std::{
    ffi::CString,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use drover_model::{Artifact, Artifacts};
use drover_proto::MAX_ARTIFACTS;
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, open, openat, statat},
    io::Errno,
};

use super::glob::{Patterns, Places};

/// Most names looked at.
const MAX_SEEN: usize = 100_000;

/// Deepest folder looked into.
const MAX_DEPTH: usize = 32;

/// How a folder is opened: never through a link.
pub(super) const FOLDER: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);

/// Lists the files below `folder` that match, in the order of their paths; those beyond `limit` bytes in all are listed as
/// skipped. A folder that is not there has no files.
///
/// # Errors
/// When a folder cannot be read.
pub fn list(folder: &Path, patterns: &Patterns, limit: u64) -> io::Result<Artifacts> {
    let mut walk = Walk { patterns, left: limit, limit, seen: 0, found: Artifacts::default() };
    match open(folder, FOLDER, Mode::empty()) {
        Ok(root) => walk.folder(root, "", &patterns.start(), 0)?,
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(walk.found)
}

struct Walk<'a> {
    patterns: &'a Patterns,
    /// Bytes that may still be listed.
    left: u64,
    limit: u64,
    seen: usize,
    found: Artifacts,
}

impl Walk<'_> {
    fn folder(&mut self, folder: OwnedFd, prefix: &str, places: &Places, depth: usize) -> io::Result<()> {
        for name in self.names(folder.as_fd())? {
            if self.found.cut.is_some() {
                return Ok(());
            }
            let text = name.to_string_lossy();
            let bad_name = match name.to_str() {
                Err(_) => Some("its name is not UTF-8"),
                Ok(text) if text.chars().any(char::is_control) => Some("its name has control characters"),
                Ok(_) => None,
            };
            let (below, complete) = self.patterns.step(places, &text);
            if below.is_empty() && !complete {
                continue;
            }
            let path = format!("{prefix}{text}");
            let stat = match statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // A task may still be running.
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            if is_folder && below.is_empty() {
                continue;
            }
            if let Some(reason) = bad_name {
                self.skip(path.escape_default().to_string(), 0, reason.to_owned());
            } else if is_folder {
                self.enter(folder.as_fd(), &name, &path, &below, depth)?;
            } else if complete {
                self.file(path, &stat);
            }
        }
        Ok(())
    }

    /// The names in a folder, sorted.
    fn names(&mut self, folder: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(folder)? {
            let name = entry?.file_name().to_owned();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.seen += 1;
            if self.seen > MAX_SEEN {
                self.cut(format!("there are more than {MAX_SEEN} names"));
                break;
            }
            names.push(name);
        }
        names.sort_unstable();
        Ok(names)
    }

    fn enter(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &CString,
        path: &str,
        below: &Places,
        depth: usize,
    ) -> io::Result<()> {
        if depth >= MAX_DEPTH {
            self.skip(format!("{path}/"), 0, format!("it is more than {MAX_DEPTH} folders deep"));
            return Ok(());
        }
        match openat(folder, name, FOLDER, Mode::empty()) {
            Ok(inner) => self.folder(inner, &format!("{path}/"), below, depth + 1),
            // It is something else by now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Err(Errno::ACCESS) => {
                self.skip(format!("{path}/"), 0, "the agent may not read it".to_owned());
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn file(&mut self, path: String, stat: &rustix::fs::Stat) {
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        if let Err(reason) = usable(stat) {
            self.skip(path, size, reason.to_owned());
        } else if size > self.left {
            self.skip(path, size, format!("all files together would have more than {} bytes", self.limit));
        } else {
            self.left -= size;
            self.push(Artifact { path, size, skipped: None });
        }
    }

    fn skip(&mut self, path: String, size: u64, reason: String) {
        self.push(Artifact { path, size, skipped: Some(reason) });
    }

    fn push(&mut self, artifact: Artifact) {
        if self.found.files.len() < MAX_ARTIFACTS {
            self.found.files.push(artifact);
        } else {
            self.cut(format!("more than {MAX_ARTIFACTS} files match"));
        }
    }

    fn cut(&mut self, reason: String) {
        self.found.cut.get_or_insert(reason);
    }
}

/// Whether a file may be read for a controller, and if not, why.
pub(super) fn usable(stat: &rustix::fs::Stat) -> Result<(), &'static str> {
    match FileType::from_raw_mode(stat.st_mode) {
        // Another name may be one outside of the folder, for a file that the task itself could not read.
        FileType::RegularFile if stat.st_nlink > 1 => Err("it has further names (hard links)"),
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err("it is a symbolic link"),
        FileType::Directory => Err("it is a folder"),
        _ => Err("it is no regular file"),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        ffi::OsStr,
        os::unix::{ffi::OsStrExt, fs::symlink, net::UnixListener},
    };

    use super::*;

    fn found(folder: &Path, pattern: &str, limit: u64) -> Artifacts {
        list(folder, &Patterns::new(&[pattern.to_owned()]).unwrap(), limit).unwrap()
    }

    fn paths(artifacts: &Artifacts) -> Vec<(&str, u64, Option<&str>)> {
        let files = artifacts.files.iter();
        files.map(|file| (file.path.as_str(), file.size, file.skipped.as_deref())).collect()
    }

    #[test]
    fn expect_files_in_order_and_nothing_outside_when_a_folder_has_links_and_special_files() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, outside) = (dir.path().join("attempt"), dir.path().join("outside"));
        std::fs::create_dir_all(folder.join("a/b")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("secret"), "secret").unwrap();
        std::fs::write(folder.join("a/b/deep"), "12345").unwrap();
        std::fs::write(folder.join("z"), "1").unwrap();
        symlink(&outside, folder.join("linked-folder")).unwrap();
        symlink(outside.join("secret"), folder.join("linked-file")).unwrap();
        std::fs::hard_link(outside.join("secret"), folder.join("other-name")).unwrap();
        let _socket = UnixListener::bind(folder.join("socket")).unwrap();
        std::fs::write(folder.join(OsStr::from_bytes(b"bad\xff")), "1").unwrap();
        std::fs::write(folder.join("bad\n"), "1").unwrap();
        let all = found(&folder, "**", 100);
        assert_eq!(
            paths(&all),
            [
                ("a/b/deep", 5, None),
                ("bad\\n", 0, Some("its name has control characters")),
                ("bad\\u{fffd}", 0, Some("its name is not UTF-8")),
                ("linked-file", all.files[3].size, Some("it is a symbolic link")),
                ("linked-folder", all.files[4].size, Some("it is a symbolic link")),
                ("other-name", 6, Some("it has further names (hard links)")),
                ("socket", 0, Some("it is no regular file")),
                ("z", 1, None),
            ]
        );
        assert_eq!(paths(&found(&folder, "a/*/deep", 100)), [("a/b/deep", 5, None)]);
        assert_eq!(paths(&found(&folder, "linked-folder/*", 100)), []);
        assert_eq!(found(&dir.path().join("never-there"), "**", 100), Artifacts::default());
    }

    #[test]
    fn expect_the_reason_when_files_are_more_than_the_limits_allow() {
        let dir = tempfile::tempdir().unwrap();
        for name in 0..MAX_ARTIFACTS + 1 {
            std::fs::write(dir.path().join(format!("{name:04}")), "123").unwrap();
        }
        let all = found(dir.path(), "*", 8);
        assert_eq!(all.files.len(), MAX_ARTIFACTS);
        assert_eq!(all.cut.unwrap(), "more than 1000 files match");
        assert_eq!(all.files.iter().filter(|file| file.skipped.is_none()).count(), 2);
        assert_eq!(all.files[2].skipped.as_deref(), Some("all files together would have more than 8 bytes"));

        let mut deep = dir.path().join("deep");
        for _ in 0..=MAX_DEPTH {
            deep.push("d");
        }
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("f"), "1").unwrap();
        let found = found(dir.path(), "deep/**", 8);
        assert_eq!(found.files.len(), 1);
        assert_eq!(found.files[0].skipped.as_deref(), Some("it is more than 32 folders deep"));
    }
}
