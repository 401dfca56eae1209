//! `drover run` and `drover resume`: set a run up, drive it, print its table.

use std::{collections::BTreeMap, fs::File, sync::Arc};

use drover_matrix::{HostFile, Matrix, Options, Plan, Reach, Spread};
use drover_model::{AttemptId, Name, RunId, Seats};
use drover_sched::{Ended, PastAttempt, Scheduler};
use drover_store::{
    CellRecord, MetricRecord, ResultsDir, RunRecord, RunState, SqliteStore, Store, TableLayout,
};

use super::{
    detach,
    hosts::{Reaching, load_hosts, restore_hosts, setups},
    load::{Loaded, load, restore},
    plan::{describe_plan, seed},
    report::{print_table, status_of},
    requires,
};
use crate::{
    Context,
    args::{HostArgs, MatrixArgs, ResumeArgs, RunArgs},
    driver::{self, Driven, HostSetup, Hosts, Job, Ledger, Progress},
    error::Failure,
    exit::ExitStatus,
    time::{unix_ms, utc},
};

/// Runs a matrix from the beginning.
pub fn run(args: &RunArgs, context: &Context) -> Result<ExitStatus, Failure> {
    run_as(RunId(uuid::Uuid::now_v7()), args, context)
}

/// The same under an id that the caller has made.
pub fn run_as(id: RunId, args: &RunArgs, context: &Context) -> Result<ExitStatus, Failure> {
    if args.detach && !context.global.handover {
        return detach::start(context);
    }
    let options = options(&args.matrix);
    let mut loaded = load(&args.matrix.matrix, &options, &context.screen)?;
    if let Some(repeat) = args.matrix.repeat {
        loaded.matrix = loaded.matrix.with_repeat(repeat);
    }
    let source = load_hosts(&args.hosts, &context.screen)?;
    loaded.matrix = with_hosts(loaded.matrix, &source.hosts)?;
    let seed = seed(&args.matrix, &loaded.matrix);
    let plan = drover_matrix::plan(&loaded.matrix, seed);
    if args.dry_run {
        return describe_plan(&loaded.matrix, &plan, &source.hosts, 0, context);
    }
    if is_local(&source.hosts) {
        requires::check(&loaded.matrix)?;
    }
    let results = ResultsDir::create(&context.global.results).map_err(|e| Failure::infrastructure(&e))?;
    let mut store = SqliteStore::open(&results).map_err(|e| Failure::infrastructure(&e))?;
    let reaching = Reaching::from(&args.hosts);
    let hosts = ready_hosts(&loaded.matrix, source.hosts, reaching, &store, context)?;
    let record = RunRecord { host_file: source.file, ..record(id, args, &options, &loaded, seed) };
    let matrix = &loaded.matrix;
    let mut cells = matrix.cells().map(|planned| CellRecord {
        index: planned.cell.index,
        key: planned.cell.key,
        values: planned.cell.values.into_iter().map(|(_, value)| value).collect(),
        excluded: planned.excluded.map(|because| because.to_string()),
    });
    store.create_run(&record, &mut cells).map_err(|e| Failure::infrastructure(&e))?;
    drop(cells);
    let cells = plan.cells().len();
    context.screen.say(&format!("run {id}: {}, {} trials of {cells} cells", matrix.name(), plan.trials()));
    let begun = Begun { id, plan, matrix: loaded.matrix, store, results, hosts, wait: args.wait };
    go(begun, !args.no_report, context)
}

/// Goes on with a run.
pub fn resume(args: &ResumeArgs, context: &Context) -> Result<ExitStatus, Failure> {
    if args.detach && !context.global.handover {
        return detach::start(context);
    }
    let results = ResultsDir::open(&context.global.results).map_err(|e| Failure::infrastructure(&e))?;
    let mut store = SqliteStore::open(&results).map_err(|e| Failure::infrastructure(&e))?;
    let id = store.find_run(&args.run).map_err(|e| Failure::new(ExitStatus::Usage, driver::chain(&e)))?;
    let record = store.load_run(id).map_err(|e| Failure::infrastructure(&e))?;
    let first = restore_hosts(&record, &context.screen)?;
    let matrix = with_hosts(restore(&record, &context.screen)?, &first.hosts)?;
    let host_args = HostArgs { hosts: args.hosts.clone(), accept_new: args.accept_new };
    let source = if args.hosts.is_some() { load_hosts(&host_args, &context.screen)? } else { first };
    if is_local(&source.hosts) {
        requires::check(&matrix)?;
    }
    let hosts = ready_hosts(&matrix, source.hosts, Reaching::from(&host_args), &store, context)?;
    let plan = drover_matrix::plan(&matrix, record.seed);
    store.set_state(id, RunState::Open, None).map_err(|e| Failure::infrastructure(&e))?;
    context.screen.say(&format!("resuming run {id}: {}", matrix.name()));
    let begun = Begun { id, plan, matrix, store, results, hosts, wait: args.wait };
    go(begun, !args.no_report, context)
}

