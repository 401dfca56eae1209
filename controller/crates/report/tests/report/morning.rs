//! Morning reports of series on disk.

use std::time::Duration;

use drover_model::{AttemptId, Direction, EndKind, NgCause, TrialId, Verdict};
use drover_report::{
    Format, Options,
    drift::Nature,
    soak::{
        Evidence, EvidenceState, Running, SensorSeries, SeriesMetric, SeriesSummary, SoakResult, SoakSetup,
        summarise,
    },
    write_report_with_soaks,
};
use drover_store::{MarkKind, MetricRecord, ResultsDir, RunResults, SeriesReader, SeriesWriter};

use crate::fixture::{attempt, empty_run, name, ng, run_id, task};

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// 2024-11-30 16:30:00 UTC.
const BEGUN: u64 = 1_732_984_200 * SECOND;
const NIGHT: Duration = Duration::from_secs(8 * 3600);

fn id() -> AttemptId {
    AttemptId { run: run_id(), trial: TrialId { cell: 0, repetition: 1 }, number: 1 }
}

fn metrics() -> Vec<SeriesMetric> {
    let metric = |name_: &str, unit: &str, better, primary| {
        SeriesMetric::of(&MetricRecord { name: name(name_), unit: unit.to_owned(), better, primary })
    };
    vec![
        metric("conn_per_s", "conn/s", Direction::Higher, true),
        metric("p99", "ms", Direction::Lower, false),
        metric("failed", "connections", Direction::Lower, false),
    ]
}

/// The same noise each time, between -1 and 1.
fn noise(n: u64) -> f64 {
    let hash = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
    f64::from(u32::try_from(hash).unwrap()) / f64::from(1_u32 << 23) - 1.0
}

fn seconds(us: u64) -> f64 {
    f64::from(u32::try_from(us / SECOND).unwrap())
}

/// A written series.
struct Night {
    _root: tempfile::TempDir,
    dir: ResultsDir,
}

impl Night {
    fn new(write: impl FnOnce(&mut SeriesWriter)) -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = ResultsDir::create(root.path()).unwrap();
        let mut writer = SeriesWriter::append(&dir, &id()).unwrap();
        write(&mut writer);
        writer.flush().unwrap();
        Self { _root: root, dir }
    }

    fn summary(&self, setup: &SoakSetup<'_>) -> SeriesSummary {
        let reader = SeriesReader::open(&self.dir, &id()).unwrap().unwrap();
        summarise(&reader, setup).unwrap()
    }
}

fn setup<'a>(
    verdict: Option<&'a Verdict>,
    metrics: &'a [SeriesMetric],
    sensors: &'a [SensorSeries],
) -> SoakSetup<'a> {
    SoakSetup {
        started_unix_us: BEGUN - 3 * SECOND,
        ended_unix_us: None,
        planned: NIGHT,
        every: Duration::from_secs(10),
        warm_up: None,
        verdict,
        metrics,
        sensors,
    }
}

/// Five hours of eight: the way to the host is cut for a while, latency rises in the last minutes, then a hang.
fn broken_night() -> Night {
    Night::new(|writer| {
        writer.mark(BEGUN, MarkKind::Begun, "").unwrap();
        let end = 5 * HOUR + 12 * MINUTE;
        let cut = HOUR + 2 * MINUTE..HOUR + 5 * MINUTE;
        for (round, at) in (1..).zip((10 * SECOND..end).step_by(10_000_000)) {
            if cut.contains(&at) {
                continue;
            }
            let late = at > end - 4 * MINUTE;
            let values = [
                ("conn_per_s", 1000.0 + 5.0 * noise(round)),
                ("p99", if late { 41.2 } else { 2.0 } + 0.1 * noise(round * 7)),
                ("failed", 0.0),
            ];
            for (metric, value) in values {
                writer.point(BEGUN + at, round, &name(metric), value).unwrap();
            }
        }
        writer.mark(BEGUN + HOUR + 2 * MINUTE, MarkKind::HostLost, "web1: connection reset").unwrap();
        writer.mark(BEGUN + HOUR + 5 * MINUTE, MarkKind::HostBack, "web1").unwrap();
        writer.mark(BEGUN + 2 * HOUR, MarkKind::ControllerBack, "another controller went on").unwrap();
        for n in 0..3 {
            let at = BEGUN + end - 2 * MINUTE + n * 10 * SECOND;
            writer
                .mark(at, MarkKind::RoundFailed, "client exited with status 1: `x` | \u{1b}[31m<b>\nmore")
                .unwrap();
        }
        let hung = BEGUN + end + 2 * MINUTE;
        writer.mark(hung, MarkKind::Stalled, "client made no progress for 2 min").unwrap();
        writer.mark(hung, MarkKind::Broke, "hang: no progress for 2 min; \u{1b}]0;x\u{7} @admin").unwrap();
    })
}

