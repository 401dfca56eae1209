//! How long a soak held, what broke, and what was the first bad sign. Pure.

use std::time::Duration;

use drover_model::{NgCause, Verdict};
use drover_store::{Mark, MarkKind};

use super::band::{Band, Watch};
use crate::{
    drift::scaled,
    number::{Decimals, number},
};

/// What is known of a soak apart from its series.
#[derive(Clone, Copy, Debug)]
pub struct Course<'a> {
    /// When the attempt was begun, in microseconds since the Unix epoch, UTC. The load began at the mark `begun`, if there is one.
    pub started_unix_us: u64,
    /// When it ended; `None` while it goes on.
    pub ended_unix_us: Option<u64>,
    /// How long the load was to last.
    pub planned: Duration,
    /// Its verdict; `None` while it goes on.
    pub verdict: Option<&'a Verdict>,
}

/// How far a soak came.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// When the load began, in microseconds since the Unix epoch, UTC.
    pub begun_unix_us: u64,
    /// How long it held; never longer than planned.
    pub held: Duration,
    /// What ended it before its time.
    pub broke: Option<Broke>,
    /// The first sign of trouble, not after it broke.
    pub first_bad_sign: Option<BadSign>,
}

/// What broke, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broke {
    /// When it was seen, in microseconds since the Unix epoch, UTC.
    pub at_unix_us: u64,
    /// What was seen.
    pub what: String,
}

/// The first sign of trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSign {
    /// When, in microseconds since the Unix epoch, UTC.
    pub at_unix_us: u64,
    /// What it was.
    pub what: String,
}

/// Tells how long a soak held, and the first bad sign.
///
/// It held from the mark `begun` until the first mark `broke`. If nothing progressed any more (the verdict is `ng hang` or `ng
/// timeout`), it held until the last point before that: a hang is found only when it has lasted. Without a mark, an `ng` broke
/// it at its last point, and anything else ended at the mark `ended`, the end of the attempt, or the last that was seen.
///
/// The first bad sign is the earliest of the marks that tell of trouble and of the points outside their band. A host that
/// was lost and came back, and a task that stalled and went on, are none. Of points, it takes three in a row, or the last ones before it broke. `points` and `sensors` are times, places in `bands`, and values, each series in
/// the order in which it was written. Points are progress; what sensors say is not.
#[must_use]
pub fn judge_progress(
    course: &Course<'_>,
    bands: &[Band],
    marks: impl IntoIterator<Item = Mark>,
    points: impl IntoIterator<Item = (u64, usize, f64)>,
    sensors: impl IntoIterator<Item = (u64, usize, f64)>,
) -> Progress {
    let seen = Seen::of(course, marks);
    let limit = seen.limit();
    let mut watches = vec![Watch::default(); bands.len()];
    let mut last_point: Option<u64> = None;
    let points = points.into_iter().map(|point| (point, true));
    let readings = points.chain(sensors.into_iter().map(|point| (point, false)));
    for ((at, place, value), is_progress) in readings {
        if at < seen.begun || at > limit {
            continue;
        }
        if is_progress {
            last_point = last_point.max(Some(at));
        }
        if let Some((watch, band)) = watches.get_mut(place).zip(bands.get(place)) {
            watch.see(band, at, value);
        }
    }
    let ng = match course.verdict {
        Some(Verdict::Ng { cause, detail }) => Some((*cause, detail.as_str())),
        _ => None,
    };
    let broke = seen.broke.clone().or_else(|| {
        let (cause, detail) = ng?;
        let at = last_point.or(course.ended_unix_us).unwrap_or(seen.begun);
        Some(Broke { at_unix_us: at.max(seen.begun), what: format!("{}: {detail}", cause.as_str()) })
    });
    let hung = ng.is_some_and(|(cause, _)| matches!(cause, NgCause::Hang | NgCause::Timeout));
    let until = match &broke {
        Some(_) if hung => last_point.unwrap_or(seen.begun),
        Some(broke) => broke.at_unix_us,
        None => seen.ended.or(course.ended_unix_us).or(last_point.max(seen.last)).unwrap_or(seen.begun),
    };
    let held = Duration::from_micros(until.saturating_sub(seen.begun)).min(course.planned);
    let signs = bands.iter().zip(&watches).filter_map(|(band, watch)| {
        let (at, value) = watch.bad_sign(broke.is_some())?;
        Some((at, described(band, value)))
    });
    let mark =
        seen.bad_sign.as_ref().filter(|(at, _)| broke.as_ref().is_none_or(|broke| *at <= broke.at_unix_us));
    // Of signs at the same time, the mark says more.
    let first = mark.cloned().into_iter().chain(signs).min_by_key(|(at, _)| *at);
    Progress {
        begun_unix_us: seen.begun,
        held,
        broke,
        first_bad_sign: first.map(|(at_unix_us, what)| BadSign { at_unix_us, what }),
    }
}

