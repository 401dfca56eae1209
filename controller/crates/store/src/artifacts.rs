//! Files that tasks left, kept beside the raw outputs of their attempt: `ATTEMPT/artifacts/ROLE.INSTANCE/PATH`. Written as they
//! are fetched, before the attempt is committed; writing one again, after a failure, is harmless.

use std::{
    fs::{self, File},
    path::{Component, Path, PathBuf},
};

use drover_model::{AttemptId, Name};

use crate::{
    DirError, ResultsDir,
    results_dir::{create_file, make_dir},
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

impl ResultsDir {
    /// Folder of the artifacts of one task.
    #[must_use]
    pub fn artifacts_path(&self, attempt: &AttemptId, role: &Name, instance: u32) -> PathBuf {
        self.attempt_path(attempt).join("artifacts").join(format!("{role}.{instance}"))
    }

    /// Makes an empty file for an artifact; `path` is relative to the folder of the attempt on its host.
    ///
    /// # Errors
    /// The path leads elsewhere, or the file or a folder of its path cannot be made.
    pub fn create_artifact(
        &self,
        attempt: &AttemptId,
        role: &Name,
        instance: u32,
        path: &str,
    ) -> Result<File, ArtifactError> {
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
        let mut folder = self.attempt_path(attempt);
        make_dir(&folder)?;
        let role = format!("{role}.{instance}");
        for name in
            [Path::new("artifacts"), Path::new(&role)].into_iter().chain(names.into_iter().map(Path::new))
        {
            folder.push(name);
            make_own_dir(&folder)?;
        }
        let file = folder.join(file_name);
        create_file(&file).map_err(|error| DirError::from_io(&file, error).into())
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
    use std::io::Write;

    use super::*;

    #[test]
    fn expect_files_inside_of_the_folder_only_when_agents_name_paths() {
        let root = tempfile::tempdir().unwrap();
        let dir = ResultsDir::create(root.path()).unwrap();
        let attempt: AttemptId = "00000000-0000-0000-0000-000000000001.c0r1a1".parse().unwrap();
        let role: Name = "server".parse().unwrap();
        let create = |path: &str| dir.create_artifact(&attempt, &role, 0, path);
        create("logs/deep/error.log").unwrap().write_all(b"x").unwrap();
        create("logs/deep/error.log").unwrap().write_all(b"y").unwrap();
        let folder = dir.artifacts_path(&attempt, &role, 0);
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
