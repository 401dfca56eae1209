//! Brings the agent to the host, starts it, and gets a channel to it.

use std::time::Duration;

use ssh2::Channel;
use uuid::Uuid;

use super::{
    SshError, SshOptions,
    exec::{Output, ignore_errors, run, start, status, take},
    program::load,
    script::MARK,
    wire::{Step, Wire},
};

const PROBE: &str = include_str!("probe.sh");
const INSTALL: &str = include_str!("install.sh");
/// Arguments: the program, then its arguments.
const RUN: &str = "exec \"$@\"\n";

/// Exit code of a shell for a command that may not be executed.
const NOT_EXECUTABLE: &str = "126";

/// Time without progress after which an upload is given up.
const STALLED: Duration = Duration::from_secs(60);
/// Time for an agent to start: it may have to end what an earlier one left behind, or wait for another controller.
const START_LIMIT: Duration = Duration::from_secs(60);

/// What the host is like.
#[derive(Debug)]
pub(super) struct Probed {
    /// The agent's directory.
    pub dir: String,
    /// What `uname -sm` says.
    pub system: String,
    /// The host's address as it sees this connection.
    pub address: String,
    /// Our version of the agent is there.
    has_agent: bool,
    /// An agent's socket is there.
    has_socket: bool,
}

/// A channel to the agent.
pub(super) struct Joined {
    pub channel: Channel,
    /// What was read from it already.
    pub first: Vec<u8>,
}

/// Looks at the host.
pub(super) fn probe(wire: &Wire, options: &SshOptions) -> Result<Probed, SshError> {
    let dir = options.dir.as_deref().unwrap_or_default();
    let probed = run(wire, "look at the host", PROBE, &[dir, &options.agent.hash], &[], || ())?;
    if probed.line("end").is_none() {
        return Err(SshError::Shell { host: host(wire), status: probed.status.clone(), said: probed.all() });
    }
    let text = |word| probed.line(word).unwrap_or_default().to_owned();
    if let Some(why) = probed.line("bad") {
        return Err(SshError::Dir { host: host(wire), dir: text("dir"), said: why.to_owned() });
    }
    Ok(Probed {
        dir: text("dir"),
        system: text("system"),
        address: text("address"),
        has_agent: probed.line("agent").is_some(),
        has_socket: probed.line("socket").is_some(),
    })
}

/// Gets a channel to the host's agent; brings and starts one if there is none.
pub(super) fn join(wire: &Wire, options: &SshOptions, probed: &Probed) -> Result<Joined, SshError> {
    if probed.has_socket {
        if let Some(channel) = open_socket(wire, probed)? {
            return Ok(Joined { channel, first: Vec::new() });
        }
        // Nobody listens, or the server forbids it: it does not say which.
        if probed.has_agent
            && let Ok(joined) = bridge(wire, options, probed)?
        {
            return Ok(joined);
        }
    }
    if !probed.has_agent {
        install(wire, options, probed)?;
    }
    start_agent(wire, options, probed)?;
    if let Some(channel) = open_socket(wire, probed)? {
        return Ok(Joined { channel, first: Vec::new() });
    }
    bridge(wire, options, probed)?.map_err(|(status, said)| SshError::Bridge {
        host: host(wire),
        status,
        said,
    })
}

fn host(wire: &Wire) -> String {
    wire.host().to_owned()
}

