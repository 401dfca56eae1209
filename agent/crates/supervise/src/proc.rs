//! What `/proc` says of processes, for finding and proving gone what is not in a cgroup. Parsers are pure; readers treat a
//! process that disappears meanwhile as not there.

use std::{collections::HashMap, fs, io};

/// One line of `/proc/PID/stat`, as far as it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) comm: String,
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) threads: u32,
}

impl Process {
    /// Zombies and processes that the kernel is taking apart are not alive, unless only the first of their threads has ended.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x') || self.threads > 1
    }

    /// Reads one process; `None` if there is none of that number.
    pub(crate) fn read(pid: u32) -> Option<Self> {
        parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads all processes of this pid namespace.
    pub(crate) fn all() -> io::Result<HashMap<u32, Self>> {
        let mut found = HashMap::new();
        for entry in fs::read_dir("/proc")? {
            let number = entry?.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(process) = number.and_then(Self::read) {
                found.insert(process.pid, process);
            }
        }
        Ok(found)
    }
}

/// The command name may contain anything, parentheses included, so fields are counted from the last `)`.
fn parse_stat(line: &str) -> Option<Process> {
    let (pid, rest) = line.split_once(" (")?;
    let (comm, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse().ok();
    Some(Process {
        pid: pid.parse().ok()?,
        comm: comm.to_owned(),
        state: fields.first()?.chars().next()?,
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        threads: number(17)?,
    })
}

/// The value of a variable in the environment a process was started with; `None` also if that may not be read.
pub(crate) fn environment_value(pid: u32, name: &str) -> Option<String> {
    find_variable(&fs::read(format!("/proc/{pid}/environ")).ok()?, name)
}

fn find_variable(environ: &[u8], name: &str) -> Option<String> {
    environ.split(|&byte| byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

/// Children of this process, zombies included; `None` if that cannot be told (the kernel lists them
/// only with CONFIG_PROC_CHILDREN), so that callers look at all processes instead.
pub(crate) fn own_children() -> Option<Vec<u32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let path = thread.ok()?.path().join("children");
        match fs::read_to_string(path) {
            Ok(list) => {
                children.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()))
            }
            // The kernel does not offer the file, or the thread ended and another one has its children now.
            Err(_) => return None,
        }
    }
    Some(children)
}

/// Threads of a process.
pub(crate) fn threads_of(pid: u32) -> io::Result<Vec<u32>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        threads.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(threads)
}

/// Whether an error means that the process ended meanwhile.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "4242 (a) b (c)) S 17 4242 4240 0 -1 4194304 99 0 0 0 1 2 3 4 20 0 1 0 987654 1000 10";

    #[test]
    fn expect_the_right_fields_when_the_command_name_has_parentheses() {
        let process = parse_stat(LINE).unwrap();
        assert_eq!(
            process,
            Process {
                pid: 4242,
                comm: "a) b (c)".into(),
                state: 'S',
                parent: 17,
                group: 4242,
                session: 4240,
                threads: 1,
            }
        );
        assert!(process.is_alive());
        assert!(!parse_stat(&LINE.replace(") S ", ") Z ")).unwrap().is_alive());
        let headless = LINE.replace(") S ", ") Z ").replace(" 20 0 1 0 ", " 20 0 2 0 ");
        assert!(parse_stat(&headless).unwrap().is_alive());
        assert_eq!(parse_stat("4242 (cut short"), None);
    }

    #[test]
    fn expect_whole_names_only_when_a_variable_is_looked_up() {
        let environ = b"XDROVER_TASK=no\0DROVER_TASKS=no\0DROVER_TASK=a/b=c\0";
        assert_eq!(find_variable(environ, "DROVER_TASK"), Some("a/b=c".into()));
        assert_eq!(find_variable(environ, "TASK"), None);
    }

    #[test]
    fn expect_this_process_when_all_are_read() {
        let own = std::process::id();
        assert_eq!(
            Process::all().unwrap().get(&own).map(|p| p.parent),
            Some(std::os::unix::process::parent_id())
        );
    }
}
