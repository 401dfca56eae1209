//! `drover show`: everything that is stored of a run, a trial or an attempt.

use std::fmt::Write;

use drover_model::{AttemptId, EndKind, HostFacts, Outcome, TrialId};
use drover_store::{AttemptRecord, ResultsDir, RunResults, Store, Stream, TaskRecord};

use super::{
    list::state,
    open::{find, open},
    sensors::print_sensors,
};
use crate::{
    Context,
    args::ShowArgs,
    error::Failure,
    exit::ExitStatus,
    time::{brief, utc},
};

/// Shows a run, or the attempts of one trial.
pub fn show(args: &ShowArgs, context: &Context) -> Result<ExitStatus, Failure> {
    let (results_dir, store) = open(context)?;
    let run = find(&store, &args.run)?;
    let results = store.load(run).map_err(|error| Failure::infrastructure(&error))?;
    let mut text = String::new();
    match &args.trial {
        None => show_run(&results, &results_dir, &mut text),
        Some(wanted) => {
            let selected = select(&results, wanted)?;
            if let Some(part) = &args.sensors {
                return print_sensors(&selected, part, &results_dir, context);
            }
            selected.into_iter().for_each(|attempt| show_attempt(&results, attempt, &results_dir, &mut text));
        }
    }
    let _ = context.screen.out(&drover_report::printable_lines(&text));
    Ok(ExitStatus::Ok)
}

/// The attempts that `c3r1` or `c3r1a2` names.
fn select<'a>(results: &'a RunResults, wanted: &str) -> Result<Vec<&'a AttemptRecord>, Failure> {
    let run = results.run.id;
    let one: Option<AttemptId> = format!("{run}.{wanted}").parse().ok();
    let trial: Option<TrialId> = one
        .map(|id| id.trial)
        .or_else(|| format!("{run}.{wanted}a1").parse().ok().map(|id: AttemptId| id.trial));
    let Some(trial) = trial else {
        let text = format!("`{wanted}` is not a trial (such as c3r1) or an attempt (such as c3r1a2)");
        return Err(Failure::new(ExitStatus::Usage, text));
    };
    let fits = |attempt: &&AttemptRecord| attempt.id.trial == trial && one.is_none_or(|id| id == attempt.id);
    let selected: Vec<_> = results.attempts.iter().filter(fits).collect();
    if selected.is_empty() {
        let text = format!("run {run} has no finished attempt `{wanted}`; `drover show {run}` lists them");
        return Err(Failure::new(ExitStatus::Usage, text));
    }
    Ok(selected)
}

// Writing into a `String` does not fail: results of `writeln!` are dropped.

fn show_run(results: &RunResults, dir: &ResultsDir, text: &mut String) {
    let run = &results.run;
    let _ = writeln!(text, "run      {}", run.id);
    let _ = writeln!(text, "matrix   {} ({})", run.name, run.matrix_path);
    if !run.about.is_empty() {
        let _ = writeln!(text, "about    {}", run.about);
    }
    for set in &run.set {
        let _ = writeln!(text, "set      {set}");
    }
    for only in &run.only {
        let _ = writeln!(text, "only     {only}");
    }
    let _ = writeln!(text, "started  {}", utc(run.started_unix_ms));
    if let Some(ended) = results.ended_unix_ms {
        let _ = writeln!(text, "ended    {}", utc(ended));
    }
    let _ = writeln!(text, "state    {}", state(results.state));
    let _ = writeln!(text, "order    seed {}, {} repetitions", run.seed, run.repeat);
    let _ = writeln!(text, "drover   {}", run.drover_version);
    let _ = writeln!(text, "folder   {}", dir.run_path(run.id).display());
    for (name, facts) in &results.hosts {
        show_host(name.as_str(), facts, text);
    }
    let _ = writeln!(text, "\nattempts");
    for attempt in &results.attempts {
        let id = format!("{}a{}", attempt.id.trial, attempt.id.number);
        let cell = values(results, attempt);
        let verdict = verdict(attempt);
        let _ = writeln!(text, "  {id:10} {cell}  {verdict}");
    }
    for cell in &results.cells {
        if let Some(because) = &cell.excluded {
            let values: Vec<_> = run.axes.iter().zip(&cell.values).map(|(a, v)| format!("{a}={v}")).collect();
            let _ = writeln!(text, "  c{:<9} {}  excluded: {because}", cell.index, values.join(" "));
        }
    }
}

fn show_host(name: &str, facts: &HostFacts, text: &mut String) {
    let _ = writeln!(text, "\nhost {name}: {} ({} {})", facts.hostname, facts.kernel_release, facts.machine);
    let _ = writeln!(
        text,
        "  cpus        {} online of {}: {}",
        facts.cpus.len(),
        facts.cpus_present,
        facts.cpu_model
    );
    let _ = writeln!(text, "  memory      {} MiB", facts.memory_bytes >> 20);
    let _ = writeln!(text, "  boot_id     {}", facts.boot_id);
    let _ = writeln!(text, "  governor    {}", facts.governor.as_deref().unwrap_or("not exposed"));
    let _ = writeln!(text, "  containment {}", facts.containment);
    for (name, value) in &facts.sysctls {
        let _ = writeln!(text, "  {name} = {value}");
    }
}

