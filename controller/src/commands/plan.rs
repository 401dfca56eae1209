//! `drover plan`, and `--dry-run`: the trials in their order, and how long they will take.

use std::{fmt::Write, time::Duration};

use drover_matrix::{HostFile, Matrix, Plan, Role};
use drover_store::{ResultsDir, SqliteStore, Store};

use super::{
    hosts::load_hosts,
    load::load,
    run::{options, with_hosts},
};
use crate::{
    Context,
    args::{HostArgs, MatrixArgs, PlanArgs},
    error::Failure,
    exit::ExitStatus,
    time::brief,
};

/// Hosts of a role that are named at most.
const MOST_HOSTS: usize = 8;

/// Shows the plan of a matrix.
pub fn plan(args: &PlanArgs, context: &Context) -> Result<ExitStatus, Failure> {
    let mut loaded = load(&args.matrix.matrix, &options(&args.matrix), &context.screen)?;
    if let Some(repeat) = args.matrix.repeat {
        loaded.matrix = loaded.matrix.with_repeat(repeat);
    }
    let host_args = HostArgs { hosts: args.hosts.clone(), accept_new: false };
    let hosts = load_hosts(&host_args, &context.screen)?.hosts;
    let matrix = with_hosts(loaded.matrix, &hosts)?;
    let plan = drover_matrix::plan(&matrix, seed(&args.matrix, &matrix));
    describe_plan(&matrix, &plan, &hosts, args.limit, context)
}

/// The seed of the order: the command line's, the matrix's, or a fresh one.
pub fn seed(args: &MatrixArgs, matrix: &Matrix) -> u64 {
    let fresh = || uuid::Uuid::now_v7().as_u64_pair().1 >> 32;
    args.seed.or(matrix.policy().seed).unwrap_or_else(fresh)
}

/// Prints trials (`limit` 0: all), blocks and the estimate.
pub fn describe_plan(
    matrix: &Matrix,
    plan: &Plan,
    hosts: &HostFile,
    limit: usize,
    context: &Context,
) -> Result<ExitStatus, Failure> {
    let mut text = String::new();
    let limit = if limit == 0 { usize::MAX } else { limit };
    for (place, trial) in plan.iter().take(limit).enumerate() {
        let cell = matrix.cell(trial.cell).map(|planned| planned.cell.to_string()).unwrap_or_default();
        // Writing into a `String` does not fail.
        let _ = writeln!(text, "{:>5}  {cell} #{}", place + 1, trial.repetition);
    }
    let shown = u64::try_from(limit).unwrap_or(u64::MAX);
    if plan.trials() > shown {
        let _ = writeln!(text, "       ... and {} more (--limit 0 shows all)", plan.trials() - shown);
    }
    let excluded = matrix.cells().filter(|planned| planned.excluded.is_some()).count();
    let _ = writeln!(
        text,
        "\n{}: {} trials of {} cells ({excluded} excluded), order {} with seed {}",
        matrix.name(),
        plan.trials(),
        plan.cells().len(),
        order(matrix),
        plan.seed()
    );
    let kernels: std::collections::BTreeSet<_> = plan
        .blocks()
        .iter()
        .filter_map(|block| block.kernel.clone())
        .filter(|kernel| &**kernel != "running")
        .collect();
    for role in matrix.roles() {
        let _ = writeln!(text, "{}", where_it_runs(role, hosts));
    }
    let _ = writeln!(text, "{} reboots", kernels.len());
    text.push_str(&estimate(matrix, plan, context));
    let _ = context.screen.out(&text);
    Ok(ExitStatus::Ok)
}

/// `client runs on 2 of h2, h3, h4, 4 times on each`.
fn where_it_runs(role: &Role, hosts: &HostFile) -> String {
    let places = hosts.matching(&role.on);
    let names: Vec<&str> =
        places.iter().filter_map(|place| Some(hosts.hosts.get(*place)?.name.as_str())).collect();
    let more = names.len().saturating_sub(MOST_HOSTS);
    let mut list = names.iter().take(MOST_HOSTS).copied().collect::<Vec<_>>().join(", ");
    if more > 0 {
        list.push_str(&format!(" and {more} more"));
    }
    let mut text = match &role.same_host_as {
        Some(other) => format!("{} runs where {other} runs", role.name),
        None if names.is_empty() => format!("{} finds no host", role.name),
        None if names.len() == 1 => format!("{} runs on {list}", role.name),
        None => format!("{} runs on {} of {list}", role.name, role.hosts),
    };
    if role.instances > 1 {
        text.push_str(&format!(", {} times on each", role.instances));
    }
    text
}

fn order(matrix: &Matrix) -> &'static str {
    match matrix.policy().order {
        drover_matrix::Order::Interleaved => "interleaved",
        drover_matrix::Order::Declared => "declared",
        drover_matrix::Order::Shuffled => "shuffled",
    }
}

/// How long it will take: from earlier trials of the same cells where there are any, with a bound that holds anyway.
fn estimate(matrix: &Matrix, plan: &Plan, context: &Context) -> String {
    let roles = matrix.roles();
    let longest: Duration = roles.iter().map(|role| role.timeout + role.stop.grace).sum();
    let bound = longest.saturating_mul(u32::try_from(plan.trials()).unwrap_or(u32::MAX));
    let known = earlier(matrix, context);
    let repeat = u64::from(matrix.policy().repeat);
    let mut sum = Duration::ZERO;
    let mut cells = 0_u64;
    for index in plan.cells() {
        let Some(planned) = matrix.cell(*index) else { continue };
        if let Some(elapsed) = known.get(&planned.cell.key) {
            sum += *elapsed * matrix.policy().repeat;
            cells += 1;
        }
    }
    let bound = brief(bound);
    if cells == 0 {
        return format!(
            "time: unknown, as no trial of these cells is stored yet; timeouts bound it to {bound}\n"
        );
    }
    let trials = cells * repeat;
    let mean = sum / u32::try_from(trials).unwrap_or(u32::MAX).max(1);
    let unknown = plan.trials().saturating_sub(trials);
    let total = sum + mean.saturating_mul(u32::try_from(unknown).unwrap_or(u32::MAX));
    let guess = if unknown > 0 {
        format!(" (a guess from the mean for {unknown} trials of cells not run before)")
    } else {
        String::new()
    };
    format!("time: about {}, from earlier trials{guess}; timeouts bound it to {bound}\n", brief(total))
}

/// Mean time of stored trials by cell, from all runs of this matrix's name.
fn earlier(matrix: &Matrix, context: &Context) -> std::collections::HashMap<drover_model::CellKey, Duration> {
    let mut sums: std::collections::HashMap<drover_model::CellKey, (Duration, u32)> = Default::default();
    let store =
        ResultsDir::open(&context.global.results).ok().and_then(|dir| SqliteStore::open_read_only(&dir).ok());
    let runs = store.as_ref().and_then(|store| store.run_names().ok()).unwrap_or_default();
    for run in runs.iter().filter(|run| run.name == matrix.name()) {
        let Some(Ok(results)) = store.as_ref().map(|store| store.load_table(run.id)) else { continue };
        for attempt in &results.attempts {
            let place = usize::try_from(attempt.id.trial.cell).unwrap_or(usize::MAX);
            if let Some(cell) = results.cells.get(place).filter(|_| attempt.verdict.outcome().has_number()) {
                let (sum, count) = sums.entry(cell.key).or_default();
                *sum += attempt.elapsed;
                *count += 1;
            }
        }
    }
    sums.into_iter().map(|(key, (sum, count))| (key, sum / count.max(1))).collect()
}
