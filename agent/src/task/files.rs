//! Writes staged files into an attempt's folder, and removes folders again.
//!
//! Paths come from a matrix, and other tasks of the attempt may have put symbolic links into the folder. Every component
//! is therefore opened by itself, relative to the one before, and none may be a link.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
};

use drover_model::{NotStarted, StagedFile};
use rustix::fs::{Mode, OFlags, mkdirat, open, openat};

use super::Unstarted;
use crate::{
    blobs::BlobStore,
    text::{chain, is_disk_full},
};

/// Makes the folder `dir`, unless it is there, and writes the files into it.
pub(super) fn stage(dir: &Path, files: &[StagedFile], blobs: &BlobStore) -> Result<(), Unstarted> {
    match std::fs::create_dir(dir) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            return Err(StageError::Io { path: dir.to_owned(), source }.into());
        }
        _ => {}
    }
    files.iter().try_for_each(|file| write(dir, file, blobs).map_err(Into::into))
}

fn write(dir: &Path, file: &StagedFile, blobs: &BlobStore) -> Result<(), StageError> {
    let path = Path::new(&file.path);
    let names = components(path)?;
    let fail = |source: rustix::io::Errno| match source {
        rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => StageError::Link { path: path.to_owned() },
        other => StageError::Io { path: path.to_owned(), source: other.into() },
    };
    let folder = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at: OwnedFd = open(dir, folder, Mode::empty()).map_err(fail)?;
    let Some((name, parents)) = names.split_last() else {
        return Err(StageError::Unsafe { path: path.to_owned() });
    };
    for parent in parents {
        match mkdirat(&at, *parent, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(fail(error)),
        }
        at = openat(&at, *parent, folder, Mode::empty()).map_err(fail)?;
    }
    let create = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A server that gives up its privileges reads them as another user.
    let mode = Mode::from_raw_mode(if file.executable { 0o755 } else { 0o644 });
    let mut opened = File::from(openat(&at, *name, create, mode).map_err(fail)?);
    let written = match &file.blob {
        Some(blob) => blobs.copy(blob, &mut opened),
        None => opened.write_all(&file.contents),
    };
    written.map_err(|source| StageError::Io { path: path.to_owned(), source })
}

/// The names in a path that stays below where it starts.
fn components(path: &Path) -> Result<Vec<&std::ffi::OsStr>, StageError> {
    let refuse = || StageError::Unsafe { path: path.to_owned() };
    let names = path.components().filter(|component| *component != Component::CurDir);
    let names = names.map(|component| match component {
        Component::Normal(name) => Ok(name),
        _ => Err(refuse()),
    });
    names.collect()
}

/// Removes a file, or a folder with all that is in it, if it is there. Never follows a link.
pub fn remove(path: &Path) {
    // Most attempt folders are empty.
    let removed = match std::fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => std::fs::remove_dir_all(path),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => std::fs::remove_file(path),
        other => other,
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "cannot remove it");
        }
        _ => {}
    }
}

#[derive(Debug, thiserror::Error)]
enum StageError {
    #[error("the staged file `{}` is not a relative path below the attempt's folder", path.display())]
    Unsafe { path: PathBuf },
    #[error("the staged file `{}` leads through a symbolic link or a file", path.display())]
    Link { path: PathBuf },
    #[error("cannot write the staged file `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl From<StageError> for Unstarted {
    fn from(error: StageError) -> Self {
        let full = matches!(&error, StageError::Io { source, .. } if is_disk_full(source));
        let cause = if full { NotStarted::DiskFull } else { NotStarted::Other };
        Self { cause, detail: chain(&error) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn file(path: &str) -> StagedFile {
        let contents = b"text".to_vec();
        StagedFile { path: path.to_owned(), contents, executable: path.ends_with(".sh"), blob: None }
    }

    fn stage(dir: &Path, files: &[StagedFile]) -> Result<(), Unstarted> {
        let none = tempfile::tempdir().unwrap();
        super::stage(dir, files, &BlobStore::open(none.path().to_owned()))
    }

    #[test]
    fn expect_files_in_place_when_their_paths_are_below_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let attempt = dir.path().join("attempt");
        stage(&attempt, &[file("a/b/c.conf"), file("run.sh"), file("./a/d")]).unwrap();
        assert_eq!(std::fs::read(attempt.join("a/b/c.conf")).unwrap(), b"text");
        let mode = std::fs::metadata(attempt.join("run.sh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }

    #[test]
    fn expect_a_refusal_when_a_path_would_leave_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (attempt, outside) = (dir.path().join("attempt"), dir.path().join("outside"));
        std::fs::create_dir(&outside).unwrap();
        stage(&attempt, &[]).unwrap();
        symlink(&outside, attempt.join("link")).unwrap();
        symlink(outside.join("file"), attempt.join("file")).unwrap();
        for path in ["../outside/x", "/etc/x", "a/../../outside/x", "", ".", "link/x", "file"] {
            let refused = stage(&attempt, &[file(path)]).unwrap_err();
            assert_eq!(refused.cause, NotStarted::Other, "{path}");
            assert!(refused.detail.contains("staged file"), "{}", refused.detail);
        }
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn expect_links_removed_and_not_followed_when_a_folder_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (attempt, outside) = (dir.path().join("attempt"), dir.path().join("outside"));
        stage(&attempt, &[file("a/b")]).unwrap();
        stage(&outside, &[file("kept")]).unwrap();
        symlink(&outside, attempt.join("link")).unwrap();
        remove(&attempt);
        remove(&dir.path().join("never-there"));
        assert!(!attempt.exists() && outside.join("kept").exists());
    }
}