/// The matrix, with the axis `host` if it is to be repeated on each of them.
pub fn with_hosts(matrix: Matrix, hosts: &HostFile) -> Result<Matrix, Failure> {
    match matrix.policy().spread {
        Spread::Any => Ok(matrix),
        Spread::Each => {
            let names = driver::spread_hosts(&matrix, hosts);
            matrix.with_hosts(&names).map_err(|found| Failure::new(ExitStatus::Usage, found.to_string()))
        }
    }
}

fn is_local(hosts: &HostFile) -> bool {
    hosts.hosts.iter().all(|host| matches!(host.reach, Reach::Local))
}

/// The hosts of a run, and how those are reached that may be used.
struct ReadyHosts {
    file: HostFile,
    setups: BTreeMap<Name, HostSetup>,
    /// Those that are not to be used, and why.
    barred: BTreeMap<Name, String>,
}

/// Looks for all that would keep the run from its hosts, before anything of it is stored.
fn ready_hosts(
    matrix: &Matrix,
    file: HostFile,
    reaching: Reaching,
    store: &SqliteStore,
    context: &Context,
) -> Result<ReadyHosts, Failure> {
    let mut barred = BTreeMap::new();
    for bad in store.quarantined().map_err(|e| Failure::infrastructure(&e))? {
        if !file.hosts.iter().any(|host| host.name == bad.host) {
            continue;
        }
        let why = format!(
            "quarantined since {}: {}; once that is mended: drover hosts release {}",
            utc(bad.since_unix_ms),
            bad.why,
            bad.host
        );
        context.screen.complain(&format!("host {} is not used: {why}", bad.host));
        barred.insert(bad.host, why);
    }
    let names = barred.keys().cloned().collect();
    driver::check_seats(matrix, Hosts { file: &file, barred: &names })
        .map_err(|error| Failure::new(ExitStatus::Usage, driver::chain(&error)))?;
    let mut setups = setups(&file, reaching)?;
    setups.retain(|name, _| !barred.contains_key(name));
    Ok(ReadyHosts { file, setups, barred })
}

/// A run that is in the store.
struct Begun {
    id: RunId,
    plan: Plan,
    matrix: Matrix,
    store: SqliteStore,
    results: ResultsDir,
    hosts: ReadyHosts,
    /// Wait for hosts that others hold.
    wait: bool,
}

fn go(begun: Begun, show: bool, context: &Context) -> Result<ExitStatus, Failure> {
    let Begun { id, plan, matrix, store, results, hosts, wait } = begun;
    let ReadyHosts { file, setups, barred } = hosts;
    results.create_run_dir(id).map_err(|e| Failure::infrastructure(&e))?;
    let log = results.log_path(id);
    match File::options().append(true).create(true).open(&log) {
        Ok(file) => context.log.set(file),
        Err(error) => tracing::warn!("the run's log cannot be written: {error}"),
    }
    let under_way =
        context.global.handover.then(|| detach::hand_over(id, &log, &context.screen)).transpose()?;
    let (past, journalled) = history(&store, id)?;
    let finished: std::collections::BTreeSet<_> =
        past.iter().filter(|attempt| attempt.is_final).map(|attempt| attempt.id.trial).collect();
    let done = u64::try_from(finished.len()).unwrap_or(u64::MAX);
    let mut progress = Progress::new(context.screen.clone(), plan.trials(), done);
    plan.iter().filter(|trial| !finished.contains(trial)).for_each(|trial| progress.expect(trial));
    if let Some(first) = plan.iter().find(|trial| !finished.contains(trial)) {
        driver::wish_for(&matrix, first.cell, &setups);
    }
    let matrix = Arc::new(matrix);
    let names = barred.keys().cloned().collect();
    let ledger = Ledger::open(&results.run_path(id)).map_err(|e| Failure::infrastructure(&e))?;
    let mut shape = driver::schedule(&matrix, id, &plan, Hosts { file: &file, barred: &names }, wait);
    shape.boots = driver::boot_policies(&file, &ledger);
    shape
        .boots
        .retain(|place, _| file.hosts.get(*place).is_some_and(|host| !barred.contains_key(&host.name)));
    let scheduler = Scheduler::new(shape, past, journalled).map_err(|e| Failure::infrastructure(&e))?;
    let job = Job {
        run: id,
        matrix: matrix.clone(),
        scheduler,
        hosts: setups,
        barred,
        holder: holder(),
        store,
        results: results.clone(),
        ledger,
        cells: driver::cells(&plan),
        progress,
        under_way,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::infrastructure(&e))?;
    let Driven { ended, progress, store } =
        runtime.block_on(driver::drive(job)).map_err(|e| Failure::infrastructure(&e))?;
    let outputs = results.run_path(id);
    if show {
        print_table(&store, id, context)?;
        context.screen.say(&format!("raw outputs and log: {}", outputs.display()));
    }
    finish(&ended, progress, &store, id, context)
}

