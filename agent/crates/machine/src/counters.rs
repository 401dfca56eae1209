//! Machine-wide counters, read at the start and the end of a task. The parsers are pure.

use std::{fs::File, io, os::unix::fs::FileExt, sync::Mutex};

use drover_model::Counters;

const STAT: &str = "/proc/stat";
const NETSTAT: &str = "/proc/net/netstat";
const SNMP: &str = "/proc/net/snmp";

/// `/proc/stat` of a host with many CPUs and interrupts is the largest of the three: some 100 bytes per CPU and a line of 10 to 50 KiB.
const BUFFER: usize = 16 * 1024;
/// Larger than any of these files.
const BUFFER_MAX: usize = 4 << 20;

/// Why counters could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}")]
pub struct CountersError {
    /// The file.
    pub path: &'static str,
    /// Why.
    pub source: io::Error,
}

/// Reads machine-wide counters; keeps its files open, so that a reading costs three system calls. What a kernel does not count stays 0
/// in every reading, and so in every difference.
#[derive(Debug)]
pub struct CounterReader {
    stat: File,
    /// Not there without networking.
    netstat: Option<File>,
    snmp: Option<File>,
    /// Microseconds per clock tick.
    tick_us: u64,
    buffer: Mutex<Vec<u8>>,
}

impl CounterReader {
    /// Opens the files.
    ///
    /// # Errors
    ///
    /// When `/proc` is not there.
    pub fn open() -> Result<Self, CountersError> {
        let required = |path| File::open(path).map_err(|source| CountersError { path, source });
        let optional = |path| match required(path) {
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        };
        Ok(Self {
            stat: required(STAT)?,
            netstat: optional(NETSTAT)?,
            snmp: optional(SNMP)?,
            tick_us: 1_000_000 / rustix::param::clock_ticks_per_second().max(1),
            buffer: Mutex::new(vec![0; BUFFER]),
        })
    }

    /// The counters since boot.
    ///
    /// # Errors
    ///
    /// When a file cannot be read.
    pub fn read(&self) -> Result<Counters, CountersError> {
        let mut buffer = self.buffer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut counters = Counters::default();
        let stat = whole(&self.stat, STAT, &mut buffer)?;
        counters.context_switches = stat_value(stat, "ctxt", 1);
        counters.steal_us = stat_value(stat, "cpu", 8).saturating_mul(self.tick_us);
        if let Some(file) = &self.netstat {
            let text = whole(file, NETSTAT, &mut buffer)?;
            counters.listen_overflows = table_value(text, "TcpExt:", "ListenOverflows");
            counters.listen_drops = table_value(text, "TcpExt:", "ListenDrops");
            counters.time_wait_overflows = table_value(text, "TcpExt:", "TCPTimeWaitOverflow");
        }
        if let Some(file) = &self.snmp {
            counters.retransmits = table_value(whole(file, SNMP, &mut buffer)?, "Tcp:", "RetransSegs");
        }
        Ok(counters)
    }

    /// What was counted between two readings. The kernel's counters may wrap; steal time, which it estimates, may go back a little and
    /// is then 0.
    #[must_use]
    pub fn between(start: &Counters, end: &Counters) -> Counters {
        Counters {
            context_switches: end.context_switches.wrapping_sub(start.context_switches),
            listen_overflows: end.listen_overflows.wrapping_sub(start.listen_overflows),
            listen_drops: end.listen_drops.wrapping_sub(start.listen_drops),
            retransmits: end.retransmits.wrapping_sub(start.retransmits),
            time_wait_overflows: end.time_wait_overflows.wrapping_sub(start.time_wait_overflows),
            steal_us: end.steal_us.saturating_sub(start.steal_us),
        }
    }
}

