//! Everything that wants to see a task's output while it is captured.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use drover_model::{OutputSummary, TaskEventKind, TaskSpec};
use drover_proto::MAX_ROUND_BYTES;
use tokio::time::Instant;

use super::{
    logwatch::LogWatch,
    output::{STDERR, STDOUT},
    progress::Lines,
};
use crate::clock::unix_us;

/// Listeners of one task.
#[derive(Debug)]
pub(super) struct Ears {
    /// Waits for texts.
    pub(super) log: LogWatch,
    /// The beginnings of a round's outputs, for a task with rounds.
    heads: Option<Mutex<[Head; 2]>>,
    /// Lines for those who follow, if the task asks for that.
    lines: Option<Mutex<Lines>>,
    /// Bytes heard so far.
    heard: AtomicU64,
}

/// The beginning of a stream.
#[derive(Debug, Default)]
struct Head {
    kept: Vec<u8>,
    written: u64,
}

impl Ears {
    /// What the task asks for.
    pub(super) fn new(spec: &TaskSpec) -> Self {
        Self {
            log: LogWatch::new(&spec.ready),
            heads: spec.rounds.map(|_| Mutex::default()),
            lines: spec.progress.then(|| Mutex::new(Lines::default())),
            heard: AtomicU64::new(0),
        }
    }

    /// Takes in the next piece of a stream (0 or 1).
    pub(super) fn feed(&self, stream: usize, piece: &[u8]) {
        self.heard.fetch_add(wide(piece.len()), Ordering::Relaxed);
        self.log.feed(stream, piece);
        if let Some(heads) = &self.heads
            && let Some(head) = lock(heads).get_mut(stream)
        {
            head.written = head.written.saturating_add(wide(piece.len()));
            let room = MAX_ROUND_BYTES.saturating_sub(head.kept.len());
            head.kept.extend_from_slice(piece.get(..room).unwrap_or(piece));
        }
        if stream == STDOUT
            && let Some(lines) = &self.lines
        {
            lock(lines).feed(piece);
        }
    }

    /// Bytes heard so far, of both streams.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// The beginnings of both outputs of the round that is over, which together are bounded: standard error gets a quarter
    /// at least, if it needs that.
    pub(super) fn take_round(&self) -> [OutputSummary; 2] {
        let Some(heads) = &self.heads else { return Default::default() };
        let mut heads = std::mem::take(&mut *lock(heads));
        let least = heads[STDERR].kept.len().min(MAX_ROUND_BYTES / 4);
        heads[STDOUT].kept.truncate(MAX_ROUND_BYTES - least);
        let left = MAX_ROUND_BYTES - heads[STDOUT].kept.len();
        heads[STDERR].kept.truncate(left);
        if let Some(lines) = &self.lines {
            lock(lines).end_line();
        }
        heads.map(|head| OutputSummary {
            written: head.written,
            kept: wide(head.kept.len()),
            inline: Some(head.kept),
        })
    }

    /// When the next lines may be reported; `None` if there are none.
    pub(super) fn lines_due(&self) -> Option<Instant> {
        self.lines.as_ref().and_then(|lines| lock(lines).due())
    }

    /// The lines to be reported now.
    pub(super) fn take_lines(&self) -> Option<TaskEventKind> {
        let (text, dropped) = lock(self.lines.as_ref()?).take(Instant::now())?;
        Some(TaskEventKind::Lines { at_unix_us: unix_us(), text, dropped })
    }

    /// The last lines of a task that is over.
    pub(super) fn take_rest(&self) -> Vec<TaskEventKind> {
        let Some(lines) = &self.lines else { return Vec::new() };
        lock(lines).end_line();
        // The second one says what the first one had no room for.
        std::iter::from_fn(|| self.take_lines()).take(2).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use drover_model::{Rounds, StopPolicy};

    use super::*;

    fn ears() -> Ears {
        let rounds = Rounds {
            for_: Duration::ZERO,
            pause: Duration::ZERO,
            deadline: Duration::ZERO,
            keep_going: true,
        };
        Ears::new(&TaskSpec {
            id: "00000000-0000-0000-0000-000000000001.c0r1a1.server.0".parse().unwrap(),
            argv: vec!["true".into()],
            env: vec![],
            files: vec![],
            ready: vec![],
            ready_within: Duration::ZERO,
            placement: None,
            hold: false,
            deadline: Duration::ZERO,
            stop: StopPolicy { signal: 15, grace: Duration::ZERO },
            output_limit: 0,
            ports: vec![],
            counters: false,
            rounds: Some(rounds),
            progress: false,
            stall: None,
        })
    }

    #[test]
    fn expect_both_beginnings_within_the_bound_when_a_round_writes_a_lot() {
        for (out, err, kept) in [
            (10, 20, (10, 20)),
            (1 << 20, 0, (MAX_ROUND_BYTES, 0)),
            (0, 1 << 20, (0, MAX_ROUND_BYTES)),
            (1 << 20, 100, (MAX_ROUND_BYTES - 100, 100)),
            (1 << 20, 1 << 20, (MAX_ROUND_BYTES / 4 * 3, MAX_ROUND_BYTES / 4)),
        ] {
            let ears = ears();
            ears.feed(STDOUT, &vec![b'o'; out]);
            ears.feed(STDERR, &vec![b'e'; err]);
            let [stdout, stderr] = ears.take_round();
            assert_eq!((stdout.written, stderr.written), (wide(out), wide(err)));
            let lengths = [&stdout, &stderr].map(|summary| summary.inline.as_ref().unwrap().len());
            assert_eq!(lengths, [kept.0, kept.1], "{out} {err}");
            assert_eq!(ears.take_round()[STDOUT].written, 0);
        }
    }
}
