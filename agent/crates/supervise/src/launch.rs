//! What is to be started, and why a start failed. Used by the agent to describe a task to [`crate::Supervisor`].

use std::{
    fs,
    io::{self, Read},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use rustix::fs::{Access, AtFlags, CWD};

use crate::{
    CpuSet,
    sys::{Failure, NOT_ALL, Step},
};

/// What to start.
#[derive(Debug)]
pub struct Launch<'a> {
    /// Name of the task, unique among the running ones and safe as a file name; becomes part of the environment
    /// variable `DROVER_TASK`.
    pub task: &'a str,
    /// Command and arguments. A command without a slash is looked up in the `PATH` of `env`.
    pub argv: &'a [String],
    /// The whole environment (later entries win), usually [`clean_env`] and what the task adds.
    pub env: &'a [(String, String)],
    /// Working directory, absolute; a relative command path is taken from here.
    pub cwd: &'a Path,
    /// CPUs it may use, set before `exec`; `None` leaves the mask of the calling thread.
    pub cpus: Option<&'a CpuSet>,
    /// Stop right before `exec` until [`crate::Child::release`].
    pub hold: bool,
    /// Standard output. Closed here once the task has it, so that its end is seen.
    pub stdout: OwnedFd,
    /// Standard error, likewise. Standard input is `/dev/null`.
    pub stderr: OwnedFd,
}

/// Why a task did not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The command does not exist.
    #[error("no command `{command}`{place}")]
    NotFound {
        /// As written in the task.
        command: String,
        /// Where it was looked for, as the end of the sentence.
        place: String,
    },
    /// The command is a script whose interpreter (or a program whose loader) does not exist.
    #[error("`{}` needs the interpreter `{interpreter}`, which does not exist", path.display())]
    NoInterpreter {
        /// The script.
        path: PathBuf,
        /// What its first line names.
        interpreter: String,
    },
    /// The command exists but may not be executed, or a folder on the way to it is closed.
    #[error("`{}` cannot be executed: permission denied; is it executable (chmod +x)?", path.display())]
    Permission {
        /// What was to be executed.
        path: PathBuf,
    },
    /// The working directory cannot be entered.
    #[error("cannot enter the working directory `{}`", path.display())]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The CPUs cannot be had: offline, or outside of what the agent itself may use.
    #[error("cannot run on CPUs {cpus}")]
    Cpus {
        /// The CPUs asked for.
        cpus: CpuSet,
        /// Why.
        source: io::Error,
    },
    /// Empty argv, a NUL byte, a name that is not a file name, and the like.
    #[error("not a valid command: {0}")]
    Invalid(String),
    /// `exec` failed for another reason.
    #[error("cannot execute `{}`", path.display())]
    Exec {
        /// What was to be executed.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The process or its containment could not be made.
    #[error("cannot start a process: {step}")]
    System {
        /// What was being done.
        step: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A held task was killed, or the agent's end of its gate was lost, before it was released.
    #[error("ended before it was released")]
    NeverReleased,
}

/// The environment every task starts from: `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`, `TMPDIR` and `TZ` as the agent
/// has them, and `LC_ALL=C.UTF-8`, so that what the tools print does not depend on the host's language.
#[must_use]
pub fn clean_env() -> Vec<(String, String)> {
    const KEPT: [&str; 7] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ"];
    let mut env: Vec<_> =
        KEPT.iter().filter_map(|&name| Some((name.to_owned(), std::env::var(name).ok()?))).collect();
    if !env.iter().any(|(name, _)| name == "PATH") {
        env.push((
            "PATH".to_owned(),
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        ));
    }
    env.push(("LC_ALL".to_owned(), "C.UTF-8".to_owned()));
    env
}

impl Launch<'_> {
    /// The environment with a marker added; of entries with the same name the last one counts.
    pub(crate) fn environment(&self, marker: (&str, &str)) -> Vec<(String, String)> {
        let own = [(marker.0.to_owned(), marker.1.to_owned())];
        let mut env: Vec<(String, String)> = Vec::with_capacity(self.env.len() + 1);
        for entry in self.env.iter().chain(&own).rev() {
            if !env.iter().any(|(name, _)| *name == entry.0) {
                env.push(entry.clone());
            }
        }
        env.reverse();
        env
    }

    /// The program to execute, looked up as `execvp` would, so that what is wrong with it is known in full.
    pub(crate) fn program(&self, env: &[(String, String)]) -> Result<PathBuf, SpawnError> {
        let Some(command) = self.argv.first().filter(|command| !command.is_empty()) else {
            return Err(SpawnError::Invalid("there is none".to_owned()));
        };
        if command.contains('/') {
            let path = self.cwd.join(command);
            return match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => {
                    Err(SpawnError::Invalid(format!("`{command}` is a directory")))
                }
                Ok(_) => Ok(path),
                Err(error) => Err(unreachable_path(command, path, error)),
            };
        }
        // What `execvp` takes if there is no PATH.
        let search = env.iter().find(|(name, _)| name == "PATH").map_or("/bin:/usr/bin", |(_, value)| value);
        let mut closed = None;
        for dir in search.split(':') {
            let path = self.cwd.join(dir).join(command);
            if fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
                if may_execute(&path) {
                    return Ok(path);
                }
                closed.get_or_insert(path);
            }
        }
        Err(match closed {
            Some(path) => SpawnError::Permission { path },
            None => SpawnError::NotFound { command: command.clone(), place: format!(" in PATH ({search})") },
        })
    }
}

