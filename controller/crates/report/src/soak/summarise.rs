//! Reads a series in three passes: what there is, what it is usually like, and where it left that.

use std::time::Duration;

use drover_model::Verdict;
use drover_store::{MarkKind, Point, SeriesError, SeriesReader};

use super::{
    MetricSummary, SensorSeries, SeriesMetric, SeriesSummary,
    band::Band,
    blocks::{BlockMedians, EvenSample, middle},
    events::Events,
    gaps::{GapFinder, micros},
    progress::{Course, judge_progress},
};
use crate::drift::{DriftOptions, Nature, drift};

/// Points of the first half of a metric from which its band is told.
const BAND_SAMPLE: usize = 2048;
const SHORTEST_WARM_UP: u64 = 60_000_000;
const LONGEST_WARM_UP: u64 = 600_000_000;

/// What is known of a soak beside its series.
#[derive(Clone, Copy, Debug)]
pub struct SoakSetup<'a> {
    /// When the attempt was begun, in microseconds since the Unix epoch, UTC.
    pub started_unix_us: u64,
    /// When it ended; `None` while it goes on.
    pub ended_unix_us: Option<u64>,
    /// How long the load was to last.
    pub planned: Duration,
    /// Distance of points.
    pub every: Duration,
    /// Time from the start of the load whose points say nothing; `None`: a tenth, between one and ten minutes.
    pub warm_up: Option<Duration>,
    /// Its verdict; `None` while it goes on.
    pub verdict: Option<&'a Verdict>,
    /// Metrics of the series; others in it are passed over.
    pub metrics: &'a [SeriesMetric],
    /// Series from elsewhere.
    pub sensors: &'a [SensorSeries],
}

/// Sums a series up.
///
/// # Errors
/// It cannot be read to its end.
pub fn summarise(reader: &SeriesReader, setup: &SoakSetup<'_>) -> Result<SeriesSummary, SeriesError> {
    let (events, first) = marks(reader, setup)?;
    let rounds_failed = events.rounds_failed;
    let (events, more_events) = events.finish();

    let mut counts = vec![0_u64; setup.metrics.len()];
    let mut gaps = GapFinder::new(us(setup.every), first.begun);
    let (mut rounds, mut last_round) = (0_u64, None);
    let mut last = first.begun;
    let mut damaged = first.damaged;
    damaged += each_point(reader, |point| {
        if point.at_unix_us < first.begun || point.at_unix_us > first.limit {
            return;
        }
        gaps.see(point.at_unix_us);
        last = last.max(point.at_unix_us);
        if last_round != Some(point.round) {
            last_round = Some(point.round);
            rounds += 1;
        }
        if let Some(count) = place(setup, &point).and_then(|place| counts.get_mut(place)) {
            *count += 1;
        }
    })?;
    // Points were due until it broke or was ended, and while it goes on, until who knows.
    let due = first.end.map(|end| end.min(first.begun.saturating_add(us(setup.planned))));
    let gaps = gaps.finish(due, &events);

    let until = first.end.unwrap_or(last).min(first.limit);
    let halves = Halves::new(setup, first.begun, until);
    let (metrics, bands) = second_pass(reader, setup, &counts, &halves, first.limit)?;
    let progress = third_pass(reader, setup, &bands)?;
    Ok(SeriesSummary {
        progress,
        metrics,
        rounds,
        rounds_failed,
        gaps: gaps.list,
        more_gaps: gaps.more,
        gap_time: gaps.total,
        events,
        more_events,
        damaged_lines: damaged,
    })
}

/// What the marks say of times.
struct First {
    begun: u64,
    /// When it broke or was ended.
    end: Option<u64>,
    /// When it broke.
    limit: u64,
    damaged: u64,
}

fn marks(reader: &SeriesReader, setup: &SoakSetup<'_>) -> Result<(Events, First), SeriesError> {
    let mut events = Events::default();
    let (mut begun, mut broke, mut ended) = (None, None, None);
    let mut marks = reader.marks()?;
    for mark in marks.by_ref() {
        let mark = mark?;
        let slot = match mark.kind {
            MarkKind::Begun => Some(&mut begun),
            MarkKind::Broke => Some(&mut broke),
            MarkKind::Ended => Some(&mut ended),
            _ => None,
        };
        if let Some(slot) = slot {
            *slot = slot.or(Some(mark.at_unix_us));
        }
        events.push(&mark);
    }
    let begun = begun.unwrap_or(setup.started_unix_us);
    let first = First {
        begun,
        end: broke.or(ended).or(setup.ended_unix_us),
        limit: broke.map_or(u64::MAX, |at: u64| at.max(begun)),
        damaged: marks.damage().lines,
    };
    Ok((events, first))
}

/// Hands on each point, and says how many lines are damaged.
fn each_point(reader: &SeriesReader, mut each: impl FnMut(Point)) -> Result<u64, SeriesError> {
    let mut points = reader.points()?;
    for point in points.by_ref() {
        each(point?);
    }
    Ok(points.damage().lines)
}

