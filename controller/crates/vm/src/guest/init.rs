//! The life of a guest, from its first process to power off.

use std::{
    fs, io,
    path::Path,
    process::{Command, ExitCode, Stdio},
    thread,
};

use rustix::{
    io::Errno,
    process::{Resource, Rlimit, WaitOptions, WaitStatus, getpid, setrlimit, wait},
};

use super::{
    config::{CONFIG_PATH, GuestConfig},
    lo, mounts, port, power,
};

/// Settings of the kernel, in `/proc/sys`.
const SETTINGS: [(&str, &str); 3] = [
    // Whoever tests a kernel may ask it for everything.
    ("kernel/sysrq", "1"),
    // A machine that does not answer gets an interrupt that it cannot mask: it says what it was doing, and ends.
    ("kernel/unknown_nmi_panic", "1"),
    // The kernel makes room for closed connections by the memory there is, which is little.
    ("net/ipv4/tcp_max_tw_buckets", "262144"),
];

/// Files that the program and all that it starts may have open.
const OPEN_FILES: u64 = 1 << 20;

/// Why a guest cannot start its program.
#[derive(Debug, thiserror::Error)]
enum InitError {
    #[error("cannot read `{CONFIG_PATH}`")]
    Config(#[source] io::Error),
    #[error("`{CONFIG_PATH}` is damaged")]
    Json(#[source] serde_json::Error),
    #[error("`{CONFIG_PATH}` names no program")]
    NoProgram,
    #[error("cannot start `{0}`")]
    Program(String, #[source] io::Error),
}

/// Whether this program was started as the first process of a guest: then it is to be nothing but [`init`].
#[must_use]
pub fn is_init() -> bool {
    getpid().is_init() && std::env::args_os().next().is_some_and(|name| name == "/init")
}

/// Is the first process of a guest. Returns only if it is not that.
pub fn init() -> ExitCode {
    if !getpid().is_init() {
        eprintln!("drover-init: this is the first process of drover's virtual machines, of no use elsewhere");
        return ExitCode::from(2);
    }
    say("starting");
    if let Err(error) = run() {
        say(&chain(&error));
    }
    power::off()
}

/// Sets the guest up and returns when the program has ended.
fn run() -> Result<(), InitError> {
    mounts::mount_all();
    let config = fs::read(CONFIG_PATH).map_err(InitError::Config)?;
    let config: GuestConfig = serde_json::from_slice(&config).map_err(InitError::Json)?;
    for module in &config.modules {
        if let Err(error) = load(module) {
            say(&format!("cannot load `{}`: {error}", module.display()));
        }
    }
    if let Err(error) = lo::up() {
        say(&format!("cannot bring up the loopback interface: {error}"));
    }
    for (setting, value) in SETTINGS {
        if let Err(error) = fs::write(Path::new("/proc/sys").join(setting), value) {
            say(&format!("cannot set `{setting}`: {error}"));
        }
    }
    // What is usual on servers; the kernel's own limit is for terminals.
    let limit = Rlimit { current: Some(OPEN_FILES), maximum: Some(OPEN_FILES) };
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        say(&format!("cannot allow {OPEN_FILES} open files: {error}"));
    }
    power::watch_buttons();

    let (program, args) = config.argv.split_first().ok_or(InitError::NoProgram)?;
    let child = Command::new(program)
        .args(args)
        .env_clear()
        .envs([("PATH", "/bin:/usr/bin:/sbin:/usr/sbin"), ("HOME", "/root"), ("TERM", "dumb")])
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| InitError::Program(program.clone(), error))?;
    let socket = config.socket;
    thread::Builder::new()
        .name("port".to_owned())
        .spawn(move || {
            // Without it nobody can reach the guest: the console says why, and the controller's limit ends it.
            if let Err(error) = port::serve(&socket) {
                say(&chain(&error));
            }
        })
        .map_err(|error| InitError::Program("thread".to_owned(), error))?;
    let status = reap_until(child.id());
    say(&format!("`{program}` ended: {status}"));
    Ok(())
}

/// Loads a module; one that is loaded already is fine.
fn load(path: &Path) -> io::Result<()> {
    let file = fs::File::open(path)?;
    match rustix::system::finit_module(&file, c"", 0) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Collects whatever ends, ours or an orphan, until the process `program` has; what became of it.
fn reap_until(program: u32) -> String {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if u32::try_from(pid.as_raw_nonzero().get()) == Ok(program) => {
                return ending(status);
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return format!("lost: {error}"),
        }
    }
}

fn ending(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}

/// Says something on the console.
pub(super) fn say(text: &str) {
    println!("drover-init: {text}");
}

/// An error and all that it comes from.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