/// A channel to the socket; `None` if the host does not open one.
fn open_socket(wire: &Wire, probed: &Probed) -> Result<Option<Channel>, SshError> {
    let path = format!("{}/agent.sock", probed.dir);
    let opened = wire.finish("connect to the agent", || {
        match wire.session().channel_direct_streamlocal(&path, None) {
            Ok(channel) => Ok(Some(channel)),
            Err(error)
                if error.code() == ssh2::ErrorCode::Session(libssh2_sys::LIBSSH2_ERROR_CHANNEL_FAILURE) =>
            {
                tracing::debug!("{}: no channel to {path}: {error}", wire.host());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    })?;
    Ok(opened)
}

/// Stores the agent on the host.
fn install(wire: &Wire, options: &SshOptions, probed: &Probed) -> Result<(), SshError> {
    let agent = &options.agent;
    let file = |source| SshError::File { host: host(wire), action: "read", path: agent.path.clone(), source };
    let program = load(agent).map_err(file)?;
    let bytes = &program.bytes;
    if let Some(built_for) = agent.not_for(bytes, &probed.system) {
        let (host, path) = (host(wire), agent.path.clone());
        return Err(SshError::Machine { host, machine: probed.system.clone(), path, built_for });
    }
    tracing::info!("{}: storing the agent in {} ({} bytes)", wire.host(), probed.dir, bytes.len());
    let (checksum, size) = (program.checksum.to_string(), bytes.len().to_string());
    let temporary = format!("upload-{}", Uuid::now_v7());
    let mut arguments =
        vec![probed.dir.as_str(), agent.hash.as_str(), temporary.as_str(), checksum.as_str(), size.as_str()];
    arguments.extend(agent.args.iter().map(String::as_str));
    wire.allow(STALLED);
    let done = run(wire, "store the agent", INSTALL, &arguments, bytes, || wire.allow(STALLED))?;
    if done.line("end").is_some() {
        return Ok(());
    }
    Err(not_installed(wire, options, probed, &done))
}

fn not_installed(wire: &Wire, options: &SshOptions, probed: &Probed, done: &Output) -> SshError {
    let (host, dir) = (host(wire), probed.dir.clone());
    let failed = done.line("failed").unwrap_or_default();
    let (step, why) = failed.split_once(' ').unwrap_or((failed, ""));
    let said = format!("{why} {}", done.errors).trim().to_owned();
    match step {
        "dir" => SshError::Dir { host, dir, said },
        "store" => SshError::Store { host, dir, said },
        "run" => {
            let (code, said) = said.split_once(' ').unwrap_or((&said, "it said nothing"));
            let (path, denied) = (options.agent.path.clone(), code == NOT_EXECUTABLE);
            SshError::Run { host, path, said: said.to_owned(), denied }
        }
        _ => SshError::Shell { host, status: done.status.clone(), said: done.all() },
    }
}

/// Starts an agent unless one serves by now.
fn start_agent(wire: &Wire, options: &SshOptions, probed: &Probed) -> Result<(), SshError> {
    let linger = format!("{}ms", options.linger.as_millis());
    let during = "start the agent";
    wire.allow(START_LIMIT);
    match until_ready(wire, during, options, probed, &["start", "--dir", &probed.dir, "--linger", &linger])? {
        // Without waiting for the end of its output: some login shells (csh) leave descriptors to whatever they start,
        // so that the agent holds them.
        Ok(mut joined) => wire.finish(during, || joined.channel.close()),
        Err((status, said)) => {
            Err(SshError::Start { host: host(wire), dir: probed.dir.clone(), status, said })
        }
    }
}

/// A channel to a process on the host that passes everything on to the agent's socket; or how it ended, and what it said.
fn bridge(wire: &Wire, options: &SshOptions, probed: &Probed) -> Result<Result<Joined, Ended>, SshError> {
    let during = "bridge to the agent";
    let mut bridged = until_ready(wire, during, options, probed, &["bridge", "--dir", &probed.dir])?;
    if let Ok(joined) = &mut bridged {
        ignore_errors(wire, during, &mut joined.channel)?;
    }
    Ok(bridged)
}

/// How a command ended, and what it said.
type Ended = (String, String);

/// Runs the agent's program until it says that it is ready.
fn until_ready(
    wire: &Wire,
    during: &'static str,
    options: &SshOptions,
    probed: &Probed,
    command: &[&str],
) -> Result<Result<Joined, Ended>, SshError> {
    let program = format!("{}/bin/drover-agent-{}", probed.dir, options.agent.hash);
    let mut arguments = vec![program.as_str()];
    arguments.extend(options.agent.args.iter().map(String::as_str));
    arguments.extend(command);
    let mut channel = start(wire, during, RUN, &arguments)?;
    let ready = format!("{MARK} ready\n");
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        let mut moved = take(wire, during, Step::Read, &mut channel, &mut stdout)?;
        moved |= take(wire, during, Step::ReadError, &mut channel.stderr(), &mut stderr)?;
        if let Some(at) = stdout.windows(ready.len()).position(|window| window == ready.as_bytes()) {
            return Ok(Ok(Joined { channel, first: stdout.split_off(at + ready.len()) }));
        }
        if wire.unfinished().is_none() && channel.eof() {
            wire.close(during, &mut channel)?;
            let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
            return Ok(Err((status(&channel), said.join(" ").trim().to_owned())));
        }
        if !moved {
            wire.wait(during)?;
        }
    }
}
