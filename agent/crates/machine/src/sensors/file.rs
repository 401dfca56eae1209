//! A file of `/proc` or `/sys` that is opened once and read again and again.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

/// First size of the buffer that all files share.
pub(crate) const BUFFER: usize = 32 * 1024;
/// Larger than any of these files.
const BUFFER_MAX: usize = 4 << 20;

/// An open file.
#[derive(Debug)]
pub(crate) struct SensorFile {
    file: File,
}

impl SensorFile {
    /// Opens a file.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)? })
    }

    /// Reads it whole into `buffer`, which grows if it must and is never made smaller. These files give a consistent answer only if
    /// they are read in one go, so a buffer that was too small is filled again from the start.
    pub(crate) fn read<'a>(&self, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        loop {
            let length = fill(&self.file, buffer)?;
            if length < buffer.len() {
                return Ok(buffer.get(..length).unwrap_or_default());
            }
            if buffer.len() >= BUFFER_MAX {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            buffer.resize((buffer.len() * 2).max(BUFFER), 0);
        }
    }
}

/// Reads until the end of the file or of the buffer.
fn fill(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        let offset = u64::try_from(length).map_err(io::Error::other)?;
        match file.read_at(rest, offset) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_whole_file_when_it_outgrows_the_buffer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "short").unwrap();
        let file = SensorFile::open(&path).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(file.read(&mut buffer).unwrap(), b"short");
        let long = "0123456789".repeat(10_000);
        std::fs::write(&path, &long).unwrap();
        assert_eq!(file.read(&mut buffer).unwrap(), long.as_bytes());
        std::fs::write(&path, "short").unwrap();
        assert_eq!(file.read(&mut buffer).unwrap(), b"short");
    }
}
