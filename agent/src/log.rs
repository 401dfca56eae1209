//! The agent's log: `agent.log` in its state directory, at most 1 MiB, and one older file of the same size.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Mutex,
};

use tracing::level_filters::LevelFilter;

/// Largest log file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Environment variable that sets the level: `error`, `warn`, `info`, `debug` or `trace`.
const LEVEL_VARIABLE: &str = "DROVER_AGENT_LOG";

/// Sends the events of `tracing`, and panics, to the file at `path`.
///
/// # Errors
/// When the file cannot be opened.
pub fn start(path: &Path) -> io::Result<()> {
    let writer = Mutex::new(BoundedFile::open(path.to_owned())?);
    let level = std::env::var(LEVEL_VARIABLE).ok().and_then(|text| text.parse().ok());
    // Fails only if there is a subscriber already, which then serves as well.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(LevelFilter::INFO))
        .with_ansi(false)
        .with_target(false)
        .with_writer(writer)
        .try_init();
    std::panic::set_hook(Box::new(|info| tracing::error!("a bug in the agent: {info}")));
    Ok(())
}

struct BoundedFile {
    path: PathBuf,
    file: File,
    length: u64,
}

impl BoundedFile {
    fn open(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        let length = file.metadata()?.len();
        Ok(Self { path, file, length })
    }
}

impl Write for BoundedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.length >= MAX_BYTES {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
            *self = Self::open(self.path.clone())?;
        }
        let written = self.file.write(bytes)?;
        self.length = self.length.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_two_bounded_files_when_a_lot_is_logged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.log");
        let mut log = BoundedFile::open(path.clone()).unwrap();
        for _ in 0..40 {
            log.write_all(&[b'x'; 100_000]).unwrap();
        }
        let length = |path: &Path| std::fs::metadata(path).unwrap().len();
        assert!(length(&path) < MAX_BYTES + 100_001);
        assert!(length(&path.with_extension("log.1")) < MAX_BYTES + 100_001);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