fn place(setup: &SoakSetup<'_>, point: &Point) -> Option<usize> {
    setup.metrics.iter().position(|metric| metric.name == point.metric)
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Where the first half of a soak begins and ends, its warm-up left out.
struct Halves {
    begun: u64,
    from: u64,
    to: u64,
}

impl Halves {
    fn new(setup: &SoakSetup<'_>, begun: u64, until: u64) -> Self {
        let length = until.saturating_sub(begun);
        let usual = (length / 10).clamp(SHORTEST_WARM_UP, LONGEST_WARM_UP);
        // Of a soak that broke early, a part of the first half is left.
        let warm_up = setup.warm_up.map_or(usual, us).min(length / 4);
        Self { begun, from: begun.saturating_add(warm_up), to: begun.saturating_add(length / 2) }
    }

    fn has(&self, at: u64) -> bool {
        (self.from..=self.to).contains(&at)
    }

    fn seconds(&self, at: u64) -> f64 {
        micros(at.saturating_sub(self.begun)) / 1e6
    }
}

/// What is collected of one series.
struct Collected {
    blocks: BlockMedians,
    sample: EvenSample,
    points: u64,
    range: Option<(f64, f64)>,
}

impl Collected {
    fn new(points: u64) -> Self {
        let (blocks, sample) = (BlockMedians::new(points), EvenSample::new(BAND_SAMPLE));
        Self { blocks, sample, points: 0, range: None }
    }

    fn see(&mut self, halves: &Halves, at: u64, value: f64) {
        self.points += 1;
        let (low, high) = self.range.unwrap_or((value, value));
        self.range = Some((low.min(value), high.max(value)));
        self.blocks.push(halves.seconds(at), value);
        if halves.has(at) {
            self.sample.push(value);
        }
    }

    fn finish(self, what: &Series<'_>, warm_up: Option<Duration>) -> (MetricSummary, Option<Band>) {
        let blocks = self.blocks.finish();
        let mut values: Vec<f64> = blocks.iter().map(|(_, value)| *value).collect();
        let options =
            DriftOptions { warm_up: warm_up.map(|time| time.as_secs_f64()), ..DriftOptions::default() };
        let found = drift(what.name, what.unit, what.nature, &blocks, &options);
        let summary = MetricSummary {
            name: what.name.to_owned(),
            unit: what.unit.to_owned(),
            primary: what.primary,
            points: self.points,
            range: self.range,
            median: middle(&mut values),
            drift: found,
            blocks,
        };
        (summary, Band::of(what.name, what.unit, what.nature, self.sample.into_values()))
    }
}

/// A metric or a sensor.
struct Series<'a> {
    name: &'a str,
    unit: &'a str,
    nature: Nature,
    primary: bool,
}

/// Blocks, drift and bands: metrics first, then sensors.
fn second_pass(
    reader: &SeriesReader,
    setup: &SoakSetup<'_>,
    counts: &[u64],
    halves: &Halves,
    limit: u64,
) -> Result<(Vec<MetricSummary>, Vec<Option<Band>>), SeriesError> {
    let counted = |at: u64| at >= halves.begun && at <= limit;
    let mut collected: Vec<Collected> = counts.iter().map(|count| Collected::new(*count)).collect();
    each_point(reader, |point| {
        let known = place(setup, &point).and_then(|place| collected.get_mut(place));
        if let Some(known) = known.filter(|_| counted(point.at_unix_us)) {
            known.see(halves, point.at_unix_us, point.value);
        }
    })?;
    let mut all = Vec::with_capacity(setup.metrics.len() + setup.sensors.len());
    for (metric, collected) in setup.metrics.iter().zip(collected) {
        let SeriesMetric { name, unit, nature, primary } = metric;
        let what = Series { name: name.as_str(), unit, nature: *nature, primary: *primary };
        all.push(collected.finish(&what, setup.warm_up));
    }
    for sensor in setup.sensors {
        let mut collected = Collected::new(u64::try_from(sensor.points.len()).unwrap_or(u64::MAX));
        for (at, value) in sensor.points.iter().filter(|(at, value)| counted(*at) && value.is_finite()) {
            collected.see(halves, *at, *value);
        }
        let what = Series { name: &sensor.name, unit: &sensor.unit, nature: sensor.nature, primary: false };
        all.push(collected.finish(&what, setup.warm_up));
    }
    Ok(all.into_iter().unzip())
}

/// Judges all series by their bands.
fn third_pass(
    reader: &SeriesReader,
    setup: &SoakSetup<'_>,
    bands: &[Option<Band>],
) -> Result<super::Progress, SeriesError> {
    let course = Course {
        started_unix_us: setup.started_unix_us,
        ended_unix_us: setup.ended_unix_us,
        planned: setup.planned,
        verdict: setup.verdict,
    };
    // A series without a band has one that holds everything, so that places stay.
    let open = || Band {
        series: String::new(),
        unit: String::new(),
        median: 0.0,
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
    };
    let bands: Vec<Band> = bands.iter().map(|band| band.clone().unwrap_or_else(open)).collect();
    let mut failed = None;
    let mut marks = reader.marks()?;
    let marks = std::iter::from_fn(|| marks.next().and_then(Result::ok));
    let mut points = reader.points()?;
    let points = std::iter::from_fn(|| match points.next()? {
        Ok(point) => Some((point.at_unix_us, place(setup, &point).unwrap_or(usize::MAX), point.value)),
        Err(error) => {
            failed = Some(error);
            None
        }
    });
    let sensors = (setup.metrics.len()..)
        .zip(setup.sensors)
        .flat_map(|(place, sensor)| sensor.points.iter().map(move |(at, value)| (*at, place, *value)));
    let progress = judge_progress(&course, &bands, marks, points, sensors);
    failed.map_or(Ok(progress), Err)
}
