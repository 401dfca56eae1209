//! `drover reparse`: reads the kept raw outputs of a run again, after a parser or a metric was changed.

use drover_matrix::{Matrix, Options, Weight, Weights};
use drover_model::{DoubtKind, ErrorCause, NgCause, Verdict};
use drover_store::{AttemptRecord, ResultsDir, SqliteStore, Store, Stream};

use super::{
    load::{load, restore},
    open::find,
};
use crate::{
    Context,
    args::ReparseArgs,
    driver::{Collected, TaskOutput, collect, end_of, weigh},
    error::Failure,
    exit::ExitStatus,
};

/// Parses every attempt whose verdict came from its outputs. The records before are kept as revisions.
pub fn reparse(args: &ReparseArgs, context: &Context) -> Result<ExitStatus, Failure> {
    let infrastructure = |error: &dyn std::error::Error| Failure::infrastructure(error);
    let results = ResultsDir::open(&context.global.results).map_err(|e| infrastructure(&e))?;
    let mut store = SqliteStore::open(&results).map_err(|e| infrastructure(&e))?;
    let run = find(&store, &args.run)?;
    let record = store.load_run(run).map_err(|e| infrastructure(&e))?;
    let matrix = match &args.matrix {
        Some(path) => {
            let options =
                Options { set: record.set.clone(), only: record.only.clone(), ..Options::default() };
            load(path, &options, &context.screen)?.matrix
        }
        None => restore(&record, &context.screen)?,
    };
    if matrix.soak().is_some() {
        let text = format!(
            "run {run} is a soak: what its rounds wrote was read on the way, and its points are in `series.csv`"
        );
        return Err(Failure::new(ExitStatus::Usage, text));
    }
    let loaded = store.load(run).map_err(|e| infrastructure(&e))?;
    let mut changed = 0_u32;
    for attempt in loaded.attempts.iter().filter(|attempt| depends_on_outputs(&attempt.verdict)) {
        let new = parse_again(attempt, &matrix, &results)?;
        if new != *attempt {
            store.replace_measurement(&new).map_err(|e| infrastructure(&e))?;
            changed += 1;
        }
    }
    let total = loaded.attempts.len();
    context.screen.say(&format!("run {run}: {total} attempts read again, {changed} changed"));
    Ok(ExitStatus::Ok)
}

/// Whether reading the outputs again can change this verdict.
fn depends_on_outputs(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Ok | Verdict::Suspect { .. } => true,
        Verdict::Ng { cause, .. } => *cause == NgCause::CheckFailed,
        Verdict::Error { cause, .. } => *cause == ErrorCause::Parse,
        Verdict::Missing { .. } => false,
    }
}

fn parse_again(
    attempt: &AttemptRecord,
    matrix: &Matrix,
    results: &ResultsDir,
) -> Result<AttemptRecord, Failure> {
    let mut kept = Vec::new();
    for task in &attempt.tasks {
        let read = |stream| results.read_output(&attempt.id, &task.role, task.instance, stream);
        let stdout = read(Stream::Stdout).map_err(|e| Failure::infrastructure(&e))?.unwrap_or_default();
        let stderr = read(Stream::Stderr).map_err(|e| Failure::infrastructure(&e))?.unwrap_or_default();
        let end = end_of(task, &stdout, &stderr);
        kept.push((task, stdout, stderr, end));
    }
    let mut outputs = Vec::new();
    for (task, stdout, stderr, end) in &kept {
        let Some(role) = matrix.role(task.role.as_str()) else {
            let text = format!("the matrix has no role `{}`, which the run has", task.role);
            return Err(Failure::new(ExitStatus::Usage, text));
        };
        outputs.push(TaskOutput {
            role,
            instance: task.instance,
            host: task.host.clone(),
            argv: task.argv.clone(),
            end: end.as_ref(),
            cpus: &task.cpus,
            stdout,
            stderr,
        });
    }
    let Collected { mut tasks, metrics, mut outcome } = collect(matrix, &outputs);
    outcome.doubts.extend(kept_doubts(&attempt.verdict));
    weigh(&mut outcome, &matrix.policy().doubts);
    let kept = kept_failures(&attempt.verdict, &matrix.policy().doubts);
    if !kept.is_empty() {
        let failed = outcome.check_failed.take().into_iter().chain(kept);
        outcome.check_failed = Some(failed.collect::<Vec<_>>().join("; "));
    }
    let verdict = match (&outcome.check_failed, &outcome.parse_error) {
        (_, Some(why)) => Verdict::Error { cause: ErrorCause::Parse, detail: why.clone() },
        (Some(why), None) => Verdict::Ng { cause: NgCause::CheckFailed, detail: why.clone() },
        (None, None) => {
            let doubts = outcome.doubts;
            if doubts.is_empty() { Verdict::Ok } else { Verdict::Suspect { doubts } }
        }
    };
    if verdict == Verdict::Ok {
        tasks.iter_mut().for_each(|task| task.tail.clear());
    }
    let metrics = if verdict.outcome().has_number() { metrics } else { Vec::new() };
    Ok(AttemptRecord { verdict, metrics, tasks, ..attempt.clone() })
}

/// Doubts that do not come from an output, and so stay.
fn kept_doubts(verdict: &Verdict) -> Vec<drover_model::Doubt> {
    use drover_model::DoubtKind::{LeftCpus, Leftovers, OutputCut, PassedOnRetry, StartSkew};
    match verdict {
        Verdict::Suspect { doubts } => {
            let stays = |kind| {
                matches!(kind, LeftCpus | Leftovers | OutputCut | PassedOnRetry | StartSkew)
                    || is_observed(kind)
            };
            doubts.iter().filter(|doubt| stays(doubt.kind)).cloned().collect()
        }
        _ => Vec::new(),
    }
}

/// Whether the hosts told of it: that comes from no output.
fn is_observed(kind: DoubtKind) -> bool {
    // The others about the machine are found again in the outputs and the counters of the tasks.
    kind.is_of_machine() && !matches!(kind, DoubtKind::ClientSaturated | DoubtKind::Network)
}

/// Of the checks that failed, those that are doubts which the matrix lets count so.
fn kept_failures(verdict: &Verdict, weights: &Weights) -> Vec<String> {
    let Verdict::Ng { cause: NgCause::CheckFailed, detail } = verdict else { return Vec::new() };
    let is_doubt = |failure: &&str| {
        let kind = failure.split_once(": ").and_then(|(word, _)| DoubtKind::from_word(word));
        kind.is_some_and(|kind| is_observed(kind) && weights.of(kind) == Weight::Ng)
    };
    detail.lines().next().unwrap_or_default().split("; ").filter(is_doubt).map(str::to_owned).collect()
}
