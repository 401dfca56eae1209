//! Files that tasks left, kept beside the raw outputs of their attempt: `ATTEMPT/artifacts/ROLE.INSTANCE/PATH`. Written as they
//! are fetched, under another name until they are whole, before the attempt is committed; writing one again, after a failure, is
//! harmless.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Component, Path, PathBuf},
};

use drover_model::{AttemptId, Name};

use crate::{
    DirError, ResultsDir,
    results_dir::{create_file, make_dir, sync_dir},
};

/// Why an artifact cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// Its path, which the agent gave, leads out of the folder or is no path of a file.
    #[error("`{}` is not the path of a file inside of the attempt's folder", path.escape_debug())]
    Path {
        /// As it was given.
        path: String,
    },
    /// The file cannot be made.
    #[error(transparent)]
    Dir(#[from] DirError),
}

/// An artifact that is being written. Dropped before it is kept, it leaves a `.part` that the next try replaces.
#[derive(Debug)]
pub struct ArtifactFile {
    file: File,
    part: PathBuf,
    path: PathBuf,
    /// The attempt's folder: names below it are made durable with the artifact.
    root: PathBuf,
}

impl ArtifactFile {
    /// Appends bytes.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DirError> {
        self.file.write_all(bytes).map_err(|error| DirError::from_io(&self.part, error))
    }

    /// Gives the file its name, durably.
    ///
    /// # Errors
    /// It cannot be synced or renamed.
    pub fn keep(self) -> Result<(), DirError> {
        self.file.sync_data().map_err(|error| DirError::from_io(&self.part, error))?;
        fs::rename(&self.part, &self.path).map_err(|error| DirError::from_io(&self.path, error))?;
        let folders = self.path.ancestors().skip(1);
        folders.take_while(|folder| folder.starts_with(&self.root)).try_for_each(sync_dir)
    }
}

impl ResultsDir {
    /// Folder of the artifacts of one task.
    #[must_use]
    pub fn artifacts_path(&self, attempt: &AttemptId, role: &Name, instance: u32) -> PathBuf {
        self.attempt_path(attempt).join("artifacts").join(format!("{role}.{instance}"))
    }

    /// Begins to write an artifact; `path` is relative to the folder of the attempt on its host.
    ///
    /// # Errors
    /// The path leads elsewhere, or the file or a folder of its path cannot be made.
    pub fn create_artifact(
        &self,
        attempt: &AttemptId,
        role: &Name,
        instance: u32,
        path: &str,
    ) -> Result<ArtifactFile, ArtifactError> {
        let bad = || ArtifactError::Path { path: path.to_owned() };
        let mut names = Vec::new();
        for component in Path::new(path).components() {
            match component {
                Component::Normal(name) if !path.contains('\0') => names.push(name),
                _ => return Err(bad()),
            }
        }
        let file_name = names.pop().filter(|_| !path.ends_with('/')).ok_or_else(bad)?;
        self.create_run_dir(attempt.run)?;
        let root = self.attempt_path(attempt);
        make_dir(&root)?;
        let mut folder = root.clone();
        let role = format!("{role}.{instance}");
        let first = [Path::new("artifacts"), Path::new(&role)];
        for name in first.into_iter().chain(names.into_iter().map(Path::new)) {
            folder.push(name);
            make_own_dir(&folder)?;
        }
        let path = folder.join(file_name);
        if fs::symlink_metadata(&path).is_ok_and(|meta| !meta.is_file()) {
            return Err(DirError::from_io(&path, ErrorKind::AlreadyExists.into()).into());
        }
        let mut part = file_name.to_owned();
        part.push(".part");
        let part = folder.join(part);
        let file = create_file(&part).map_err(|error| DirError::from_io(&part, error))?;
        Ok(ArtifactFile { file, part, path, root })
    }
}

/// Makes a folder; a link in its place, to wherever it leads, is refused.
fn make_own_dir(path: &Path) -> Result<(), DirError> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(DirError::NotADirectory { path: path.to_owned() }),
        Err(_) => make_dir(path).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_files_inside_of_the_folder_only_when_agents_name_paths() {
        let root = tempfile::tempdir().unwrap();
        let dir = ResultsDir::create(root.path()).unwrap();
        let attempt: AttemptId = "00000000-0000-0000-0000-000000000001.c0r1a1".parse().unwrap();
        let role: Name = "server".parse().unwrap();
        let create = |path: &str| dir.create_artifact(&attempt, &role, 0, path);
        let folder = dir.artifacts_path(&attempt, &role, 0);
        let write = |bytes: &[u8]| {
            let mut file = create("logs/deep/error.log").unwrap();
            file.write(bytes).unwrap();
            file
        };
        write(b"longer").keep().unwrap();
        drop(write(b"half of it"));
        assert_eq!(
            fs::read(folder.join("logs/deep/error.log")).unwrap(),
            b"longer",
            "half a file replaces none"
        );
        write(b"y").keep().unwrap();
        assert_eq!(fs::read(folder.join("logs/deep/error.log")).unwrap(), b"y");
        for bad in ["", "/etc/passwd", "../x", "a/../../x", ".", "a/", "a\0b"] {
            assert!(matches!(create(bad), Err(ArtifactError::Path { .. })), "{bad:?}");
        }
        std::os::unix::fs::symlink(root.path(), folder.join("link")).unwrap();
        assert!(matches!(create("link/x"), Err(ArtifactError::Dir(DirError::NotADirectory { .. }))));
        assert!(matches!(create("logs/deep/error.log/x"), Err(ArtifactError::Dir(_))));
        std::os::unix::fs::symlink(root.path().join("target"), folder.join("file")).unwrap();
        assert!(create("file").is_err(), "a link is not written through");
        assert!(!root.path().join("target").exists());
    }
}
