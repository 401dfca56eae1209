//! A small run with every outcome a cell can have, and a builder for others. Used by all tests of this crate.

use std::time::Duration;

use drover_model::{
    AttemptId, CellKey, Counters, CpuCore, Direction, Doubt, DoubtKind, EndKind, ErrorCause, HostFacts,
    MissingCause, Name, NgCause, RunId, Sample, TrialId, Usage, Verdict,
};
use drover_report::{Format, Options, ReportError, write_report};
use drover_store::{
    AttemptRecord, CellRecord, HostState, MetricRecord, RunRecord, RunResults, RunState, TableLayout,
    TaskRecord,
};

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub fn run_id() -> RunId {
    RunId(uuid::Uuid::from_u128(0x0193_0000_0000_7000_8000_0000_0000_00aa))
}

/// A run over the product of axes, without attempts.
pub fn empty_run(axes: &[(&str, &[&str])], repeat: u32) -> RunResults {
    let mut values: Vec<Vec<&str>> = vec![Vec::new()];
    for (_, levels) in axes {
        values = values
            .iter()
            .flat_map(|cell| levels.iter().map(|level| [cell.as_slice(), &[*level]].concat()))
            .collect();
    }
    let cells = values.iter().enumerate().map(|(index, values)| CellRecord {
        index: u32::try_from(index).unwrap(),
        key: CellKey::of(values.iter().map(|value| value.as_bytes())),
        values: values.iter().map(|value| (*value).into()).collect(),
        excluded: None,
    });
    let metric = |name_: &str, unit: &str, better, primary| MetricRecord {
        name: name(name_),
        unit: unit.to_owned(),
        better,
        primary,
    };
    RunResults {
        run: RunRecord {
            id: run_id(),
            name: "accept-serialisation".to_owned(),
            about: "Connections per second, by accept serialisation and number of servers.".to_owned(),
            matrix_path: "matrices/accept.yaml".to_owned(),
            matrix_text: "version: 1\n".to_owned(),
            matrix_files: Vec::new(),
            set: vec!["cpus=1,2".to_owned()],
            only: Vec::new(),
            seed: 42,
            repeat,
            axes: axes.iter().map(|(axis, _)| name(axis)).collect(),
            metrics: vec![
                metric("conn_per_s", "conn/s", Direction::Higher, true),
                metric("failed", "connections", Direction::Lower, false),
            ],
            table: TableLayout::default(),
            host_file: None,
            drover_version: "0.1.0".to_owned(),
            started_unix_ms: 1_732_984_200_000,
        },
        state: RunState::Interrupted,
        ended_unix_ms: Some(1_732_984_500_000),
        hosts: vec![(name("local"), host_facts())],
        host_states: vec![HostState::of(&name("local"), &host_facts())],
        cells: cells.collect(),
        attempts: Vec::new(),
    }
}

pub fn host_facts() -> HostFacts {
    let cpu = |cpu| CpuCore { cpu, core: cpu, package: 0, node: 0 };
    HostFacts {
        hostname: "bench".to_owned(),
        kernel_release: "6.12.48-amd64".to_owned(),
        machine: "x86_64".to_owned(),
        cpus: vec![cpu(0), cpu(1)],
        cpus_present: 2,
        cpu_model: "Imaginary 3000".to_owned(),
        memory_bytes: 8 << 30,
        hypervisor: Some("KVM".to_owned()),
        mitigations: vec![("spectre_v2".to_owned(), "Mitigation: IBRS".to_owned())],
        ..HostFacts::default()
    }
}

/// An attempt with `conn_per_s` if a value is given.
pub fn attempt(
    cell: u32,
    repetition: u32,
    number: u32,
    verdict: Verdict,
    value: Option<f64>,
) -> AttemptRecord {
    let begun = 1_732_984_200_000_000 + u64::from(cell * 9 + repetition * 3 + number) * 2_000_000;
    AttemptRecord {
        id: AttemptId { run: run_id(), trial: TrialId { cell, repetition }, number },
        hosts: vec![name("local")],
        boot_ids: vec!["8c1f".to_owned()],
        started_unix_us: begun,
        elapsed: Duration::from_millis(1250),
        verdict,
        is_final: true,
        metrics: value.map(|value| (name("conn_per_s"), value)).into_iter().collect(),
        tasks: Vec::new(),
        start_skew_us: None,
    }
}

pub fn task(role: &str, end: EndKind, tail: &str) -> TaskRecord {
    TaskRecord {
        role: name(role),
        instance: 0,
        host: name("local"),
        argv: vec!["httpd".to_owned(), "-X".to_owned()],
        end: Some(end),
        wall: Duration::from_millis(1200),
        usage: Usage { user: Duration::from_millis(300), voluntary_switches: 4000, ..Usage::default() },
        counters: Some(Counters { context_switches: 9000, ..Counters::default() }),
        cpus: "0-1".to_owned(),
        samples: vec![Sample { name: "conn_per_s".to_owned(), value: 1.5, unit: "conn/s".to_owned() }],
        doubts: Vec::new(),
        reported: vec![("Failed requests".to_owned(), "3".to_owned())],
        output_bytes: (120, 40),
        tail: tail.to_owned(),
    }
}

pub fn suspect(kind: DoubtKind, detail: &str) -> Verdict {
    Verdict::Suspect { doubts: vec![Doubt { kind, detail: detail.to_owned() }] }
}

pub fn ng(cause: NgCause, detail: &str) -> Verdict {
    Verdict::Ng { cause, detail: detail.to_owned() }
}

