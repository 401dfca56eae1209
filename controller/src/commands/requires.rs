//! Commands that a matrix needs: looked for before anything runs.

use std::{
    env,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use drover_matrix::Matrix;

use crate::{error::Failure, exit::ExitStatus};

/// Folders that the agent searches after those of `PATH`: servers live there.
const SYSTEM: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Refuses a matrix whose commands are not installed, naming the packages.
pub fn check(matrix: &Matrix) -> Result<(), Failure> {
    let missing: Vec<_> =
        matrix.requires().iter().filter(|requirement| find(&requirement.command).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let commands: Vec<_> = missing.iter().map(|requirement| format!("`{}`", requirement.command)).collect();
    let mut packages: Vec<_> = missing.iter().map(|requirement| requirement.package()).collect();
    packages.dedup();
    let text = format!(
        "the matrix needs {}, which {} not installed here; on Debian: apt-get install {}",
        commands.join(", "),
        if missing.len() == 1 { "is" } else { "are" },
        packages.join(" ")
    );
    Err(Failure::new(ExitStatus::Infrastructure, text))
}

/// The executable that a command names, as the agent would find it.
pub fn find(command: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(PathBuf::from(command)).filter(|path| is_executable(path));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM.map(PathBuf::from));
    folders.map(|folder| folder.join(command)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_a_shell_but_not_a_folder_or_a_data_file() {
        assert!(find("sh").is_some());
        assert!(find("/").is_none());
        assert!(find("/etc/passwd").is_none());
        assert!(find("no-such-command-anywhere").is_none());
    }
}
