//! Times the paths that must be fast: planning a large run, storing 100,000 attempts, and reading them for a table.
//! `cargo run --release -p drover-store --example load_100k [attempts]`

use std::{
    error::Error,
    time::{Duration, Instant},
};

use drover_model::{
    AttemptId, CellKey, Direction, EndKind, Name, RunId, Sample, Seats, TrialId, Usage, Verdict,
};
use drover_store::{
    AttemptRecord, CellRecord, Change, Intent, MetricRecord, ResultsDir, RunRecord, SqliteStore, Store,
    TableLayout, TaskRecord,
};

/// Repetitions of a cell.
const REPEAT: u32 = 5;
/// As many as the writer puts in one commit.
const GROUP: usize = drover_store::MAX_BATCH;

fn main() -> Result<(), Box<dyn Error>> {
    let attempts: u32 = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let folder = std::env::temp_dir().join(format!("drover-load-{}", std::process::id()));
    let dir = ResultsDir::create(&folder)?;
    let result = measure(&dir, attempts);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn measure(dir: &ResultsDir, attempts: u32) -> Result<(), Box<dyn Error>> {
    let run = run()?;
    let mut store = SqliteStore::open(dir)?;
    timed("create the run", || store.create_run(&run, &mut (0..attempts.div_ceil(REPEAT)).map(cell)))?;
    let mut records = Vec::new();
    for n in 0..attempts {
        records.push(record(run.id, n)?);
    }
    let seats = Seats::all_on(&"local".parse()?, 2);
    let intents: Vec<Intent> = records
        .iter()
        .map(|record| Intent { id: record.id, seats: seats.clone(), at_unix_us: record.started_unix_us })
        .collect();
    timed("store all attempts", || {
        for (records, intents) in records.chunks(GROUP).zip(intents.chunks(GROUP)) {
            let mut changes = vec![Change::Journal(intents)];
            changes.extend(records.iter().map(Change::Finish));
            store.apply(&changes)?;
        }
        Ok::<_, drover_store::StoreError>(())
    })?;
    let singles = records.get(..200.min(records.len())).unwrap_or_default();
    timed("200 commits of one", || {
        singles.iter().try_for_each(|record| {
            let intent =
                Intent { id: AttemptId { number: 2, ..record.id }, seats: seats.clone(), at_unix_us: 0 };
            store.journal(&[intent])?;
            store
                .finish_attempt(&AttemptRecord { id: AttemptId { number: 2, ..record.id }, ..record.clone() })
        })
    })?;
    drop(store);
    println!("{:>30} {:>9.1} MiB", "size of the database", mib(std::fs::metadata(dir.db_path())?.len())?);

    let store = timed("open for reading", || SqliteStore::open_read_only(dir))?;
    timed("list", || store.runs())?;
    let table = timed("load for a table", || store.load_table(run.id))?;
    println!("{:>30} {:>9}", "attempts in it", table.attempts.len());
    timed("history for resume", || store.history(run.id))?;
    timed("journalled for resume", || store.journalled(run.id))?;
    timed("load everything", || store.load(run.id))?;
    Ok(())
}

fn timed<T, E>(what: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let (begin, cpu) = (Instant::now(), cpu_time());
    let done = work()?;
    let wall = begin.elapsed().as_secs_f64() * 1000.0;
    let cpu = cpu_time().saturating_sub(cpu).as_secs_f64() * 1000.0;
    println!("{what:>30} {wall:>9.1} ms  {cpu:>9.1} ms CPU");
    Ok(done)
}

/// Used by this process so far: what a busy machine does not change.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn mib(bytes: u64) -> Result<f64, std::num::TryFromIntError> {
    Ok(f64::from(u32::try_from(bytes / 1024)?) / 1024.0)
}

fn run() -> Result<RunRecord, Box<dyn Error>> {
    let metric = |name: &str, primary| -> Result<MetricRecord, Box<dyn Error>> {
        Ok(MetricRecord { name: name.parse()?, unit: "conn/s".into(), better: Direction::Higher, primary })
    };
    Ok(RunRecord {
        id: "01980000-0000-7000-8000-000000000001".parse()?,
        name: "load".into(),
        about: String::new(),
        matrix_path: "load.yaml".into(),
        matrix_text: String::new(),
        matrix_files: vec![],
        set: vec![],
        only: vec![],
        seed: 1,
        repeat: REPEAT,
        axes: vec!["servers".parse()?, "serialisation".parse()?, "cpus".parse()?],
        metrics: vec![metric("conn_per_s", true)?, metric("failed", false)?, metric("wakeups", false)?],
        table: TableLayout::default(),
        host_file: None,
        drover_version: env!("CARGO_PKG_VERSION").into(),
        started_unix_ms: 1_700_000_000_000,
    })
}

fn cell(index: u32) -> CellRecord {
    CellRecord {
        index,
        key: CellKey::of([index.to_le_bytes().as_slice()]),
        values: vec![(index / 16).to_string().into(), "fcntl".into(), (index % 16).to_string().into()],
        excluded: None,
    }
}

fn record(run: RunId, n: u32) -> Result<AttemptRecord, Box<dyn Error>> {
    // The order of rounds: every cell once, then again.
    let cells = 20_000.max(n / REPEAT + 1);
    let (cell, repetition) = if n < cells * REPEAT { (n / REPEAT, n % REPEAT + 1) } else { (n % cells, 1) };
    let id = AttemptId { run, trial: TrialId { cell, repetition }, number: 1 };
    let value = f64::from(n) * 1.1 + 0.123_456_789;
    let metrics: Vec<(Name, f64)> =
        vec![("conn_per_s".parse()?, value), ("failed".parse()?, 0.0), ("wakeups".parse()?, 1.0 / value)];
    Ok(AttemptRecord {
        id,
        hosts: vec!["local".parse()?],
        boot_ids: vec!["6a9f9d2c-8c3e-4a55-9d1b-7b6a6b1c2d3e".into()],
        started_unix_us: 1_700_000_000_000_000 + u64::from(n),
        elapsed: Duration::from_micros(2_000_000 + u64::from(n)),
        verdict: Verdict::Ok,
        is_final: true,
        metrics,
        tasks: vec![task("server", value)?, task("client", value)?],
        start_skew_us: None,
    })
}

fn task(role: &str, value: f64) -> Result<TaskRecord, Box<dyn Error>> {
    let sample =
        |i: u32| Sample { name: format!("latency_p{i}_s"), value: value + f64::from(i), unit: "s".into() };
    Ok(TaskRecord {
        role: role.parse()?,
        instance: 0,
        host: "local".parse()?,
        argv: ["drover-agent", "workload", role, "--connections", "10000"].map(str::to_owned).to_vec(),
        end: Some(EndKind::Exited(0)),
        wall: Duration::from_secs(2),
        usage: Usage::default(),
        counters: None,
        cpus: "0-1".into(),
        samples: (0..12).map(sample).collect(),
        doubts: vec![],
        reported: vec![],
        output_bytes: (1200, 0),
        tail: String::new(),
    })
}
