//! Programs as they go into an initramfs: static ones alone, others with the loader and the libraries that they need
//! here, so that a build of this machine runs in the guest too.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::image::Elf;

/// Why a program cannot go along.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It, or a library of it, cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no program.
    #[error("`{}` is no program for 64-bit machines like this one", path.display())]
    NotAProgram {
        /// The file.
        path: PathBuf,
    },
    /// Its loader does not run here.
    #[error("cannot run `{loader}` to learn the libraries of `{}`; link it statically", path.display())]
    Loader {
        /// The program.
        path: PathBuf,
        /// The loader that it names.
        loader: String,
        /// Why.
        source: io::Error,
    },
    /// Libraries are missing.
    #[error("`{}` needs libraries that are not there: {}", path.display(), said.trim())]
    Libraries {
        /// The program.
        path: PathBuf,
        /// What the loader says.
        said: String,
    },
}

/// The bytes of the program in `path`, without symbols, and the files that it needs, with absolute paths.
///
/// # Errors
/// When it cannot be read, is no program, or lacks a library.
pub(crate) fn program(path: &Path) -> Result<(Vec<u8>, BTreeSet<String>), ProgramError> {
    let bytes = fs::read(path).map_err(|source| ProgramError::Read { path: path.to_owned(), source })?;
    let elf = Elf::new(&bytes).ok_or_else(|| ProgramError::NotAProgram { path: path.to_owned() })?;
    let stripped = elf.loaded();
    let Some(loader) = elf.interpreter().map(str::to_owned) else { return Ok((stripped, BTreeSet::new())) };
    // The loader reads the program; it does not run it.
    let output = Command::new(&loader)
        .arg("--list")
        .arg(path)
        .output()
        .map_err(|source| ProgramError::Loader { path: path.to_owned(), loader: loader.clone(), source })?;
    let listed = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || listed.contains("not found") {
        let said = String::from_utf8_lossy(&output.stderr) + listed.as_ref();
        return Err(ProgramError::Libraries { path: path.to_owned(), said: said.into_owned() });
    }
    let mut files: BTreeSet<String> = listed.lines().filter_map(library).map(str::to_owned).collect();
    files.insert(loader);
    Ok((stripped, files))
}

/// The file in a line like `libc.so.6 => /lib/libc.so.6 (0x00007f)`; `None` if the kernel itself provides it.
fn library(line: &str) -> Option<&str> {
    let path = line.split_once("=>").map_or(line, |(_, path)| path).trim();
    let path = path.rsplit_once(" (").map_or(path, |(path, _)| path);
    path.starts_with('/').then_some(path)
}

#[cfg(test)]
mod tests {
    use super::{library, program};

    #[test]
    fn expect_the_files_when_a_loader_lists_them() {
        assert_eq!(library("\tlibc.so.6 => /lib/x86_64/libc.so.6 (0x00007f)"), Some("/lib/x86_64/libc.so.6"));
        assert_eq!(library("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)"), Some("/lib64/ld-linux-x86-64.so.2"));
        assert_eq!(library("\tlinux-vdso.so.1 (0x00007ffd)"), None);
        assert_eq!(library("\tstatically linked"), None);
    }

    #[test]
    fn expect_a_refusal_when_the_file_is_no_program() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script");
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        assert!(program(&path).unwrap_err().to_string().contains("is no program"));
        assert!(program(&dir.path().join("none")).unwrap_err().to_string().contains("cannot read"));
    }
}