pub fn error(cause: ErrorCause, detail: &str) -> Verdict {
    Verdict::Error { cause, detail: detail.to_owned() }
}

pub fn missing(cause: MissingCause, detail: &str) -> Verdict {
    Verdict::Missing { cause, detail: detail.to_owned() }
}

/// Two CPU counts, four server counts, three ways to serialise; the first twelve cells have every outcome, alone and
/// mixed, and hostile evidence. Their numbers are 1000 and more, so that a test can tell them from counts.
pub fn every_outcome() -> RunResults {
    let mut results = empty_run(
        &[
            ("kernel", &["6.12"]),
            ("cpus", &["1", "2"]),
            ("servers", &["3", "10", "30", "150"]),
            ("serialisation", &["none", "fcntl", "flock"]),
        ],
        3,
    );
    let mut add = |attempt| results.attempts.push(attempt);
    // 0: 3 none, plainly ok.
    for (repetition, value) in [(1, 18_599.4), (2, 18_710.0), (3, 18_400.25)] {
        add(attempt(0, repetition, 1, Verdict::Ok, Some(value)));
    }
    // 1: 3 fcntl, suspect, each in other figures.
    for (repetition, share) in [(1, "99.1"), (2, "98.7"), (3, "99.4")] {
        let verdict = suspect(DoubtKind::ClientSaturated, &format!("client used {share} % of its CPU"));
        add(attempt(1, repetition, 1, verdict, Some(17_460.0 + f64::from(repetition))));
    }
    // 2: 3 flock, two numbers and a script that failed.
    add(attempt(2, 1, 1, Verdict::Ok, Some(15_141.0)));
    add(attempt(2, 2, 1, Verdict::Ok, Some(15_341.0)));
    let mut failed = attempt(2, 3, 1, error(ErrorCause::Script, "client exited with status 1"), None);
    failed.tasks = vec![task("client", EndKind::Exited(1), "\nhttperf: cannot resolve `localhost`\n")];
    add(failed);
    // 3: 10 none, one lockup, two passes.
    let lockup =
        ng(NgCause::Lockup, "NMI watchdog detected LOCKUP on CPU1, registers:\nRIP: fcntl_setlk+0x1f");
    add(attempt(3, 1, 1, Verdict::Ok, Some(5358.0)));
    add(attempt(3, 2, 1, lockup, Some(9999.0)));
    add(attempt(3, 3, 1, Verdict::Ok, Some(5356.0)));
    // 4: 10 fcntl, crashes with hostile output.
    for repetition in 1..=3 {
        let detail = format!("server (pid {}) was killed by signal 11", 4000 + repetition);
        let mut crashed = attempt(4, repetition, 1, ng(NgCause::Crash, &detail), None);
        let tail = "start\n\u{1b}]0;owned\u{7}\u{1b}[2J<script>alert(1)</script> | @admin `x` \u{202e}txt\n";
        crashed.tasks =
            vec![task("client", EndKind::Killed, ""), task("server", EndKind::Signaled(11), tail)];
        add(crashed);
    }
    // 5: 10 flock, nothing parsed.
    for repetition in 1..=3 {
        add(attempt(5, repetition, 1, error(ErrorCause::Parse, "no conn_per_s in 0 bytes of output"), None));
    }
    // 6: 30 none, two of three run so far.
    add(attempt(6, 1, 1, Verdict::Ok, Some(15_512.0)));
    add(attempt(6, 2, 1, Verdict::Ok, Some(15_112.0)));
    // 7: 30 fcntl, the host cannot.
    for repetition in 1..=3 {
        add(attempt(7, repetition, 1, missing(MissingCause::WrongCpus, "=1 CPU asked, 2 there"), None));
    }
    // 8: 30 flock, not reached.
    // 9: 150 none, passed after an ng.
    let mut first = attempt(9, 1, 1, ng(NgCause::Timeout, "client still ran after 120 s"), None);
    first.is_final = false;
    add(first);
    add(attempt(9, 1, 2, suspect(DoubtKind::PassedOnRetry, "attempt 1 was ng timeout"), Some(12_481.0)));
    add(attempt(9, 2, 1, Verdict::Ok, Some(12_500.0)));
    add(attempt(9, 3, 1, Verdict::Ok, Some(12_300.0)));
    // 10: 150 fcntl, ok after our own fault.
    let mut lost = attempt(10, 1, 1, error(ErrorCause::AgentLost, "connection reset"), None);
    lost.is_final = false;
    add(lost);
    add(attempt(10, 1, 2, Verdict::Ok, Some(7776.0)));
    add(attempt(10, 2, 1, Verdict::Ok, Some(7770.0)));
    add(attempt(10, 3, 1, Verdict::Ok, Some(7790.0)));
    // 11: 150 flock, excluded.
    results.cells[11].excluded = Some("flock wakes every waiter; 150 of them take | minutes".to_owned());
    // 12 to 23: the same with two CPUs, all well.
    for cell in 12..24_u32 {
        for repetition in 1..=3 {
            let value = 20_000.0 - f64::from(cell * 100) + f64::from(repetition);
            results.attempts.push(attempt(cell, repetition, 1, Verdict::Ok, Some(value)));
        }
    }
    results
}

pub fn render(results: &RunResults, options: &Options) -> Result<String, ReportError> {
    let mut out = Vec::new();
    write_report(results, options, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

pub fn render_as(results: &RunResults, format: Format) -> String {
    render(results, &Options { format, ..Options::default() }).unwrap()
}
