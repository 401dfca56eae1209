//! Notices when a task does nothing: no output, and no CPU time used by any of its processes.

use std::time::{Duration, Instant};

use drover_machine::sensors::waiting;

/// Looks per time that the task names: how exact the answer is.
const LOOKS: u32 = 4;
/// Shortest and longest time between two looks.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);
/// Kinds of waits that are named.
const KINDS: usize = 8;

/// What moves while a task does something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signs {
    /// Bytes of output so far.
    pub(super) heard: u64,
    /// Its processes, and the CPU time of each in clock ticks; of those that ended and were waited for too.
    pub(super) processes: Vec<(u32, u64)>,
}

impl Signs {
    /// Those of now.
    pub(super) fn read(heard: u64, pids: &[u32]) -> Self {
        let ticks = |pid: &u32| Some((*pid, ticks(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)?));
        let mut processes: Vec<_> = pids.iter().filter_map(ticks).collect();
        processes.sort_unstable();
        Self { heard, processes }
    }
}

/// `utime`, `stime`, `cutime` and `cstime` of `/proc/PID/stat` (`proc(5)`), fields 14 to 17. The name before may hold anything.
fn ticks(stat: &[u8]) -> Option<u64> {
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let text = std::str::from_utf8(stat.get(after..)?).ok()?;
    let fields = text.split_ascii_whitespace().skip(11).take(4);
    fields.map(|field| field.parse::<u64>().ok()).sum()
}

/// Compares what a task does from time to time.
#[derive(Debug)]
pub(super) struct StallWatch {
    limit: Duration,
    step: Duration,
    next: Instant,
    seen: Option<Signs>,
    quiet_since: Instant,
    told: bool,
}

impl StallWatch {
    /// A task that was started or released at `now`, and has stalled after `limit`.
    pub(super) fn new(limit: Duration, now: Instant) -> Self {
        let step = (limit / LOOKS).clamp(SHORTEST, LONGEST);
        Self { limit, step, next: now + step, seen: None, quiet_since: now, told: false }
    }

    /// When to look next.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Takes in what is seen now. Returns for how long nothing has moved, once for each time that is too long.
    pub(super) fn look(&mut self, now: Instant, signs: Signs) -> Option<Duration> {
        self.next = now + self.step;
        if self.seen.as_ref() != Some(&signs) {
            self.seen = Some(signs);
            self.quiet_since = now;
            self.told = false;
            return None;
        }
        let quiet = now.saturating_duration_since(self.quiet_since);
        if self.told || quiet < self.limit {
            return None;
        }
        self.told = true;
        Some(quiet)
    }
}

/// What processes wait for, for people.
pub(super) fn describe(pids: &[u32]) -> String {
    let kinds = waiting(pids);
    let name = |kind: &drover_machine::sensors::Waiting| {
        let place = kind.wchan.as_deref().map_or_else(String::new, |wchan| format!(" in {wchan}"));
        format!("{} {}{place}", kind.processes, state(kind.state))
    };
    let named: Vec<String> = kinds.iter().take(KINDS).map(name).collect();
    match named.len() {
        0 => "it has no process".to_owned(),
        _ => format!("of {} processes: {}", pids.len(), named.join(", ")),
    }
}

fn state(letter: char) -> String {
    match letter {
        'S' => "asleep".to_owned(),
        'D' => "asleep without end (D)".to_owned(),
        'T' | 't' => "stopped".to_owned(),
        'R' => "runnable".to_owned(),
        'Z' => "zombie".to_owned(),
        other => format!("in state {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(8);

    fn signs(heard: u64, ticks: u64) -> Signs {
        Signs { heard, processes: vec![(7, ticks)] }
    }

    #[test]
    fn expect_one_report_each_time_when_nothing_moves_for_too_long() {
        let start = Instant::now();
        let mut watch = StallWatch::new(LIMIT, start);
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(watch.next(), at(2));
        assert_eq!(watch.look(at(2), signs(0, 1)), None);
        assert_eq!(watch.look(at(9), signs(0, 1)), None);
        assert_eq!(watch.look(at(10), signs(0, 1)), Some(LIMIT));
        assert_eq!(watch.look(at(30), signs(0, 1)), None);
        assert_eq!(watch.look(at(31), signs(0, 2)), None);
        assert_eq!(watch.look(at(38), signs(1, 2)), None);
        assert_eq!(watch.look(at(45), signs(1, 2)), None);
        assert_eq!(watch.look(at(47), signs(1, 2)), Some(Duration::from_secs(9)));
    }

    #[test]
    fn expect_the_right_columns_when_a_name_has_brackets() {
        let stat = b"77 (a) b (c) S 1 77 77 0 -1 4194304 116 5 7 2 30 20 3 1 19 0 4 0 184214";
        assert_eq!(ticks(stat), Some(54));
        assert_eq!(ticks(b"77 (a"), None);
        assert_eq!(ticks(b"77 (a) S 1 2 3 4 5 6 7 8 9 10 x"), None);
        let own = Signs::read(0, &[std::process::id(), u32::MAX]);
        assert_eq!(own.processes.len(), 1);
        assert!(describe(&[std::process::id()]).starts_with("of 1 processes: "));
        assert_eq!(describe(&[u32::MAX]), "it has no process");
    }
}
