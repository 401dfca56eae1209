//! The other end of the live socket: `attach` and `stop`.

use std::{
    fs::File,
    io::{self, ErrorKind},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use super::{
    Sight,
    sight::{MAX_LINE, STOP},
};

/// Why a controller's socket cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No controller serves it.
    #[error("no controller serves {}", .0.display())]
    Nobody(PathBuf),
    /// It is there and cannot be used.
    #[error("cannot use {}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Why a controller cannot be followed any longer.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// What it says makes no sense to this program.
    #[error("the controller speaks another version: use the program that it was started with")]
    Foreign(#[from] serde_json::Error),
    /// The connection broke.
    #[error("the connection to the controller broke")]
    Broken(#[from] io::Error),
}

/// A connection to the controller of a run.
pub struct Client {
    sights: BufReader<tokio::io::Take<OwnedReadHalf>>,
    requests: OwnedWriteHalf,
    line: Vec<u8>,
}

impl Client {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(path: &Path) -> Result<Self, ConnectError> {
        let failed = |source: io::Error| match source.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => ConnectError::Nobody(path.to_owned()),
            _ => ConnectError::Io { path: path.to_owned(), source },
        };
        let (_folder, short) = through_folder(path).map_err(failed)?;
        let (read, requests) = UnixStream::connect(short).await.map_err(failed)?.into_split();
        Ok(Self { sights: BufReader::new(read.take(MAX_LINE)), requests, line: Vec::new() })
    }

    /// The next thing to see; `None` when the controller has closed its end, or is gone. May be given up and called again.
    ///
    /// # Errors
    /// [`FollowError`].
    pub async fn next(&mut self) -> Result<Option<Sight>, FollowError> {
        match self.sights.read_until(b'\n', &mut self.line).await {
            // A controller that is killed with requests unread.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
            other => other?,
        };
        self.sights.get_mut().set_limit(MAX_LINE);
        let line = std::mem::take(&mut self.line);
        // Half a line is what a controller was killed at.
        if line.ends_with(b"\n") { Ok(Some(serde_json::from_slice(&line)?)) } else { Ok(None) }
    }

    /// Asks the run to stop.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn stop(&mut self) -> Result<(), FollowError> {
        Ok(self.requests.write_all(format!("{STOP}\n").as_bytes()).await?)
    }
}

/// A path by which a socket can be bound or reached however long its own is: addresses of sockets have room for 107 bytes. Holds
/// while the folder is open.
pub fn through_folder(path: &Path) -> io::Result<(File, PathBuf)> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let folder = File::open(path.parent().unwrap_or(Path::new(".")))?;
    let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    Ok((folder, short))
}