/// `latency_p99_ms was 41 ms, usual are 2.1 ms, at most 3.1 ms`.
fn described(band: &Band, value: f64) -> String {
    let (factor, unit) = scaled(&band.unit, value.abs());
    let unit = if matches!(unit, "1" | "") { String::new() } else { format!(" {unit}") };
    let shown = |value: f64| format!("{}{unit}", number(value * factor, Decimals::Each));
    let bound = if value > band.high {
        format!("at most {}", shown(band.high))
    } else {
        format!("at least {}", shown(band.low))
    };
    format!("{} was {}, usual were {}, {bound}", band.series, shown(value), shown(band.median))
}

/// What the marks say.
struct Seen {
    begun: u64,
    broke: Option<Broke>,
    ended: Option<u64>,
    bad_sign: Option<(u64, String)>,
    last: Option<u64>,
}

/// A sign that something else can take back.
#[derive(Default)]
struct Open {
    count: u32,
    first: Option<(u64, String)>,
}

impl Open {
    fn lost(&mut self, at: u64, what: String) {
        self.count += 1;
        self.first.get_or_insert((at, what));
    }

    fn back(&mut self) {
        self.count = self.count.saturating_sub(1);
        if self.count == 0 {
            self.first = None;
        }
    }
}

impl Seen {
    fn of(course: &Course<'_>, marks: impl IntoIterator<Item = Mark>) -> Self {
        let mut begun = None;
        let mut seen =
            Self { begun: course.started_unix_us, broke: None, ended: None, bad_sign: None, last: None };
        let (mut hosts, mut tasks) = (Open::default(), Open::default());
        for mark in marks {
            let at = mark.at_unix_us;
            seen.last = seen.last.max(Some(at));
            let said = |mark: &Mark| format!("{}: {}", mark.kind, mark.text);
            match mark.kind {
                MarkKind::Begun => begun = begun.or(Some(at)),
                MarkKind::Ended => seen.ended = Some(at),
                MarkKind::Broke if seen.broke.is_none() => {
                    seen.broke = Some(Broke { at_unix_us: at, what: mark.text });
                }
                MarkKind::HostLost => hosts.lost(at, said(&mark)),
                MarkKind::HostBack => hosts.back(),
                MarkKind::Stalled => tasks.lost(at, said(&mark)),
                MarkKind::Resumed => tasks.back(),
                MarkKind::RoundFailed | MarkKind::TaskEnded | MarkKind::Kernel | MarkKind::Sign
                    if seen.bad_sign.as_ref().is_none_or(|(first, _)| at < *first) =>
                {
                    seen.bad_sign = Some((at, said(&mark)));
                }
                _ => {}
            }
        }
        let open = [hosts.first, tasks.first].into_iter().flatten();
        seen.bad_sign = open.chain(seen.bad_sign.take()).min_by_key(|(at, _)| *at);
        seen.begun = begun.unwrap_or(seen.begun);
        if let Some(broke) = &mut seen.broke {
            broke.at_unix_us = broke.at_unix_us.max(seen.begun);
        }
        seen
    }

    /// The time behind which nothing counts.
    fn limit(&self) -> u64 {
        self.broke.as_ref().map_or(u64::MAX, |broke| broke.at_unix_us)
    }
}
