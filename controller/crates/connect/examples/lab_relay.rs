//! Delays what passes between two TAP devices, for the lab (`scripts/lab delay`): each direction on its own, in order, in a
//! bounded queue. Makes both devices, says `ready` and relays until it is ended; the devices end with it.
//!
//! `lab_relay TAP_OF_HOST TAP_OF_SWITCH OUT_MS IN_MS`, with `out` from the host to the switch; fractions of milliseconds count.

use std::{
    collections::VecDeque,
    error::Error,
    io::Write,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{Mode, OFlags},
    io::Errno,
    thread::CpuSet,
};

/// Longest delay of a direction.
const LONGEST: Duration = Duration::from_secs(10);

/// Most frames of a direction under way; those that come when it is full are lost. 100 MiB with frames of 1514 bytes.
const FRAMES: usize = 65_536;

/// Most frames read from one device before due ones are sent.
const BATCH: usize = 64;

/// Room for the longest frame of a device.
const FRAME: usize = 65_536;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, switch, out, back] = arguments.as_slice() else {
        return Err("usage: lab_relay TAP_OF_HOST TAP_OF_SWITCH OUT_MS IN_MS".into());
    };
    let (out, back) = (delay(out)?, delay(back)?);
    let (host, switch) = (open(host)?, open(switch)?);
    // What one CPU sends may overtake what another has sent before.
    let mut here = CpuSet::new();
    here.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &here)?;
    writeln!(std::io::stdout(), "ready")?;
    relay([Direction::new(&host, &switch, out), Direction::new(&switch, &host, back)])
}

/// Milliseconds as given on the command line.
fn delay(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no delay: give milliseconds from 0 to {}", LONGEST.as_millis());
    let millis: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(millis / 1000.0).ok().filter(|delay| *delay <= LONGEST).ok_or_else(wrong)
}

/// `struct ifreq`, as far as TUNSETIFF reads it.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// TUNSETIFF, and its flags: frames instead of packets, nothing put before them.
const SET_INTERFACE: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<i32>(b'T', 202);
const TAP: u16 = 0x0002;
const NO_PREFIX: u16 = 0x1000;

/// Makes the TAP device and opens it without blocking.
#[expect(unsafe_code, reason = "the kernel makes TAP devices by an ioctl only")]
fn open(name: &str) -> Result<OwnedFd, String> {
    let failed = |error: Errno| format!("cannot make the TAP device {name}: {error}");
    let mut request = Request { name: [0; 16], flags: TAP | NO_PREFIX, rest: [0; 22] };
    // The last byte stays zero and ends the name.
    let place = request.name[..15].get_mut(..name.len()).ok_or_else(|| failed(Errno::NAMETOOLONG))?;
    place.copy_from_slice(name.as_bytes());
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/net/tun", flags, Mode::empty()).map_err(failed)?;
    // SAFETY: for this opcode the kernel reads and writes one `struct ifreq`, which has the size and layout of `Request`.
    unsafe {
        rustix::ioctl::ioctl(&device, rustix::ioctl::Updater::<SET_INTERFACE, Request>::new(&mut request))
    }
    .map_err(failed)?;
    Ok(device)
}

/// Frames on their way from one device to the other.
struct Direction<'a> {
    from: &'a OwnedFd,
    to: &'a OwnedFd,
    delay: Duration,
    /// When each is due; in order, because all wait equally long.
    queue: VecDeque<(Instant, Box<[u8]>)>,
}

impl<'a> Direction<'a> {
    fn new(from: &'a OwnedFd, to: &'a OwnedFd, delay: Duration) -> Self {
        Self { from, to, delay, queue: VecDeque::new() }
    }

    /// Reads what is there, a batch at most.
    fn take(&mut self, buffer: &mut [u8]) -> Result<(), Errno> {
        for _ in 0..BATCH {
            match rustix::io::read(self.from, &mut *buffer) {
                Ok(length) if self.queue.len() < FRAMES => {
                    self.queue.push_back((Instant::now() + self.delay, buffer[..length].into()));
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends what is due. A device that is down loses frames, as a pulled cable does.
    fn deliver(&mut self) -> Result<(), Errno> {
        while let Some((due, frame)) = self.queue.front() {
            if *due > Instant::now() {
                break;
            }
            match rustix::io::retry_on_intr(|| rustix::io::write(self.to, frame)) {
                Ok(_) | Err(Errno::IO | Errno::AGAIN | Errno::NOBUFS) => {}
                Err(error) => return Err(error),
            }
            self.queue.pop_front();
        }
        Ok(())
    }
}

fn relay(mut directions: [Direction<'_>; 2]) -> Result<(), Box<dyn Error>> {
    let mut buffer = vec![0; FRAME];
    loop {
        let due =
            directions.iter().filter_map(|direction| direction.queue.front()).map(|(due, _)| *due).min();
        let wait =
            due.map(|due| Timespec::try_from(due.saturating_duration_since(Instant::now()))).transpose()?;
        let mut watched = directions.each_ref().map(|direction| PollFd::new(direction.from, PollFlags::IN));
        match rustix::event::poll(&mut watched, wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for direction in &mut directions {
            direction.take(&mut buffer)?;
            direction.deliver()?;
        }
    }
}