fn leak() -> SensorSeries {
    let rss = (0..5 * 360 + 72).map(|n| {
        let at = n * 10 * SECOND;
        let mib = 200.0 + 3.1 * seconds(at) / 3600.0 + 0.05 * noise(n);
        (BEGUN + at, (mib * 1_048_576.0).round())
    });
    SensorSeries {
        name: "server rss".to_owned(),
        unit: "bytes".to_owned(),
        nature: Nature::Resource,
        points: rss.collect(),
    }
}

fn results(verdict: Verdict) -> RunResults {
    let mut results = empty_run(&[("servers", &["8"]), ("mode", &["wait"])], 1);
    let mut record = attempt(0, 1, 1, verdict, Some(1000.0));
    record.tasks = vec![task("server", EndKind::Killed, ""), task("client", EndKind::Killed, "")];
    record.tasks.push(record.tasks[1].clone());
    results.attempts.push(record);
    results
}

fn broken() -> (RunResults, SoakResult) {
    let results = results(ng(NgCause::Hang, "no progress for 2 min"));
    let record = &results.attempts[0];
    let (metrics, sensors) = (metrics(), [leak()]);
    let series = broken_night().summary(&setup(Some(&record.verdict), &metrics, &sensors));
    let evidence =
        Evidence { state: EvidenceState::Partial, paths: vec!["runs/x/c0r1a1/evidence.web1.txt".to_owned()] };
    let (verdict, running) = (Some(record.verdict.clone()), Running::of(record));
    let soak = SoakResult { attempt: record.id, planned: NIGHT, verdict, evidence, running, series };
    (results, soak)
}

fn held() -> (RunResults, SoakResult) {
    let results = results(Verdict::Ok);
    let night = Night::new(|writer| {
        writer.mark(BEGUN, MarkKind::Begun, "").unwrap();
        for (round, at) in (1..).zip((10 * SECOND..=8 * HOUR).step_by(10_000_000)) {
            let slower = 1.0 - 0.02 * seconds(at) / 3600.0;
            writer
                .point(BEGUN + at, round, &name("conn_per_s"), 1000.0 * slower + 5.0 * noise(round))
                .unwrap();
            writer.point(BEGUN + at, round, &name("p99"), 2.0 + 0.1 * noise(round * 7)).unwrap();
        }
        writer.mark(BEGUN + 8 * HOUR, MarkKind::Ended, "the time was over").unwrap();
    });
    let metrics = metrics();
    let series = night.summary(&setup(Some(&Verdict::Ok), &metrics, &[]));
    let record = &results.attempts[0];
    let (evidence, running) = (Evidence::default(), Running::of(record));
    let soak = SoakResult {
        attempt: record.id,
        planned: NIGHT,
        verdict: Some(Verdict::Ok),
        evidence,
        running,
        series,
    };
    (results, soak)
}

fn render(results: &RunResults, soak: SoakResult, format: Format) -> String {
    let mut out = Vec::new();
    let options = Options { format, ..Options::default() };
    write_report_with_soaks(results, &[soak], &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn expect_the_whole_story_as_text_when_a_soak_hung() {
    let (results, soak) = broken();
    insta::assert_snapshot!(render(&results, soak, Format::Text));
}

#[test]
fn expect_the_whole_story_as_markdown_when_a_soak_hung() {
    let (results, soak) = broken();
    insta::assert_snapshot!(render(&results, soak, Format::Markdown));
}

#[test]
fn expect_the_whole_story_as_json_when_a_soak_hung() {
    let (results, mut soak) = broken();
    for metric in &mut soak.series.metrics {
        metric.blocks.truncate(2);
        // Figures of the last bits differ by the machine's floating point.
        let drift = metric.drift.as_mut().unwrap();
        for figure in [&mut drift.per_hour, &mut drift.low, &mut drift.high, &mut drift.p] {
            *figure = (*figure * 1e3).round() / 1e3;
        }
    }
    let json: serde_json::Value = serde_json::from_str(&render(&results, soak, Format::Json)).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&json["soaks"]).unwrap());
    let schema: serde_json::Value = serde_json::from_str(&drover_report::json_schema()).unwrap();
    let errors: Vec<String> = jsonschema::validator_for(&schema)
        .unwrap()
        .iter_errors(&json)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(errors, [""; 0]);
}

#[test]
fn expect_drift_and_no_break_when_a_soak_held() {
    let (results, soak) = held();
    insta::assert_snapshot!(render(&results, soak, Format::Text));
}

