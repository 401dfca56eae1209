//! Times every format over a synthetic run of 100,000 attempts: `cargo run --release -p drover-report --example
//! report_100k [FORMAT]...`. Prints milliseconds and bytes of each, or of those named; nothing fails for being slow.

use std::{error::Error, time::Duration};

use drover_model::{
    AttemptId, CellKey, Direction, Doubt, DoubtKind, EndKind, ErrorCause, HostFacts, Name, NgCause, RunId,
    Sample, TrialId, Usage, Verdict,
};
use drover_report::{Format, Options, exit_status, write_report};
use drover_store::{
    AttemptRecord, CellRecord, MetricRecord, RunRecord, RunResults, RunState, TableLayout, TaskRecord,
};

const KERNELS: u32 = 4;
const SERVERS: u32 = 500;
const WAYS: u32 = 10;
const REPEAT: u32 = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let results = synthetic()?;
    println!("{} cells, {} attempts", results.cells.len(), results.attempts.len());
    let named = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<Vec<Format>, _>>()?;
    for format in Format::ALL.into_iter().filter(|format| named.is_empty() || named.contains(format)) {
        let mut out = Vec::new();
        let begun = std::time::Instant::now();
        write_report(&results, &Options { format, ..Options::default() }, &mut out)?;
        println!("{:<10} {:>7.1} ms {:>10} bytes", format, milliseconds(begun.elapsed()), out.len());
    }
    let begun = std::time::Instant::now();
    let status = exit_status(&results)?;
    println!("{:<10} {:>7.1} ms {:>10}", "exit", milliseconds(begun.elapsed()), status.code());
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Most attempts pass; some are suspect, ng or error, in a fixed pattern.
fn verdict(at: u32) -> Verdict {
    match at % 50 {
        7 | 8 => {
            let detail = format!("client used {}.{} % of its CPU", 95 + at % 5, at % 10);
            Verdict::Suspect { doubts: vec![Doubt { kind: DoubtKind::ClientSaturated, detail }] }
        }
        21 => Verdict::Ng { cause: NgCause::Timeout, detail: format!("client {at} still ran after 120 s") },
        33 => Verdict::Error { cause: ErrorCause::Script, detail: "client exited with status 1".to_owned() },
        _ => Verdict::Ok,
    }
}

fn synthetic() -> Result<RunResults, Box<dyn Error>> {
    let run = RunId(uuid::Uuid::from_u128(7));
    let name = |text: &str| text.parse::<Name>();
    let metric = |text: &str, primary| -> Result<MetricRecord, Box<dyn Error>> {
        Ok(MetricRecord { name: name(text)?, unit: "1/s".to_owned(), better: Direction::Higher, primary })
    };
    let mut cells = Vec::new();
    let mut attempts = Vec::new();
    for index in 0..KERNELS * SERVERS * WAYS {
        let (kernel, servers, way) = (index / SERVERS / WAYS, index / WAYS % SERVERS, index % WAYS);
        let values = [format!("6.{kernel}"), servers.to_string(), format!("way-{way}")];
        let key = CellKey::of(values.iter().map(String::as_bytes));
        let values = values.iter().map(|value| value.as_str().into()).collect();
        cells.push(CellRecord { index, key, values, excluded: None });
        for repetition in 1..=REPEAT {
            let at = index * REPEAT + repetition;
            let value = 10_000.0 + f64::from(at % 977) * 1.25;
            let verdict = verdict(at);
            let passed = verdict.outcome().has_number();
            let sample = |name: &str| Sample { name: name.to_owned(), value, unit: "1/s".to_owned() };
            let task = |role: &str| -> Result<TaskRecord, Box<dyn Error>> {
                Ok(TaskRecord {
                    role: name(role)?,
                    instance: 0,
                    host: name("local")?,
                    argv: ["httperf", "--num-conns=2000", "--num-calls=1"].map(str::to_owned).to_vec(),
                    end: Some(EndKind::Exited(0)),
                    wall: Duration::from_millis(2000),
                    usage: Usage::default(),
                    counters: None,
                    cpus: "0-1".to_owned(),
                    samples: ["conn_per_s", "p50_s", "p99_s", "failed"].map(sample).to_vec(),
                    doubts: Vec::new(),
                    reported: Vec::new(),
                    output_bytes: (1000, 0),
                    tail: if passed { String::new() } else { "one\ntwo\nthree\n".repeat(5) },
                })
            };
            attempts.push(AttemptRecord {
                id: AttemptId { run, trial: TrialId { cell: index, repetition }, number: 1 },
                hosts: vec![name("local")?],
                boot_ids: vec!["b".to_owned()],
                started_unix_us: 1_700_000_000_000_000 + u64::from(at) * 2_000_000,
                elapsed: Duration::from_micros(2_000_123),
                verdict,
                is_final: true,
                metrics: if passed {
                    vec![(name("conn_per_s")?, value), (name("p99_s")?, 0.25)]
                } else {
                    Vec::new()
                },
                tasks: vec![task("server")?, task("client")?],
                start_skew_us: None,
            });
        }
    }
    Ok(RunResults {
        run: RunRecord {
            id: run,
            name: "synthetic".to_owned(),
            about: String::new(),
            matrix_path: String::new(),
            matrix_text: String::new(),
            matrix_files: Vec::new(),
            set: Vec::new(),
            only: Vec::new(),
            seed: 1,
            repeat: REPEAT,
            axes: vec![name("kernel")?, name("servers")?, name("way")?],
            metrics: vec![metric("conn_per_s", true)?, metric("p99_s", false)?],
            table: TableLayout::default(),
            host_file: None,
            drover_version: String::new(),
            started_unix_ms: 1_700_000_000_000,
        },
        state: RunState::Finished,
        ended_unix_ms: None,
        hosts: vec![(name("local")?, HostFacts::default())],
        host_states: Vec::new(),
        cells,
        attempts,
    })
}
