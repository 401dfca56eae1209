//! Switches hosts off and on: the commands of the host file, run on this machine without a shell, in a bounded time, with what
//! they print in the run's log.

use std::{process::Stdio, time::Duration};

use drover_matrix::Power;
use drover_model::Name;
use drover_sched::Event;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
    time::timeout,
};

use super::{drive::Driver, internal_event::InternalEvent};

/// Longest time for one command.
const LIMIT: Duration = Duration::from_secs(120);
/// Time for the rest of its output, which something that it started may hold open.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Bytes kept of what it prints, on standard output and on standard error.
const KEPT: usize = 4096;

impl Driver {
    /// Has the power of a host cycled; what is still said on its connection counts no more.
    pub(super) fn cycle_power(&mut self, host: Name, why: &str) {
        self.note_cycle(&host);
        self.links.remove(&host);
        self.generations.remove(&host);
        self.progress.notice(&format!("{why}; its power is cycled"));
        tracing::info!("{why}; the power of {host} is cycled");
        let events = self.events.clone();
        let power = self.hosts.get(&host).and_then(|setup| setup.power.clone());
        // Awaited at the end of the run: a host is not left switched off.
        self.cycling.spawn(async move {
            let problem = match power {
                Some(power) => cycle(&host, &power).await.err(),
                None => Some("the host file has no power command".to_owned()),
            };
            let event = Event::PowerCycled { host, problem };
            let _ = events.send(InternalEvent::Scheduler(event));
        });
    }

    /// The power of a host was cycled.
    pub(super) fn note_power(&mut self, host: &Name, problem: Option<&str>) {
        match (problem, self.hosts.get(host).and_then(|setup| setup.power.as_ref())) {
            (None, Some(power)) => {
                let within = power.within.as_secs();
                self.progress
                    .notice(&format!("the power of {host} was cycled; it has {within} s to come back"));
            }
            (Some(problem), _) => {
                self.progress.notice(&format!("the power of {host} could not be cycled: {problem}"));
            }
            (None, None) => {}
        }
    }
}

/// Runs the commands one after the other; says why not, if one fails.
async fn cycle(host: &Name, power: &Power) -> Result<(), String> {
    for command in &power.commands {
        let words = shell_words::join(command);
        let (end, said) = run(command).await;
        let how = end.as_ref().map_or_else(String::as_str, |()| "is done");
        tracing::info!("power of {host}: `{words}` {how}");
        for line in said.lines() {
            tracing::info!("power of {host}: | {}", drover_report::printable_lines(line));
        }
        let last = said.lines().last().unwrap_or_default();
        end.map_err(|why| {
            if last.is_empty() { format!("`{words}` {why}") } else { format!("`{words}` {why}: {last}") }
        })?;
    }
    Ok(())
}

/// How a command ended, and what it printed.
async fn run(command: &[String]) -> (Result<(), String>, String) {
    let Some((program, arguments)) = command.split_first() else { return (Ok(()), String::new()) };
    let mut process = Command::new(program);
    process.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own: Ctrl-C is not for it, and all of it can be ended.
    process.process_group(0);
    let mut child = match process.spawn() {
        Ok(child) => child,
        Err(error) => return (Err(format!("cannot be run: {error}")), String::new()),
    };
    let group = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let end = {
        let mut reading = std::pin::pin!(async {
            tokio::join!(keep(stdout, &mut out), keep(stderr, &mut err));
        });
        let mut ending = std::pin::pin!(timeout(LIMIT, child.wait()));
        let mut open = true;
        let end = loop {
            tokio::select! {
                end = &mut ending => break end,
                () = &mut reading, if open => open = false,
            }
        };
        if end.is_err() {
            let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        }
        if open {
            let _ = timeout(LAST_WORDS, reading).await;
        }
        end
    };
    if !out.is_empty() && !out.ends_with(b"\n") {
        out.push(b'\n');
    }
    out.append(&mut err);
    let said = String::from_utf8_lossy(&out).into_owned();
    let end = match end {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("failed ({status})")),
        Ok(Err(error)) => Err(format!("cannot be waited for: {error}")),
        Err(_) => Err(format!("did not end within {} s and was killed", LIMIT.as_secs())),
    };
    (end, said)
}

/// Reads all of it, and keeps the beginning.
async fn keep(stream: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut stream) = stream else { return };
    let mut chunk = [0; 1024];
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        let room = KEPT.saturating_sub(kept.len()).min(read);
        kept.extend_from_slice(&chunk[..room]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn power(commands: &[&[&str]]) -> Power {
        let words = |command: &&[&str]| command.iter().map(|word| (*word).to_owned()).collect();
        Power { commands: commands.iter().map(words).collect(), within: Duration::from_secs(1), times: 1 }
    }

    async fn tried(commands: &[&[&str]]) -> Result<(), String> {
        cycle(&"h".parse().unwrap(), &power(commands)).await
    }

    #[tokio::test]
    async fn expect_all_commands_in_their_order_when_they_succeed() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
        assert_eq!(tried(&[&["touch", a], &["mv", a, b]]).await, Ok(()));
        assert!(std::path::Path::new(b).exists());
    }

    #[tokio::test]
    async fn expect_the_reason_and_no_further_command_when_one_fails() {
        let dir = tempfile::tempdir().unwrap();
        let never = dir.path().join("never");
        let fails: &[&str] = &["sh", "-c", "echo; yes | head -c 100000; echo no such outlet >&2; exit 3"];
        let why = tried(&[fails, &["touch", never.to_str().unwrap()]]).await.unwrap_err();
        assert!(why.ends_with("failed (exit status: 3): no such outlet"), "{why}");
        assert!(!never.exists());
        let why = tried(&[&["/no/such/program"]]).await.unwrap_err();
        assert!(why.starts_with("`/no/such/program` cannot be run: No such file"), "{why}");
    }

    #[tokio::test]
    async fn expect_an_end_when_something_that_a_command_started_keeps_its_output_open() {
        let (end, said) = run(&["sh".into(), "-c".into(), "sleep 600 & echo $!".into()]).await;
        let left = said.trim().parse().ok().and_then(Pid::from_raw).unwrap();
        rustix::process::kill_process(left, Signal::KILL).unwrap();
        assert_eq!(end, Ok(()));
    }
}
