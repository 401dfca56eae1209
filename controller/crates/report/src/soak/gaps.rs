//! Times without points.

use std::time::Duration;

use super::{
    blocks::{EvenSample, middle},
    events::Event,
};

/// Distances without a point, in usual ones, that are a gap.
const LONG: u64 = 3;
/// Candidates that are kept; the shortest is dropped.
const MOST_CANDIDATES: usize = 256;
/// Gaps that are told one by one.
const MOST_GAPS: usize = 20;
/// Distances that the usual one is told from.
const SAMPLE: usize = 1024;

/// A time without points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The last point before, in microseconds since the Unix epoch, UTC.
    pub from_unix_us: u64,
    /// The first point after.
    pub to_unix_us: u64,
    /// What a mark says about it, if one does.
    pub cause: Option<String>,
}

/// Looks for gaps along a stream of times.
#[derive(Debug)]
pub(super) struct GapFinder {
    every_us: u64,
    last: u64,
    distances: EvenSample,
    candidates: Vec<(u64, u64)>,
    dropped: usize,
    dropped_us: u64,
}

/// What was found.
pub(super) struct Gaps {
    pub(super) list: Vec<Gap>,
    pub(super) more: usize,
    pub(super) total: Duration,
}

impl GapFinder {
    /// Points are to be `every_us` apart, from `begun` on.
    pub(super) fn new(every_us: u64, begun: u64) -> Self {
        let distances = EvenSample::new(SAMPLE);
        Self { every_us, last: begun, distances, candidates: Vec::new(), dropped: 0, dropped_us: 0 }
    }

    /// A point; a time before the last one is none of a gap.
    pub(super) fn see(&mut self, at: u64) {
        if at <= self.last {
            return;
        }
        self.distances.push(micros(at - self.last));
        self.candidate(at);
        self.last = at;
    }

    fn candidate(&mut self, at: u64) {
        if at.saturating_sub(self.last) <= self.every_us.saturating_mul(LONG) {
            return;
        }
        self.candidates.push((self.last, at));
        if self.candidates.len() > MOST_CANDIDATES {
            let shortest = self.candidates.iter().enumerate().min_by_key(|(_, (from, to))| to - from);
            if let Some(place) = shortest.map(|(place, _)| place) {
                let (from, to) = self.candidates.remove(place);
                self.dropped += 1;
                self.dropped_us = self.dropped_us.saturating_add(to - from);
            }
        }
    }

    /// The gaps up to `end`, where points should have come until then. Rounds that take longer than `every` are no gaps:
    /// the usual distance is the median one, if that is longer.
    pub(super) fn finish(mut self, end: Option<u64>, events: &[Event]) -> Gaps {
        if let Some(end) = end {
            self.candidate(end);
        }
        let mut distances = self.distances.into_values();
        let usual = middle(&mut distances).unwrap_or(0.0).max(micros(self.every_us));
        let long = |(from, to): &(u64, u64)| micros(to - from) > usual * micros(LONG);
        let every_is_usual = usual <= micros(self.every_us);
        let gaps: Vec<(u64, u64)> = self.candidates.into_iter().filter(long).collect();
        let (dropped, dropped_us) = if every_is_usual { (self.dropped, self.dropped_us) } else { (0, 0) };
        let total = gaps.iter().fold(dropped_us, |sum, (from, to)| sum.saturating_add(to - from));
        let more = gaps.len().saturating_sub(MOST_GAPS) + dropped;
        let list = gaps.into_iter().take(MOST_GAPS).map(|(from_unix_us, to_unix_us)| Gap {
            from_unix_us,
            to_unix_us,
            cause: cause(events, from_unix_us, to_unix_us, self.every_us),
        });
        Gaps { list: list.collect(), more, total: Duration::from_micros(total) }
    }
}

/// The first event around a gap that can explain it.
fn cause(events: &[Event], from: u64, to: u64, margin: u64) -> Option<String> {
    let around = |event: &&Event| {
        event.kind.explains_gap()
            && event.first_unix_us <= to.saturating_add(margin)
            && event.last_unix_us >= from.saturating_sub(margin)
    };
    let event = events.iter().find(around)?;
    Some(if event.text.is_empty() {
        event.kind.to_string()
    } else {
        format!("{}: {}", event.kind, event.text)
    })
}

/// Microseconds as a number; exact for three hundred years.
pub(super) fn micros(us: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "times of a soak are far below 2^53 microseconds")]
    let us = us as f64;
    us
}

#[cfg(test)]
mod tests {
    use drover_store::MarkKind;

    use super::*;

    fn found(times: &[u64], end: Option<u64>, events: &[Event]) -> Vec<(u64, u64, Option<String>)> {
        let mut finder = GapFinder::new(10, 100);
        times.iter().for_each(|at| finder.see(*at));
        let gaps = finder.finish(end, events);
        let sum: u64 = gaps.list.iter().map(|gap| gap.to_unix_us - gap.from_unix_us).sum();
        assert_eq!((gaps.more, gaps.total), (0, Duration::from_micros(sum)));
        gaps.list.into_iter().map(|gap| (gap.from_unix_us, gap.to_unix_us, gap.cause)).collect()
    }

    #[test]
    fn expect_gaps_of_more_than_three_distances_only() {
        assert_eq!(found(&[110, 120, 150, 160], Some(190), &[]), []);
        let all = found(&[131, 141, 151, 161, 192, 202], Some(233), &[]);
        assert_eq!(all, [(100, 131, None), (161, 192, None), (202, 233, None)]);
        assert_eq!(found(&[110, 120], None, &[]), []);
        assert_eq!(found(&[110, 105, 120, 90, 130], Some(130), &[]), []);
    }

    #[test]
    fn expect_no_gaps_when_rounds_take_longer_than_points_are_apart() {
        let times: Vec<u64> = (1..50).map(|n| 100 + n * 40).collect();
        assert_eq!(found(&times, None, &[]), []);
    }

    #[test]
    fn expect_the_cause_when_a_mark_is_near() {
        let event = |at, kind, text: &str| Event {
            first_unix_us: at,
            last_unix_us: at,
            kind,
            text: text.to_owned(),
            count: 1,
        };
        let events = [
            event(105, MarkKind::Note, "no cause"),
            event(160, MarkKind::HostLost, "link cut"),
            event(900, MarkKind::ControllerBack, ""),
        ];
        let gaps = found(&[110, 150, 160, 500, 510, 520, 890, 895], None, &events);
        let causes: Vec<_> = gaps.iter().map(|(_, _, cause)| cause.as_deref()).collect();
        assert_eq!(
            causes,
            [Some("host-lost: link cut"), Some("host-lost: link cut"), Some("controller-back")]
        );
    }

    #[test]
    fn expect_the_longest_gaps_to_be_kept_and_all_to_be_counted_when_there_are_too_many() {
        let mut finder = GapFinder::new(10, 0);
        let mut at = 0;
        for n in 0..400 {
            for _ in 0..3 {
                at += 10;
                finder.see(at);
            }
            at += 40 + n;
            finder.see(at);
        }
        let gaps = finder.finish(None, &[]);
        assert_eq!((gaps.list.len(), gaps.list.len() + gaps.more), (20, 400));
        assert_eq!(gaps.total, Duration::from_micros((0..400).map(|n| 40 + n).sum()));
    }
}
