//! Carries one stream at a time between the virtio port and the program's socket. One is enough: above it is HTTP/2, which
//! carries many calls itself.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    thread,
};

use super::{init::say, port::PortWriter};
use crate::channel::{Frame, MAX_DATA};

/// The stream that is open, if one is.
pub(super) struct Relay {
    socket: PathBuf,
    port: PortWriter,
    open: Option<(u32, UnixStream)>,
}

impl Relay {
    pub(super) fn new(socket: &Path, port: PortWriter) -> Self {
        Self { socket: socket.to_owned(), port, open: None }
    }

    /// Does what a frame asks for.
    ///
    /// # Errors
    /// When the port fails. What fails at the program ends the stream only.
    pub(super) fn take(&mut self, frame: Frame) -> io::Result<()> {
        match frame {
            Frame::Open(stream) => {
                self.close();
                match self.connect(stream) {
                    Ok(connection) => self.open = Some((stream, connection)),
                    Err(error) => {
                        say(&format!("cannot connect to `{}`: {error}", self.socket.display()));
                        self.port.send(&Frame::Close(stream))?;
                    }
                }
            }
            Frame::Data(stream, bytes) => {
                if let Some((open, connection)) = &mut self.open
                    && *open == stream
                    && connection.write_all(&bytes).is_err()
                {
                    // The thread that reads from it says that it is closed.
                    self.close();
                }
            }
            Frame::Close(stream) => {
                if self.open.as_ref().is_some_and(|(open, _)| *open == stream) {
                    self.close();
                }
            }
            Frame::Hello { .. } | Frame::Ready { .. } | Frame::PowerOff => {}
        }
        Ok(())
    }

    fn connect(&self, stream: u32) -> io::Result<UnixStream> {
        let connection = UnixStream::connect(&self.socket)?;
        let from = connection.try_clone()?;
        let port = self.port.clone();
        thread::Builder::new().name("stream".to_owned()).spawn(move || {
            if let Err(error) = carry(stream, from, &port) {
                say(&format!("cannot write to the virtio port: {error}"));
            }
        })?;
        Ok(connection)
    }

    fn close(&mut self) {
        if let Some((_, connection)) = self.open.take() {
            // It may be closed from the other side.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

/// Carries what the program says to the port, until it closes the connection.
fn carry(stream: u32, mut from: UnixStream, port: &PortWriter) -> io::Result<()> {
    let mut bytes = vec![0; MAX_DATA];
    loop {
        match from.read(&mut bytes) {
            Ok(0) | Err(_) => return port.send(&Frame::Close(stream)),
            Ok(count) => {
                port.send(&Frame::Data(stream, bytes.get(..count).unwrap_or_default().to_vec()))?;
            }
        }
    }
}
