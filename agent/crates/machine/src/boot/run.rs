//! Runs a short command to its end, within a limit.

use std::{
    io::{self, Read},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};

/// Lines and bytes of output that are shown, the last ones.
const SHOWN_LINES: usize = 5;
const KEPT_BYTES: usize = 4096;

/// Longest wait for output after the end: a process that was left behind may keep the pipe.
const OUTPUT_LIMIT: Duration = Duration::from_secs(3);

/// Where programs of administrators are, besides what the agent was started with.
const MORE_PLACES: &str = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin";

/// Why a command did not do what it was run for.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No program is named.
    #[error("the command is empty")]
    Empty,
    /// It cannot be started.
    #[error("cannot run `{program}`")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It took too long and was killed.
    #[error("`{program}` was not over after {} s and was killed{}", limit.as_secs(), tail(said))]
    Slow {
        /// The program.
        program: String,
        /// The limit.
        limit: Duration,
        /// The end of its output.
        said: String,
    },
    /// It failed.
    #[error("`{program}` ended with {}{}", ending(*status), tail(said))]
    Failed {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of its output.
        said: String,
    },
}

/// Runs `argv` without a shell, in `/`, and gives the end of its output.
///
/// # Errors
/// When it cannot be started, takes longer than `limit` (then it is killed, with its process group), or fails.
pub fn run(argv: &[String], limit: Duration) -> Result<String, RunError> {
    let (program, args) = argv.split_first().ok_or(RunError::Empty)?;
    let fail = |source| RunError::Start { program: program.clone(), source };
    let (reader, writer) = io::pipe().map_err(fail)?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command.args(args).env("PATH", format!("{path}:{MORE_PLACES}")).current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(writer.try_clone().map_err(fail)?).stderr(writer);
    let mut child = command.spawn().map_err(fail)?;
    // With it goes our end of the pipe.
    drop(command);
    let output = Output::collect(reader);
    let over = ends_within(&child, limit).map_err(fail)?;
    if !over {
        // All of them: a shell's children would go on.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    }
    let status = child.wait().map_err(fail)?;
    let (program, said) = (program.clone(), output.end());
    if !over {
        return Err(RunError::Slow { program, limit, said });
    }
    if status.success() { Ok(said) } else { Err(RunError::Failed { program, status, said }) }
}

/// Whether the process ends in this time.
fn ends_within(child: &Child, limit: Duration) -> io::Result<bool> {
    let handle = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let deadline = std::time::Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 });
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The output of a process, as a thread reads it.
struct Output {
    kept: Arc<Mutex<Vec<u8>>>,
    over: mpsc::Receiver<()>,
}

impl Output {
    fn collect(mut reader: impl Read + Send + 'static) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (done, over) = mpsc::channel();
        let ours = Arc::clone(&kept);
        thread::spawn(move || {
            let mut bytes = [0; KEPT_BYTES];
            while let Ok(count) = reader.read(&mut bytes)
                && count > 0
            {
                let mut kept = ours.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(bytes.iter().take(count));
                let surplus = kept.len().saturating_sub(KEPT_BYTES);
                kept.drain(..surplus);
            }
            // Nobody waits when the limit is over.
            let _ = done.send(());
        });
        Self { kept, over }
    }

    /// The last lines.
    fn end(self) -> String {
        let _ = self.over.recv_timeout(OUTPUT_LIMIT);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let shown = lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES));
        let shown: Vec<String> = shown.map(|line| line.replace(char::is_control, "?")).collect();
        shown.join(" | ")
    }
}

fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no status".to_owned(),
    }
}

fn tail(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!("; it said: {said}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<String, RunError> {
        run(&["sh", "-c", script].map(str::to_owned), limit)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn expect_status_and_last_lines_when_a_command_fails() {
        let script = "for n in 1 2 3 4 5 6 7; do echo line $n; done; printf 'bad\\033\\n' >&2; exit 3";
        let text = shell(script, LONG).unwrap_err().to_string();
        assert_eq!(text, "`sh` ended with exit status 3; it said: line 4 | line 5 | line 6 | line 7 | bad?");
        let text = shell("kill -9 $$", LONG).unwrap_err().to_string();
        assert_eq!(text, "`sh` ended with signal 9");
    }

    #[test]
    fn expect_an_end_with_all_children_when_a_command_takes_too_long() {
        let text =
            shell("echo waits; sleep 1000; echo never", Duration::from_millis(300)).unwrap_err().to_string();
        assert!(text.contains("was killed") && !text.contains("never"), "{text}");
    }

    #[test]
    fn expect_the_output_when_a_command_succeeds_and_leaves_a_process_behind() {
        assert_eq!(shell("sleep 5 & echo done", LONG).unwrap(), "done");
        assert!(run(&[], LONG).is_err());
        let text = run(&["/none/such".to_owned()], LONG).unwrap_err().to_string();
        assert_eq!(text, "cannot run `/none/such`");
    }
}