fn unreachable_path(command: &str, path: PathBuf, error: io::Error) -> SpawnError {
    match error.kind() {
        io::ErrorKind::NotFound => SpawnError::NotFound { command: command.to_owned(), place: String::new() },
        io::ErrorKind::PermissionDenied => SpawnError::Permission { path },
        _ => SpawnError::Exec { path, source: error },
    }
}

fn may_execute(path: &Path) -> bool {
    rustix::fs::accessat(CWD, path.as_os_str().as_bytes(), Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// What a failed step of a new process means for the task.
pub(crate) fn failure(
    failure: Failure,
    command: &str,
    program: &Path,
    cwd: &Path,
    cpus: Option<&CpuSet>,
) -> SpawnError {
    let source = io::Error::from_raw_os_error(failure.errno);
    let system = |step| move |source| SpawnError::System { step, source };
    match failure.step {
        Step::Ready | Step::Contain => system("join its cgroup")(source),
        Step::Session => system("make a session")(source),
        Step::Stdio => system("connect its output")(source),
        Step::Directory => SpawnError::WorkingDirectory { path: cwd.to_owned(), source },
        Step::Affinity => {
            let few = || io::Error::other("the kernel lets it use only some of them; is there a cpuset?");
            let source = if failure.errno == NOT_ALL { few() } else { source };
            SpawnError::Cpus { cpus: cpus.cloned().unwrap_or_default(), source }
        }
        Step::Exec => match (source.kind(), interpreter_of(program)) {
            (io::ErrorKind::NotFound, Some(interpreter)) => {
                SpawnError::NoInterpreter { path: program.to_owned(), interpreter }
            }
            _ => unreachable_path(command, program.to_owned(), source),
        },
    }
}

/// What an existing file needs in order to run: the program its `#!` line names, or for anything else its loader.
fn interpreter_of(program: &Path) -> Option<String> {
    // The kernel looks at the first 256 bytes.
    let mut start = Vec::new();
    fs::File::open(program).ok()?.take(256).read_to_end(&mut start).ok()?;
    let Some(line) = start.strip_prefix(b"#!") else { return Some("its dynamic loader".to_owned()) };
    let line = line.split(|&byte| byte == b'\n').next()?;
    String::from_utf8_lossy(line).split_ascii_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_last_value_when_a_variable_is_given_twice() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let null = || OwnedFd::from(fs::File::open("/dev/null").unwrap());
        let env = [pair("A", "1"), pair("B", "2"), pair("A", "3"), pair("DROVER_TASK", "forged")];
        let launch = Launch {
            task: "t",
            argv: &[],
            env: &env,
            cwd: Path::new("/"),
            cpus: None,
            hold: false,
            stdout: null(),
            stderr: null(),
        };
        assert_eq!(
            launch.environment(("DROVER_TASK", "n/t")),
            [pair("B", "2"), pair("A", "3"), pair("DROVER_TASK", "n/t")]
        );
    }
}
