//! Turning the guest off: when its program has ended, and when somebody presses the power button (`system_powerdown`).

use std::{
    fs::{self, File},
    io::Read,
    path::PathBuf,
    process::ExitCode,
    thread,
    time::Duration,
};

use rustix::{
    process::{Pid, Signal, kill_process},
    system::{RebootCommand, reboot},
};

use super::init::say;

/// An event of an input device (`struct input_event`): times, kind, code, value.
const EVENT: usize = 24;
/// `EV_KEY` and `KEY_POWER`.
const KEY: u16 = 1;
const POWER: u16 = 116;

/// How long processes may take to end by themselves, before the power goes.
const GRACE: Duration = Duration::from_secs(2);

/// Writes everything to disks and powers off. Returns only if the kernel refuses.
pub(super) fn off() -> ExitCode {
    say("powering off");
    rustix::fs::sync();
    if let Err(error) = reboot(RebootCommand::PowerOff) {
        say(&format!("cannot power off: {error}"));
    }
    ExitCode::FAILURE
}

/// Asks all processes to end, and powers off.
pub(super) fn off_after_grace() {
    for pid in pids() {
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::TERM);
    }
    // When the program ends first, the main thread powers off without waiting for this.
    thread::sleep(GRACE);
    off();
}

/// All processes but this one.
fn pids() -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|number| *number > 1).filter_map(Pid::from_raw).collect()
}

/// Waits for the power button, on every input device that there is now.
pub(super) fn watch_buttons() {
    let entries = fs::read_dir("/dev/input").into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let is_event =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("event"));
        if is_event && let Err(error) = thread::Builder::new().name("button".to_owned()).spawn(|| watch(path))
        {
            say(&format!("cannot watch for the power button: {error}"));
        }
    }
}

fn watch(path: PathBuf) {
    let Ok(mut device) = File::open(&path) else { return };
    let mut event = [0; EVENT];
    while device.read_exact(&mut event).is_ok() {
        if pressed(&event) == Some(true) {
            say("the power button was pressed");
            return off_after_grace();
        }
    }
}

/// Whether this is the power button going down.
fn pressed(event: &[u8; EVENT]) -> Option<bool> {
    let kind = u16::from_ne_bytes(event.get(16..18)?.try_into().ok()?);
    let code = u16::from_ne_bytes(event.get(18..20)?.try_into().ok()?);
    let value = i32::from_ne_bytes(event.get(20..24)?.try_into().ok()?);
    Some(kind == KEY && code == POWER && value == 1)
}
