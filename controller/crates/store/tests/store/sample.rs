//! Records to store: fixed ones, and strategies for arbitrary ones.

use std::time::Duration;

use drover_model::{
    AttemptId, CellKey, Counters, Direction, Doubt, DoubtKind, EndKind, ErrorCause, HostFacts, MissingCause,
    Name, NgCause, NotStarted, RunId, Sample, TrialId, Usage, Verdict,
};
use drover_store::{
    AttemptRecord, CellRecord, Intent, MetricRecord, RawOutput, RunRecord, Stream, TableLayout, TaskRecord,
};
use proptest::{collection::vec, option, prelude::*};
use uuid::Uuid;

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub fn run_id(n: u128) -> RunId {
    RunId(Uuid::from_u128(0x0198_0000_0000_7000_8000_0000_0000_0000 + n))
}

pub fn run(n: u128) -> RunRecord {
    RunRecord {
        id: run_id(n),
        name: "accept".into(),
        about: "an \"example\"".into(),
        matrix_path: "matrices/accept.yaml".into(),
        matrix_text: "version: 1\n".into(),
        matrix_files: vec![("httpd.conf".into(), vec![0, 255, b'\n']), ("empty".into(), vec![])],
        set: vec!["cpus=1,2".into()],
        only: vec!["servers > 3".into()],
        seed: u64::MAX,
        repeat: 3,
        axes: vec![name("servers"), name("serialisation")],
        metrics: vec![MetricRecord {
            name: name("conn_per_s"),
            unit: "conn/s".into(),
            better: Direction::Higher,
            primary: true,
        }],
        table: TableLayout { rows: vec![name("servers")], cols: vec![name("serialisation")], facet: vec![] },
        host_file: Some(("hosts.yaml".into(), "version: 1".into())),
        drover_version: "0.1.0".into(),
        started_unix_ms: 1_700_000_000_000 + u64::try_from(n).unwrap(),
    }
}

/// The last one is excluded.
pub fn cells(count: u32) -> Vec<CellRecord> {
    let cell = |index: u32| CellRecord {
        index,
        key: CellKey::of([index.to_le_bytes().as_slice()]),
        values: vec![index.to_string().into(), "fcntl".into()],
        excluded: (index + 1 == count).then(|| "too slow".to_owned()),
    };
    (0..count).map(cell).collect()
}

pub fn attempt_id(run: RunId, cell: u32, repetition: u32, number: u32) -> AttemptId {
    AttemptId { run, trial: TrialId { cell, repetition }, number }
}

pub fn intent(id: AttemptId) -> Intent {
    Intent { id, seats: "local/local".parse().unwrap(), at_unix_us: 1_700_000_000_000_000 }
}

pub fn facts(kernel: &str) -> HostFacts {
    HostFacts {
        hostname: "alpha".into(),
        kernel_release: kernel.into(),
        tainted: u64::MAX,
        ..HostFacts::default()
    }
}

pub fn task() -> TaskRecord {
    TaskRecord {
        role: name("client"),
        instance: 0,
        host: name("local"),
        argv: vec!["ab".into(), "-n".into(), "10".into()],
        end: Some(EndKind::Exited(0)),
        wall: Duration::from_micros(2_000_001),
        usage: Usage { user: Duration::from_millis(3), voluntary_switches: 7, ..Usage::default() },
        counters: Some(Counters { context_switches: 11, ..Counters::default() }),
        cpus: "0-1".into(),
        samples: vec![Sample { name: "conn_per_s".into(), value: 1234.5, unit: "conn/s".into() }],
        doubts: vec![],
        reported: vec![("Failed requests".into(), "0".into())],
        output_bytes: (12, 0),
        tail: String::new(),
    }
}

pub fn attempt(id: AttemptId) -> AttemptRecord {
    AttemptRecord {
        id,
        hosts: vec![name("local")],
        boot_ids: vec!["b7c0".into()],
        started_unix_us: 1_700_000_000_000_000,
        elapsed: Duration::from_nanos(2_000_000_001),
        verdict: Verdict::Ok,
        is_final: true,
        metrics: vec![(name("conn_per_s"), 1234.5), (name("a_metric"), 0.1 + 0.2)],
        tasks: vec![task()],
        start_skew_us: Some(12),
    }
}

pub fn ng(id: AttemptId) -> AttemptRecord {
    let verdict = Verdict::Ng { cause: NgCause::Timeout, detail: "still running after 2m".into() };
    AttemptRecord { verdict, metrics: vec![], is_final: false, ..attempt(id) }
}

pub fn output(bytes: &[u8]) -> RawOutput {
    RawOutput { role: name("client"), instance: 0, stream: Stream::Stdout, bytes: bytes.to_vec() }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[ -~]{0,20}", "\\PC{0,12}", Just("\0\"\\\n\u{2028}".to_owned())]
}

fn any_name() -> impl Strategy<Value = Name> {
    "[a-z_][a-z0-9_-]{0,12}".prop_map(|text| name(&text))
}

fn any_number() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("finite", |value| value.is_finite())
}

fn any_duration() -> impl Strategy<Value = Duration> {
    (0..u64::MAX / 4).prop_map(Duration::from_nanos)
}