/// The exit status, with a word on why the run ended early if it did.
fn finish(
    ended: &Ended,
    progress: drover_sched::Progress,
    store: &SqliteStore,
    id: RunId,
    context: &Context,
) -> Result<ExitStatus, Failure> {
    let finished = progress.finished();
    let hint = format!("{finished} trials are stored; `drover resume {id}` runs the others");
    match ended {
        Ended::Complete => {
            let results = store.load_table(id).map_err(|e| Failure::infrastructure(&e))?;
            status_of(&results)
        }
        Ended::Interrupted => {
            context.screen.complain(&format!("interrupted: {hint}"));
            Ok(ExitStatus::Interrupted)
        }
        Ended::HostsUnavailable { .. } => {
            let why = ended.why().unwrap_or_default();
            Err(Failure::new(ExitStatus::Infrastructure, format!("{why}\n{hint}")))
        }
        Ended::StoreFailed { .. } => {
            let why = ended.why().unwrap_or_default();
            let text = format!("{why}\n{hint}; what is not stored is kept by the agent");
            Err(Failure::new(ExitStatus::Infrastructure, text))
        }
    }
}

type History = (Vec<PastAttempt>, Vec<(AttemptId, Seats)>);

fn history(store: &SqliteStore, id: RunId) -> Result<History, Failure> {
    let past = store.history(id).map_err(|e| Failure::infrastructure(&e))?;
    let past = past.iter().map(|one| PastAttempt::new(one.id, &one.verdict, one.is_final)).collect();
    let intents = store.journalled(id).map_err(|e| Failure::infrastructure(&e))?;
    Ok((past, intents.into_iter().map(|intent| (intent.id, intent.seats)).collect()))
}

/// What the command line says about the matrix.
pub fn options(args: &MatrixArgs) -> Options {
    Options { set: args.set.clone(), only: args.only.clone(), ..Options::default() }
}

fn record(id: RunId, args: &RunArgs, options: &Options, loaded: &Loaded, seed: u64) -> RunRecord {
    let matrix = &loaded.matrix;
    let table = matrix.table();
    RunRecord {
        id,
        name: matrix.name().to_owned(),
        about: matrix.about().to_owned(),
        matrix_path: args.matrix.matrix.display().to_string(),
        matrix_text: String::from_utf8_lossy(&loaded.text).into_owned(),
        matrix_files: loaded.files.clone(),
        set: options.set.clone(),
        only: options.only.clone(),
        seed,
        repeat: matrix.policy().repeat,
        axes: matrix.axes().iter().map(|axis| axis.name.clone()).collect(),
        metrics: matrix
            .metrics()
            .iter()
            .map(|metric| MetricRecord {
                name: metric.name.clone(),
                unit: metric.unit.clone(),
                better: metric.better,
                primary: metric.primary,
            })
            .collect(),
        host_file: None,
        table: TableLayout { rows: table.rows.clone(), cols: table.cols.clone(), facet: table.facet.clone() },
        drover_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_ms: unix_ms(),
    }
}

/// Who holds a lease, for another user who is refused: `anna@lab1, process 4711`.
fn holder() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let user = user.unwrap_or_else(|_| format!("user {}", rustix::process::getuid().as_raw()));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{user}@{host}, process {}", std::process::id())
}