#[test]
fn expect_nothing_that_acts_when_texts_are_hostile() {
    for format in [Format::Text, Format::Markdown, Format::Json] {
        let (results, soak) = broken();
        let text = render(&results, soak, format);
        let acts = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(acts), "{format}");
        assert!(format != Format::Markdown || !text.contains("<b>"));
    }
}

#[test]
fn expect_no_soaks_in_json_when_the_run_has_none() {
    let json = crate::fixture::render_as(&results(Verdict::Ok), Format::Json);
    assert!(!json.contains("soaks"));
}

#[test]
fn expect_what_there_is_when_a_soak_goes_on() {
    let night = Night::new(|writer| {
        writer.mark(BEGUN, MarkKind::Begun, "").unwrap();
        for (round, at) in (1..).zip((10 * SECOND..=10 * MINUTE).step_by(10_000_000)) {
            writer.point(BEGUN + at, round, &name("conn_per_s"), 1000.0 + noise(round)).unwrap();
        }
    });
    let metrics = metrics();
    let series = night.summary(&setup(None, &metrics, &[]));
    assert_eq!(series.progress.held, Duration::from_secs(600));
    assert_eq!((series.progress.broke, series.progress.first_bad_sign), (None, None));
    assert_eq!((series.gaps.len(), series.rounds, series.metrics[0].points), (0, 60, 60));
    assert_eq!((series.metrics[1].points, &series.metrics[1].drift), (0, &None));
}

#[test]
fn expect_points_before_the_load_and_behind_the_break_not_to_count() {
    let night = Night::new(|writer| {
        let mut point = |at: u64, value| writer.point(at, at / SECOND, &name("conn_per_s"), value).unwrap();
        (1..=30).for_each(|n| point(BEGUN - n * SECOND, 5.0));
        (1..=360).for_each(|n| point(BEGUN + n * 10 * SECOND, 1000.0));
        (361..=400).for_each(|n| point(BEGUN + n * 10 * SECOND, 5.0));
        writer.mark(BEGUN, MarkKind::Begun, "").unwrap();
        writer.mark(BEGUN + HOUR, MarkKind::Broke, "crash: server ended").unwrap();
    });
    let metrics = metrics();
    let verdict = ng(NgCause::Crash, "server ended");
    let series = night.summary(&setup(Some(&verdict), &metrics, &[]));
    assert_eq!((series.metrics[0].points, series.metrics[0].range), (360, Some((1000.0, 1000.0))));
    assert_eq!(series.progress.held, Duration::from_secs(3600));
    assert_eq!(series.progress.first_bad_sign, None);
}

#[test]
fn expect_the_given_warm_up_when_drift_is_told() {
    let night = Night::new(|writer| {
        writer.mark(BEGUN, MarkKind::Begun, "").unwrap();
        for n in 1..=2880 {
            writer.point(BEGUN + n * 10 * SECOND, n, &name("conn_per_s"), 1000.0 + noise(n)).unwrap();
        }
    });
    let metrics = metrics();
    let blocks = |warm_up: Option<u64>| {
        let warm_up = warm_up.map(Duration::from_secs);
        let series = night.summary(&SoakSetup { warm_up, ..setup(Some(&Verdict::Ok), &metrics, &[]) });
        series.metrics[0].drift.as_ref().map(|drift| drift.n)
    };
    // 576 blocks of 50 s; the usual warm-up is ten minutes.
    assert_eq!((blocks(None), blocks(Some(4 * 3600)), blocks(Some(1))), (Some(564), Some(288), Some(575)));
    assert_eq!(blocks(Some(8 * 3600 - 300)), None);
}

#[test]
fn expect_at_most_600_blocks_of_each_metric_when_points_are_many() {
    let names: Vec<_> = (0..20).map(|n| name(&format!("m{n}"))).collect();
    let night = Night::new(|writer| {
        writer.mark(BEGUN, MarkKind::Begun, "").unwrap();
        for n in 1..=3_000_u64 {
            for (at, metric) in (0..).zip(&names) {
                writer.point(BEGUN + n * SECOND, n, metric, 100.0 + noise(n * 20 + at)).unwrap();
            }
        }
    });
    let metric = |name: &drover_model::Name| SeriesMetric {
        name: name.clone(),
        unit: "1/s".to_owned(),
        nature: Nature::Throughput,
        primary: false,
    };
    let metrics: Vec<SeriesMetric> = names.iter().map(metric).collect();
    let verdict = ng(NgCause::Hang, "no progress");
    let series =
        night.summary(&SoakSetup { every: Duration::from_secs(1), ..setup(Some(&verdict), &metrics, &[]) });
    assert_eq!(series.progress.held, Duration::from_secs(3_000));
    assert!(series.metrics.iter().all(|m| m.points == 3_000 && m.blocks.len() == 600));
    assert_eq!(series.progress.broke.unwrap().what, "hang: no progress");
}