/// Reads a file from its start; these files give a consistent answer only if they are read in one go.
fn whole<'a>(file: &File, path: &'static str, buffer: &'a mut Vec<u8>) -> Result<&'a str, CountersError> {
    let failed = |source| CountersError { path, source };
    loop {
        let mut length = 0;
        while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
            let offset = u64::try_from(length).map_err(|_| failed(io::ErrorKind::FileTooLarge.into()))?;
            match file.read_at(rest, offset) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        if length < buffer.len() {
            let text = buffer.get(..length).unwrap_or_default();
            return std::str::from_utf8(text).map_err(|_| failed(io::ErrorKind::InvalidData.into()));
        }
        if buffer.len() >= BUFFER_MAX {
            return Err(failed(io::ErrorKind::FileTooLarge.into()));
        }
        let doubled = buffer.len() * 2;
        buffer.resize(doubled, 0);
    }
}

/// Word `index` of the line that starts with `name`; 0 if there is none.
fn stat_value(text: &str, name: &str, index: usize) -> u64 {
    let line = text.lines().find(|line| line.split_ascii_whitespace().next() == Some(name));
    line.and_then(|line| line.split_ascii_whitespace().nth(index))
        .and_then(|word| word.parse().ok())
        .unwrap_or(0)
}

/// These tables have two lines for each protocol: names, then values. 0 if the kernel does not count it.
fn table_value(text: &str, protocol: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let column = names
        .split_ascii_whitespace()
        .zip(values.split_ascii_whitespace())
        .find(|(column, _)| *column == name);
    column.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    const STAT_TEXT: &str = "\
cpu  100 2 30 4000 5 0 6 77 0 0
cpu0 50 1 15 2000 2 0 3 33 0 0
intr 123456 7 8
ctxt 987654321
btime 1700000000
";
    const NET_TEXT: &str = "\
TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPTimeWaitOverflow
TcpExt: 1 22 333 4444
IpExt: InNoRoutes ListenOverflows
IpExt: 0 9
";

    #[test]
    fn expect_the_right_columns_when_tables_are_read() {
        assert_eq!(stat_value(STAT_TEXT, "ctxt", 1), 987_654_321);
        assert_eq!(stat_value(STAT_TEXT, "cpu", 8), 77);
        assert_eq!(stat_value("cpu  1 2 3 4", "cpu", 8), 0);
        assert_eq!(table_value(NET_TEXT, "TcpExt:", "ListenOverflows"), 22);
        assert_eq!(table_value(NET_TEXT, "TcpExt:", "ListenDrops"), 333);
        assert_eq!(table_value(NET_TEXT, "TcpExt:", "TCPTimeWaitOverflow"), 4444);
        assert_eq!(table_value(NET_TEXT, "TcpExt:", "Unheard"), 0);
        assert_eq!(table_value("TcpExt: OnlyNames\n", "TcpExt:", "OnlyNames"), 0);
    }

    #[test]
    fn expect_growing_context_switches_when_this_machine_is_read_twice() {
        let reader = CounterReader::open().unwrap();
        let start = reader.read().unwrap();
        // A pipe to another thread and back makes at least one switch.
        let (mut from, mut to) = io::pipe().unwrap();
        let thread = std::thread::spawn(move || {
            let mut byte = [0];
            from.read_exact(&mut byte).unwrap();
        });
        to.write_all(b"x").unwrap();
        thread.join().unwrap();
        let end = reader.read().unwrap();
        assert!(CounterReader::between(&start, &end).context_switches > 0);
    }

    #[test]
    fn expect_small_differences_when_counters_wrap_or_steal_goes_back() {
        let start = Counters { retransmits: u64::MAX - 1, steal_us: 50, ..Counters::default() };
        let end = Counters { retransmits: 3, steal_us: 40, ..Counters::default() };
        let between = CounterReader::between(&start, &end);
        assert_eq!(between.retransmits, 5);
        assert_eq!(between.steal_us, 0);
    }

    #[test]
    fn expect_the_whole_file_when_it_is_larger_than_the_buffer() {
        let mut file = tempfile::tempfile().unwrap();
        let text = "0123456789".repeat(1000);
        file.write_all(text.as_bytes()).unwrap();
        let mut buffer = vec![0; 16];
        assert_eq!(whole(&file, "test", &mut buffer).unwrap(), text);
    }
}
