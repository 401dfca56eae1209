//! Finds the virtio port, says hello when the program serves, and reads frames.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{init::say, power, relay::Relay};
use crate::{
    PORT_NAME,
    channel::{Decoder, Frame},
};

/// How often something is looked for that the kernel or the program does not announce to us.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often hello is said.
const HELLO_EVERY: Duration = Duration::from_millis(500);
/// How long the kernel may take to find its devices.
const PORT_LIMIT: Duration = Duration::from_secs(30);

/// Why a guest cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum PortError {
    #[error("no virtio port `{PORT_NAME}` appeared; does this kernel have virtio_pci and virtio_console?")]
    Absent,
    #[error("cannot use the virtio port `{}`", .0.display())]
    Io(PathBuf, #[source] io::Error),
    #[error("cannot read the boot id")]
    BootId(#[source] io::Error),
}

/// The end of the port to which all threads write, one frame at a time.
#[derive(Clone, Debug)]
pub(super) struct PortWriter(Arc<Mutex<File>>);

impl PortWriter {
    /// Writes a frame. Waits while the controller does not read.
    pub(super) fn send(&self, frame: &Frame) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&frame.encode())
    }
}

/// Carries the connections of the program that serves on `socket`, for as long as the guest lives.
pub(super) fn serve(socket: &Path) -> Result<(), PortError> {
    let path = find()?;
    let fail = |error| PortError::Io(path.clone(), error);
    let mut port = OpenOptions::new().read(true).write(true).open(&path).map_err(fail)?;
    let writer = PortWriter(Arc::new(Mutex::new(port.try_clone().map_err(fail)?)));
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(PortError::BootId)?;
    let boot_id = boot_id.trim().to_owned();

    // The program's end is the main thread's concern, so this may wait as long as it likes.
    while UnixStream::connect(socket).is_err() {
        thread::sleep(LOOK_EVERY);
    }
    let answered = Arc::new(AtomicBool::new(false));
    say_hello(&writer, &boot_id, &answered).map_err(fail)?;

    let mut decoder = Decoder::default();
    let mut relay = Relay::new(socket, writer);
    let mut bytes = vec![0; 32 << 10];
    loop {
        let count = match port.read(&mut bytes) {
            // Nobody is at the other end, yet.
            Ok(0) => {
                thread::sleep(LOOK_EVERY);
                continue;
            }
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(fail(error)),
        };
        decoder.push(bytes.get(..count).unwrap_or_default());
        loop {
            match decoder.next() {
                Ok(None) => break,
                Ok(Some(Frame::Ready { boot_id: theirs })) => {
                    if theirs == boot_id {
                        answered.store(true, Ordering::Relaxed);
                    }
                }
                Ok(Some(Frame::PowerOff)) => {
                    thread::spawn(power::off_after_grace);
                }
                Ok(Some(frame)) => relay.take(frame).map_err(fail)?,
                Err(error) => say(&error.to_string()),
            }
        }
    }
}

/// Says hello until it is answered, on a thread of its own.
fn say_hello(writer: &PortWriter, boot_id: &str, answered: &Arc<AtomicBool>) -> io::Result<()> {
    let hello = Frame::Hello { boot_id: boot_id.to_owned() };
    let (writer, answered) = (writer.clone(), Arc::clone(answered));
    thread::Builder::new().name("hello".to_owned()).spawn(move || {
        while !answered.load(Ordering::Relaxed) {
            if let Err(error) = writer.send(&hello) {
                return say(&format!("cannot say hello: {error}"));
            }
            thread::sleep(HELLO_EVERY);
        }
    })?;
    Ok(())
}

/// The device of the port, once the kernel has found it.
fn find() -> Result<PathBuf, PortError> {
    let start = Instant::now();
    while start.elapsed() < PORT_LIMIT {
        let ports = fs::read_dir("/sys/class/virtio-ports").into_iter().flatten().flatten();
        for port in ports.map(|entry| entry.path()) {
            let name = fs::read_to_string(port.join("name")).unwrap_or_default();
            let device = port.file_name().map(|file| Path::new("/dev").join(file));
            if name.trim() == PORT_NAME
                && let Some(device) = device.filter(|device| device.exists())
            {
                return Ok(device);
            }
        }
        thread::sleep(LOOK_EVERY);
    }
    Err(PortError::Absent)
}
