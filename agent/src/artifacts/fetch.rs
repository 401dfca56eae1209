//! Reads one file of an attempt's folder, in chunks.

use std::{
    fs::File,
    io::{self, Read},
    path::{Component, Path},
    pin::Pin,
    task::{Context, Poll},
};

use drover_proto::{MAX_CHUNK_BYTES, Refusal, v1};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, statat};
use tokio_stream::Stream;
use tonic::Status;

use super::walk::{FOLDER, usable};

/// Opens a file below `folder`, of which `size` bytes are wanted.
///
/// # Errors
/// When it is not there, or not one that is given to controllers.
pub fn open(folder: &Path, path: &str, size: u64) -> Result<ArtifactStream, ArtifactError> {
    let fail = |problem: Problem| ArtifactError { path: path.to_owned(), problem };
    let system = |error: rustix::io::Errno| fail(Problem::Io(error.into()));
    let names: Option<Vec<_>> = Path::new(path)
        .components()
        .map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    let names = names.unwrap_or_default();
    let (name, parents) =
        names.split_last().ok_or_else(|| fail(Problem::Unusable("its path leads out of the folder")))?;
    let mut at = rustix::fs::open(folder, FOLDER, Mode::empty()).map_err(system)?;
    for parent in parents {
        at = openat(&at, *parent, FOLDER, Mode::empty()).map_err(system)?;
    }
    // Only a regular file is opened at all, and what was opened is looked at again.
    let stat = statat(&at, *name, AtFlags::SYMLINK_NOFOLLOW).map_err(system)?;
    usable(&stat).map_err(|reason| fail(Problem::Unusable(reason)))?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(&at, *name, flags, Mode::empty()).map_err(system)?;
    let stat = fstat(&file).map_err(system)?;
    usable(&stat).map_err(|reason| fail(Problem::Unusable(reason)))?;
    Ok(ArtifactStream { path: path.to_owned(), file: Some(File::from(file)), left: size })
}

/// The bytes of a file, as many as were listed.
#[derive(Debug)]
pub struct ArtifactStream {
    path: String,
    /// `None` when the stream is over.
    file: Option<File>,
    left: u64,
}

impl ArtifactStream {
    fn chunk(&mut self) -> Result<Vec<u8>, ArtifactError> {
        let Some(mut file) = self.file.take().filter(|_| self.left > 0) else { return Ok(Vec::new()) };
        let fail = |problem| ArtifactError { path: self.path.clone(), problem };
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(MAX_CHUNK_BYTES);
        let mut chunk = vec![0; length];
        let read = file.read(&mut chunk).map_err(|source| fail(Problem::Io(source)))?;
        if read == 0 {
            return Err(fail(Problem::Shrank { missing: self.left }));
        }
        chunk.truncate(read);
        self.left = self.left.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX));
        self.file = Some(file);
        Ok(chunk)
    }
}

impl Stream for ArtifactStream {
    type Item = Result<v1::FetchChunk, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(match self.chunk() {
            Ok(chunk) if chunk.is_empty() => None,
            Ok(chunk) => Some(Ok(v1::FetchChunk { data: chunk.into() })),
            Err(error) => Some(Err(Refusal::NoArtifact.status(crate::text::chain(&error)))),
        })
    }
}

/// Why a file is not given to a controller.
#[derive(Debug, thiserror::Error)]
#[error("cannot give out the artifact `{path}`")]
pub struct ArtifactError {
    path: String,
    #[source]
    problem: Problem,
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("{0}")]
    Unusable(&'static str),
    #[error("it shrank since it was listed, {missing} bytes are missing")]
    Shrank { missing: u64 },
    #[error(transparent)]
    Io(#[from] io::Error),
}
