//! `--detach`: the same command again in a process of its own, which lets go of the terminal once the run is under way. Until
//! then it is a part of this one: it prints its mistakes here, Ctrl-C ends both, and its exit status is ours.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    os::{
        fd::OwnedFd,
        unix::net::UnixStream,
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use drover_model::RunId;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdin};
use serde::{Deserialize, Serialize};

use crate::{Context, driver::UnderWay, error::Failure, exit::ExitStatus, screen::Screen};

/// Bytes of the longest word that the run is under way.
const MAX_WORD: u64 = 64 << 10;

/// What the controller says, as a line of JSON, when it lets go.
#[derive(Debug, Serialize, Deserialize)]
struct Word {
    run: RunId,
    log: PathBuf,
    pid: u32,
}

/// Starts the controller and waits until its run is under way.
pub fn start(context: &Context) -> Result<ExitStatus, Failure> {
    let failed = |what: &str, error: &io::Error| {
        Failure::new(ExitStatus::Infrastructure, format!("cannot {what} a controller of its own: {error}"))
    };
    let program = std::env::current_exe().map_err(|error| failed("find the program of", &error))?;
    let (ours, its) = UnixStream::pair().map_err(|error| failed("talk to", &error))?;
    let mut command = Command::new(program);
    // As it was called, so that `ps` shows the command that the user gave.
    command.arg0(std::env::args_os().next().unwrap_or_else(|| "drover".into()));
    command.arg("--handover").args(std::env::args_os().skip(1)).stdin(Stdio::from(OwnedFd::from(its)));
    let mut controller = command.spawn().map_err(|error| failed("start", &error))?;
    // With its end of the pair, which only the controller shall hold.
    drop(command);
    let mut word = String::new();
    let read = BufReader::new(ours.take(MAX_WORD)).read_line(&mut word);
    if let (Ok(_), Ok(word)) = (&read, serde_json::from_str::<Word>(&word)) {
        let _ = context.screen.out(&format!("{}\n", word.run));
        context.screen.say(&format!("run {} goes on by itself (process {})", word.run, word.pid));
        context.screen.say(&format!("  watch it  drover attach {}", word.run));
        context.screen.say(&format!("  stop it   drover stop {}", word.run));
        context.screen.say(&format!("  its log   {}", word.log.display()));
        return Ok(ExitStatus::Ok);
    }
    let status = controller.wait().map_err(|error| failed("wait for", &error))?;
    match status.code().and_then(ExitStatus::of_code) {
        // It has said why.
        Some(status) => Ok(status),
        None => {
            let how = match status.signal() {
                Some(signal) => format!("by signal {signal}"),
                None => format!("with {status}"),
            };
            let text = format!("the controller ended {how} before its run was under way");
            Err(Failure::new(ExitStatus::Infrastructure, text))
        }
    }
}

/// What the controller does when its run is under way: leaves the terminal and its session, says so, and has everything that
/// would be printed written into the run's log.
///
/// # Errors
/// The log cannot be written: nobody would learn what becomes of the run.
pub fn hand_over(run: RunId, log: &Path, screen: &Screen) -> Result<UnderWay, Failure> {
    let file = File::options().append(true).open(log).map_err(|error| {
        let text = format!("the run's log {} cannot be written: {error}", log.display());
        Failure::new(ExitStatus::Infrastructure, text)
    })?;
    let word = Word { run, log: log.to_owned(), pid: std::process::id() };
    let screen = screen.clone();
    Ok(Box::new(move || {
        // One that leads a group cannot, and has a session of its own as good as.
        let _ = rustix::process::setsid();
        let mut line = serde_json::to_vec(&word)?;
        line.push(b'\n');
        File::from(stdin().try_clone_to_owned()?).write_all(&line)?;
        screen.leave();
        dup2_stdout(&file)?;
        dup2_stderr(&file)?;
        Ok(dup2_stdin(File::open("/dev/null")?)?)
    }))
}
