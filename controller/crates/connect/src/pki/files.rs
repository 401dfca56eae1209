//! Files that only their owner can read, written whole or not at all.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use super::PkiError;

/// A failure of `action` with `path`.
pub(super) fn fail(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PkiError {
    let path = path.to_owned();
    move |source| PkiError::Io { action, path, source }
}

/// Makes a folder that only its owner can use, unless it is there and is like that.
pub(super) fn private_folder(path: &Path) -> Result<(), PkiError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(fail("make", path))?;
    let mode = path.metadata().map_err(fail("inspect", path))?.mode();
    if mode & 0o077 == 0 { Ok(()) } else { Err(PkiError::Open { path: path.to_owned() }) }
}

/// Writes a file that replaces whatever has its name.
pub(super) fn write(path: &Path, text: &str) -> Result<(), PkiError> {
    let fresh = path.with_extension("new");
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail("replace", &fresh)(error)),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&fresh);
    let written = file.and_then(|mut file: File| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(fail("write", &fresh))?;
    std::fs::rename(&fresh, path).map_err(fail("rename", path))
}
