//! The kernel's tables of TCP sockets, and whose they are. Read only when a port is not free.

use std::{fs, io};

use super::Holder;
use crate::proc::{self, Process};

/// State of a socket, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Listen,
    Other,
}

/// A line of `/proc/net/tcp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Socket {
    pub(super) port: u16,
    pub(super) state: State,
    /// 0 when no process has it any more: the kernel is winding the connection up.
    pub(super) inode: u64,
}

impl Socket {
    pub(super) fn is_held(&self) -> bool {
        self.inode != 0 || self.state == State::Listen
    }
}

/// All sockets whose local port is `port`.
pub(super) fn sockets_at(port: u16) -> io::Result<Vec<Socket>> {
    let mut found = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        match fs::read_to_string(table) {
            Ok(text) => found.extend(text.lines().filter_map(parse).filter(|socket| socket.port == port)),
            // A host without that family.
            Err(error) if proc::is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...`, see proc_pid_net(5).
fn parse(line: &str) -> Option<Socket> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (_, port) = fields.get(1)?.rsplit_once(':')?;
    let state = if *fields.get(3)? == "0A" { State::Listen } else { State::Other };
    Some(Socket { port: u16::from_str_radix(port, 16).ok()?, state, inode: fields.get(9)?.parse().ok()? })
}

/// The process that has one of these sockets open; the first of the list that is found wins.
pub(super) fn owner_of(inodes: &[u64]) -> Option<Holder> {
    let names: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let mut best: Option<(usize, Process)> = None;
    for process in Process::all().ok()?.into_values() {
        // Descriptors of other users' processes are hidden from an unprivileged one.
        for fd in fs::read_dir(format!("/proc/{}/fd", process.pid)).into_iter().flatten().flatten() {
            let Ok(target) = fs::read_link(fd.path()) else { continue };
            let rank = names.iter().position(|name| target.as_os_str() == name.as_str());
            if let Some(rank) = rank {
                // Of a server's processes, which share the socket, the one with the lowest number is the first.
                let better = best.as_ref().is_none_or(|(other, p)| (rank, process.pid) < (*other, p.pid));
                if better {
                    best = Some((rank, process.clone()));
                }
            }
        }
    }
    best.map(|(_, process)| Holder { pid: process.pid, comm: process.comm })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_port_state_and_inode_when_a_table_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 06 00000000:00000000 03:00000B2A 00000000     0        0 0 3 0";
        let sockets: Vec<_> = table.lines().filter_map(parse).collect();
        assert_eq!(
            sockets,
            [
                Socket { port: 8080, state: State::Listen, inode: 12345 },
                Socket { port: 8080, state: State::Other, inode: 0 },
            ]
        );
        assert!(sockets[0].is_held());
        assert!(!sockets[1].is_held());
    }
}
