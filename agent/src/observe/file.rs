//! The file with an attempt's samples: appended to by its observer, read by whoever asks.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
};

use drover_proto::{MAX_CHUNK_BYTES, Refusal, v1};
use tokio_stream::Stream;
use tonic::Status;

/// Largest file; a day of a second each takes about a third of it.
const MAX_BYTES: u64 = 64 << 20;

/// Further than any file goes.
const BEYOND: u64 = 1 << 40;

/// Where samples go.
#[derive(Debug)]
pub(super) struct Samples {
    path: PathBuf,
    file: File,
    length: u64,
    max: u64,
}

impl Samples {
    /// Opens the file, or makes it.
    pub(super) fn open(path: &Path) -> Result<Self, SamplesError> {
        let fail = |source| SamplesError::Io { path: path.to_owned(), source };
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(fail)?;
        let length = file.metadata().map_err(fail)?.len();
        Ok(Self { path: path.to_owned(), file, length, max: MAX_BYTES })
    }

    /// Adds whole frames.
    pub(super) fn append(&mut self, frames: &[u8]) -> Result<(), SamplesError> {
        let length = self.length.saturating_add(u64::try_from(frames.len()).unwrap_or(u64::MAX));
        if length > self.max {
            return Err(SamplesError::Full { path: self.path.clone(), bytes: self.length });
        }
        let written = io::Write::write_all(&mut self.file, frames);
        if let Err(source) = written {
            // What was written of it is no frame.
            let _ = self.file.set_len(self.length);
            return Err(SamplesError::Io { path: self.path.clone(), source });
        }
        self.length = length;
        Ok(())
    }
}

/// Why samples are not kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum SamplesError {
    #[error("samples cannot be written to `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("`{}` has {bytes} bytes of samples, which is as much as it may", path.display())]
    Full { path: PathBuf, bytes: u64 },
}

/// The samples of an attempt from a byte on, as far as they are written; none if it was not observed.
///
/// # Errors
/// When the file cannot be opened.
pub fn open(path: &Path, from: u64) -> io::Result<ObservedStream> {
    // Beyond is nothing, and the kernel refuses to look.
    let from = from.min(BEYOND);
    match File::open(path) {
        Ok(file) => Ok(ObservedStream { file: Some(file), at: from }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ObservedStream { file: None, at: from }),
        Err(error) => Err(error),
    }
}

/// Bytes of samples, in chunks.
#[derive(Debug)]
pub struct ObservedStream {
    /// `None` when it is over.
    file: Option<File>,
    at: u64,
}

impl ObservedStream {
    fn chunk(&mut self) -> io::Result<Vec<u8>> {
        let Some(file) = self.file.take() else { return Ok(Vec::new()) };
        let mut chunk = vec![0; MAX_CHUNK_BYTES];
        let length = file.read_at(&mut chunk, self.at)?;
        chunk.truncate(length);
        self.at = self.at.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        self.file = Some(file);
        Ok(chunk)
    }
}

impl Stream for ObservedStream {
    type Item = Result<v1::FetchChunk, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(match self.chunk() {
            Ok(chunk) if chunk.is_empty() => None,
            Ok(chunk) => Some(Ok(v1::FetchChunk { data: chunk.into() })),
            Err(error) => {
                Some(Err(Refusal::NoOutput.status(format!("the samples cannot be read further: {error}"))))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_whole_frames_only_when_the_file_is_full() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("samples");
        let mut samples = Samples { max: 10, ..Samples::open(&path).unwrap() };
        samples.append(b"123456").unwrap();
        let error = samples.append(b"12345").unwrap_err().to_string();
        assert!(error.contains("as much as it may"), "{error}");
        samples.append(b"1234").unwrap();
        drop(samples);
        Samples::open(&path).unwrap().append(b"5").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"12345612345");
        assert_eq!(open(&path, 9).unwrap().chunk().unwrap(), b"45");
        assert_eq!(open(&dir.path().join("none"), 0).unwrap().chunk().unwrap(), b"");
    }
}