fn any_doubts() -> impl Strategy<Value = Vec<Doubt>> {
    let kinds = prop_oneof![Just(DoubtKind::Inconsistent), Just(DoubtKind::PassedOnRetry)];
    vec((kinds, any_text()).prop_map(|(kind, detail)| Doubt { kind, detail }), 0..4)
}

fn any_verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        Just(Verdict::Ok),
        any_doubts().prop_map(|doubts| Verdict::Suspect { doubts }),
        any_text().prop_map(|detail| Verdict::Ng { cause: NgCause::UnexpectedReboot, detail }),
        any_text().prop_map(|detail| Verdict::Error { cause: ErrorCause::PortTaken, detail }),
        any_text().prop_map(|detail| Verdict::Missing { cause: MissingCause::NotRun, detail }),
    ]
}

fn any_end() -> impl Strategy<Value = EndKind> {
    prop_oneof![
        any::<i32>().prop_map(EndKind::Exited),
        option::of(any::<i32>()).prop_map(EndKind::Stopped),
        Just(EndKind::Deadline),
        any_text().prop_map(EndKind::NotReady),
        any_text().prop_map(|text| EndKind::NotStarted(NotStarted::PortTaken, text)),
    ]
}

fn any_task() -> impl Strategy<Value = TaskRecord> {
    let sample =
        (any_text(), any_number(), any_text()).prop_map(|(name, value, unit)| Sample { name, value, unit });
    let what = (any_name(), any::<u32>(), vec(any_text(), 0..4), option::of(any_end()), any_duration());
    let usage = (any_duration(), any::<[u64; 3]>(), option::of(any::<[u64; 6]>()), any_text());
    let found = (vec(sample, 0..4), any_doubts(), vec((any_text(), any_text()), 0..3), any::<(u64, u64)>());
    (what, usage, found, any_text()).prop_map(|(what, usage, found, tail)| {
        let (role, instance, argv, end, wall) = what;
        let (user, [max_rss_bytes, voluntary_switches, involuntary_switches], counters, cpus) = usage;
        let (samples, doubts, reported, output_bytes) = found;
        let counters = counters.map(|[a, b, c, d, e, f]| Counters {
            context_switches: a,
            listen_overflows: b,
            listen_drops: c,
            retransmits: d,
            time_wait_overflows: e,
            steal_us: f,
        });
        let usage = Usage { user, system: wall, max_rss_bytes, voluntary_switches, involuntary_switches };
        TaskRecord {
            role,
            instance,
            host: name("alpha"),
            argv,
            end,
            wall,
            usage,
            counters,
            cpus,
            samples,
            doubts,
            reported,
            output_bytes,
            tail,
        }
    })
}

/// Any attempt of that id.
pub fn any_attempt(id: AttemptId) -> impl Strategy<Value = AttemptRecord> {
    let when = (0..u64::MAX / 2, any_duration(), option::of(0..u64::MAX / 2));
    let what = (any_verdict(), any::<bool>(), vec((any_name(), any_number()), 0..4), vec(any_task(), 0..3));
    let hosts = vec((any_name(), any_text()), 0..3);
    (hosts, when, what).prop_map(move |(hosts, when, what)| {
        let (hosts, boot_ids) = hosts.into_iter().unzip();
        let (started_unix_us, elapsed, start_skew_us) = when;
        let (verdict, is_final, metrics, tasks) = what;
        AttemptRecord {
            id,
            hosts,
            boot_ids,
            started_unix_us,
            elapsed,
            verdict,
            is_final,
            metrics,
            tasks,
            start_skew_us,
        }
    })
}

/// Any run of that id, with any cells.
pub fn any_run(id: RunId) -> impl Strategy<Value = (RunRecord, Vec<CellRecord>)> {
    let texts = (any_text(), any_text(), any_text(), any_text(), vec(any_text(), 0..3));
    let files = vec((any_text(), vec(any::<u8>(), 0..20)), 0..3);
    let axes = vec(any_name(), 0..4);
    let cells = vec((any::<[u8; 4]>(), vec(any_text(), 0..4), option::of(any_text())), 0..5);
    (texts, files, axes, any::<u64>(), any::<u32>(), 0..u64::MAX / 2, cells).prop_map(
        move |((name, about, path, text, set), matrix_files, axes, seed, repeat, started_unix_ms, cells)| {
            let table = TableLayout { rows: axes.clone(), ..TableLayout::default() };
            let record = RunRecord {
                id,
                name,
                about,
                matrix_path: path,
                matrix_text: text,
                matrix_files,
                only: set.clone(),
                set,
                seed,
                repeat,
                axes,
                table,
                host_file: None,
                drover_version: String::new(),
                started_unix_ms,
                ..run(0)
            };
            let cell = |(index, (key, values, excluded)): (u32, ([u8; 4], Vec<String>, _))| CellRecord {
                index,
                key: CellKey::of([key.as_slice()]),
                values: values.into_iter().map(Into::into).collect(),
                excluded,
            };
            (record, (0..).zip(cells).map(cell).collect())
        },
    )
}