fn show_attempt(results: &RunResults, attempt: &AttemptRecord, dir: &ResultsDir, text: &mut String) {
    let id = &attempt.id;
    let _ = writeln!(text, "attempt  {}a{} of run {}", id.trial, id.number, id.run);
    let _ = writeln!(text, "cell     {}", values(results, attempt));
    let hosts: Vec<&str> = attempt.hosts.iter().map(|host| host.as_str()).collect();
    let _ =
        writeln!(text, "hosts    {}", if hosts.is_empty() { "none".to_owned() } else { hosts.join(", ") });
    let _ =
        writeln!(text, "started  {}, took {}", utc(attempt.started_unix_us / 1000), brief(attempt.elapsed));
    let last = if attempt.is_final { "" } else { " (tried again)" };
    let _ = writeln!(text, "verdict  {}{last}", verdict(attempt));
    for line in attempt.verdict.detail().lines().skip(1) {
        let _ = writeln!(text, "         {line}");
    }
    if let Some(skew) = attempt.start_skew_us {
        let _ = writeln!(text, "skew     {skew} us");
    }
    for (name, value) in &attempt.metrics {
        let _ = writeln!(text, "metric   {name} = {value}");
    }
    for host in attempt.hosts.iter().filter(|host| dir.sensors_path(id, host).exists()) {
        let _ = writeln!(text, "sensors  {} (--sensors shows them)", dir.sensors_path(id, host).display());
    }
    for task in &attempt.tasks {
        show_task(task, text);
        for stream in [Stream::Stdout, Stream::Stderr] {
            let path = dir.output_path(id, &task.role, task.instance, stream);
            if path.exists() {
                let _ = writeln!(text, "  {:11} {}", stream.as_str(), path.display());
            }
        }
        let artifacts = dir.artifacts_path(id, &task.role, task.instance);
        if artifacts.exists() {
            let _ = writeln!(text, "  artifacts   {}", artifacts.display());
        }
    }
    text.push('\n');
}

fn show_task(task: &TaskRecord, text: &mut String) {
    let _ = writeln!(text, "\ntask {}.{} on {}", task.role, task.instance, task.host);
    let _ = writeln!(text, "  command     {}", shell_words::join(&task.argv));
    let end = task.end.as_ref().map_or_else(|| "not known".to_owned(), describe_end);
    let _ = writeln!(text, "  end         {end} after {}", brief(task.wall));
    let usage = &task.usage;
    let _ = writeln!(
        text,
        "  usage       user {:.3} s, system {:.3} s, {} KiB, switches {} voluntary, {} involuntary",
        usage.user.as_secs_f64(),
        usage.system.as_secs_f64(),
        usage.max_rss_bytes >> 10,
        usage.voluntary_switches,
        usage.involuntary_switches
    );
    if !task.cpus.is_empty() {
        let _ = writeln!(text, "  cpus        {}", task.cpus);
    }
    for sample in &task.samples {
        let _ = writeln!(text, "  sample      {} = {} {}", sample.name, sample.value, sample.unit);
    }
    for (name, value) in &task.reported {
        let _ = writeln!(text, "  reported    {name} = {value}");
    }
    for doubt in &task.doubts {
        let _ = writeln!(text, "  doubt       {}: {}", doubt.kind.as_str(), doubt.detail);
    }
    for line in task.tail.lines() {
        let _ = writeln!(text, "  | {line}");
    }
}

fn describe_end(end: &EndKind) -> String {
    match end {
        EndKind::Exited(status) => format!("exited with status {status}"),
        EndKind::Signaled(signal) => format!("ended by signal {signal}"),
        EndKind::Stopped(Some(status)) => format!("stopped when asked to, with status {status}"),
        EndKind::Stopped(None) => "asked to stop, then killed".to_owned(),
        EndKind::Killed => "killed".to_owned(),
        EndKind::Deadline => "killed at its deadline".to_owned(),
        EndKind::NotReady(detail) => format!("killed, as it was not ready: {detail}"),
        EndKind::NotStarted(_, detail) => format!("not started: {detail}"),
        EndKind::AgentLost => "lost with its agent".to_owned(),
    }
}

fn values(results: &RunResults, attempt: &AttemptRecord) -> String {
    let index = usize::try_from(attempt.id.trial.cell).unwrap_or(usize::MAX);
    let cell =
        results.cells.iter().find(|cell| cell.index == attempt.id.trial.cell).or(results.cells.get(index));
    let values = cell.map(|cell| cell.values.as_slice()).unwrap_or_default();
    let pairs: Vec<_> =
        results.run.axes.iter().zip(values).map(|(axis, value)| format!("{axis}={value}")).collect();
    pairs.join(" ")
}

/// The verdict on one line, with the primary metric if it has one.
fn verdict(attempt: &AttemptRecord) -> String {
    let outcome = attempt.verdict.outcome();
    let first = attempt.verdict.detail().lines().next().unwrap_or_default().to_owned();
    match outcome {
        Outcome::Ok => "ok".to_owned(),
        _ => format!("{} {}: {first}", outcome.as_str(), attempt.verdict.cause()),
    }
}
