//! The folder of a machine, where its sockets, its console and QEMU's messages are.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use super::{args::SOCKETS, error::StartError, spec::VmSpec};

/// With paths that are right from the machine's folder, too.
pub(super) fn absolute(spec: &VmSpec) -> Result<VmSpec, StartError> {
    let full = |path: &PathBuf| {
        std::path::absolute(path).map_err(|source| StartError::Folder { path: path.clone(), source })
    };
    let mut spec = spec.clone();
    spec.kernel = full(&spec.kernel)?;
    spec.initrd = spec.initrd.as_ref().map(full).transpose()?;
    spec.console = spec.console.as_ref().map(full).transpose()?;
    spec.dir = full(&spec.dir)?;
    if spec.qemu.components().count() > 1 {
        spec.qemu = full(&spec.qemu)?;
    }
    Ok(spec)
}

/// Makes the folder, which only its owner may enter, without sockets of an earlier machine.
pub(super) fn prepare(dir: &Path) -> Result<(), StartError> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        |source| StartError::Folder { path, source }
    };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(fail(dir))?;
    let metadata = fs::metadata(dir).map_err(fail(dir))?;
    if metadata.mode() & 0o077 != 0 || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(StartError::Open { path: dir.to_owned() });
    }
    for socket in SOCKETS.map(|name| dir.join(name)) {
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(&socket)(error)),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Opens a file to append to, made for its owner only.
pub(super) fn private_file(path: &Path) -> Result<File, StartError> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    file.map_err(|source| StartError::Folder { path: path.to_owned(), source })
}
