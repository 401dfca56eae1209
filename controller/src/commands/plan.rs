//! `drover plan`, and `--dry-run`: the trials in their order, and how long they will take.

use std::{fmt::Write, time::Duration};

use drover_matrix::{Boots, HostEntry, HostFile, Matrix, Plan, Role};

use super::{
    hosts::{abilities, load_hosts, unknown_kernels},
    load::load,
    past::Past,
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
    for role in matrix.roles() {
        let _ = writeln!(text, "{}", where_it_runs(role, hosts));
    }
    let can = |host: &HostEntry| Some(format!("{} {}", host.name, abilities(host)?));
    for line in hosts.hosts.iter().filter_map(can).take(MOST_HOSTS) {
        let _ = writeln!(text, "{line}");
    }
    for label in unknown_kernels(matrix, hosts) {
        let _ = writeln!(
            text,
            "kernel {label}: the host file does not say how to boot it; its trials are `---` unless it runs already"
        );
    }
    let boots = drover_matrix::boots(matrix, plan, hosts);
    if boots.count > 0 {
        let most = if boots.is_exact { "" } else { "at most " };
        let plural = if boots.count == 1 { "" } else { "s" };
        let _ = writeln!(text, "{most}{} boot{plural}", boots.count);
    }
    let past = Past::of(matrix.name(), context);
    text.push_str(&estimate(matrix, plan, boots, &past));
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
fn estimate(matrix: &Matrix, plan: &Plan, boots: Boots, past: &Past) -> String {
    let roles = matrix.roles();
    let repeat = matrix.policy().repeat;
    let longest: Duration = roles.iter().map(|role| role.timeout + role.stop.grace).sum();
    let bound = longest.saturating_mul(count(plan.trials())).saturating_add(boots.longest);
    let bound = format!("timeouts bound it to {}", brief(bound));
    let keys = plan.cells().iter().filter_map(|index| Some(matrix.cell(*index)?.cell.key));
    let known: Vec<Duration> = keys.filter_map(|key| past.trials.get(&key).copied()).collect();
    let trials = u64::try_from(known.len()).unwrap_or(u64::MAX).saturating_mul(repeat.into());
    let sum = known.iter().fold(Duration::ZERO, |sum, elapsed| sum.saturating_add(*elapsed * repeat));
    if trials == 0 {
        return format!("time: unknown, as no trial of these cells is stored yet; {bound}\n");
    }
    let mut remarks = Vec::new();
    let unknown = plan.trials().saturating_sub(trials);
    if unknown > 0 {
        remarks.push(format!("a guess from the mean for {unknown} trials of cells not run before"));
    }
    let mean = sum / count(trials).max(1);
    let mut total = sum.saturating_add(mean.saturating_mul(count(unknown)));
    match past.boot {
        Some(boot) if boots.count > 0 => {
            total = total.saturating_add(boot.saturating_mul(count(boots.count)));
            remarks.push(format!("each boot took {} then", brief(boot)));
        }
        None if boots.count > 0 => remarks.push("without the boots, of which none is stored yet".to_owned()),
        _ => {}
    }
    let remarks = if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join("; ")) };
    format!("time: about {}, from earlier trials{remarks}; {bound}\n", brief(total))
}

/// A count as [`Duration`] multiplies by it.
fn count(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
