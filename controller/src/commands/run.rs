//! `drover run` and `drover resume`: set a run up, drive it, print its table.

use std::{ffi::OsString, fs::File, sync::Arc, time::Duration};

use drover_connect::LocalOptions;
use drover_matrix::{Matrix, Options, Plan};
use drover_model::{AttemptId, Name, RunId};
use drover_sched::{Ended, Order, PastAttempt, Scheduler};
use drover_store::{
    CellRecord, MetricRecord, ResultsDir, RunRecord, RunState, SqliteStore, Store, TableLayout,
};

use super::{
    load::{Loaded, load, restore},
    plan::{describe_plan, seed},
    report::{print_table, status_of},
    requires,
};
use crate::{
    Context,
    args::{MatrixArgs, ResumeArgs, RunArgs},
    driver::{self, Driven, Job, Progress},
    error::Failure,
    exit::ExitStatus,
    time::unix_ms,
};

/// An agent that nobody needs ends by itself after this time.
const AGENT_LINGER: Duration = Duration::from_secs(600);

/// Runs a matrix from the beginning.
pub fn run(args: &RunArgs, context: &Context) -> Result<ExitStatus, Failure> {
    let options = options(&args.matrix);
    let mut loaded = load(&args.matrix.matrix, &options, &context.screen)?;
    if let Some(repeat) = args.matrix.repeat {
        loaded.matrix = loaded.matrix.with_repeat(repeat);
    }
    let seed = seed(&args.matrix, &loaded.matrix);
    let plan = drover_matrix::plan(&loaded.matrix, seed);
    if args.dry_run {
        return describe_plan(&loaded.matrix, &plan, 0, context);
    }
    requires::check(&loaded.matrix)?;
    let results = ResultsDir::create(&context.global.results).map_err(|e| Failure::infrastructure(&e))?;
    let mut store = SqliteStore::open(&results).map_err(|e| Failure::infrastructure(&e))?;
    let id = RunId(uuid::Uuid::now_v7());
    let record = record(id, args, &options, &loaded, seed);
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
    go(Begun { id, plan, matrix: loaded.matrix, store, results, show: !args.no_report }, context)
}

/// Goes on with a run.
pub fn resume(args: &ResumeArgs, context: &Context) -> Result<ExitStatus, Failure> {
    let results = ResultsDir::open(&context.global.results).map_err(|e| Failure::infrastructure(&e))?;
    let mut store = SqliteStore::open(&results).map_err(|e| Failure::infrastructure(&e))?;
    let id = store.find_run(&args.run).map_err(|e| Failure::new(ExitStatus::Usage, driver::chain(&e)))?;
    let record = store.load_run(id).map_err(|e| Failure::infrastructure(&e))?;
    let matrix = restore(&record, &context.screen)?;
    requires::check(&matrix)?;
    let plan = drover_matrix::plan(&matrix, record.seed);
    store.set_state(id, RunState::Open, None).map_err(|e| Failure::infrastructure(&e))?;
    context.screen.say(&format!("resuming run {id}: {}", matrix.name()));
    go(Begun { id, plan, matrix, store, results, show: !args.no_report }, context)
}

/// A run that is in the store.
struct Begun {
    id: RunId,
    plan: Plan,
    matrix: Matrix,
    store: SqliteStore,
    results: ResultsDir,
    show: bool,
}

fn go(begun: Begun, context: &Context) -> Result<ExitStatus, Failure> {
    let Begun { id, plan, matrix, store, results, show } = begun;
    results.create_run_dir(id).map_err(|e| Failure::infrastructure(&e))?;
    match File::options().append(true).create(true).open(results.log_path(id)) {
        Ok(file) => context.log.set(file),
        Err(error) => tracing::warn!("the run's log cannot be written: {error}"),
    }
    let (past, journalled) = history(&store, id)?;
    let finished: std::collections::BTreeSet<_> =
        past.iter().filter(|attempt| attempt.is_final).map(|attempt| attempt.id.trial).collect();
    let done = u64::try_from(finished.len()).unwrap_or(u64::MAX);
    let mut progress = Progress::new(context.screen.clone(), plan.trials(), done);
    plan.iter().filter(|trial| !finished.contains(trial)).for_each(|trial| progress.expect(trial));
    let matrix = Arc::new(matrix);
    let trials: Vec<_> = plan.iter().collect();
    let shape = driver::schedule(&matrix, id, Order::from(trials), vec![driver::local()]);
    let scheduler = Scheduler::new(shape, past, journalled).map_err(|e| Failure::infrastructure(&e))?;
    let job = Job {
        run: id,
        matrix: matrix.clone(),
        scheduler,
        agent: local_agent()?,
        holder: holder(),
        store,
        results: results.clone(),
        progress,
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
    let hint = format!("{finished} trials are stored; `drover resume {id}` goes on");
    match ended {
        Ended::Complete => {
            let results = store.load_table(id).map_err(|e| Failure::infrastructure(&e))?;
            status_of(&results)
        }
        Ended::Interrupted => {
            context.screen.complain(&format!("interrupted: {hint}"));
            Ok(ExitStatus::Interrupted)
        }
        Ended::HostsUnavailable { why } => {
            Err(Failure::new(ExitStatus::Infrastructure, format!("no host left to run on: {why}\n{hint}")))
        }
        Ended::StoreFailed { why, .. } => {
            let text =
                format!("results cannot be stored: {why}\n{hint}; what is not stored is kept by the agent");
            Err(Failure::new(ExitStatus::Infrastructure, text))
        }
    }
}

type History = (Vec<PastAttempt>, Vec<(AttemptId, Name)>);

fn history(store: &SqliteStore, id: RunId) -> Result<History, Failure> {
    let past = store.history(id).map_err(|e| Failure::infrastructure(&e))?;
    let past = past.iter().map(|one| PastAttempt::new(one.id, &one.verdict, one.is_final)).collect();
    let mut intents = store.journalled(id).map_err(|e| Failure::infrastructure(&e))?;
    intents.sort_by_key(|intent| intent.at_unix_us);
    Ok((past, intents.into_iter().map(|intent| (intent.id, intent.host)).collect()))
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
        table: TableLayout { rows: table.rows.clone(), cols: table.cols.clone(), facet: table.facet.clone() },
        drover_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_ms: unix_ms(),
    }
}

/// The agent of this machine is this program again.
fn local_agent() -> Result<LocalOptions, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(ExitStatus::Infrastructure, format!("cannot find the path of this program: {error}"))
    })?;
    Ok(LocalOptions {
        agent_dir: drover_agent::default_dir(),
        agent_command: vec![program.into_os_string(), OsString::from("agent")],
        linger: AGENT_LINGER,
    })
}

/// Who holds a lease, for another user who is refused: `anna@lab1, process 4711`.
fn holder() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let user = user.unwrap_or_else(|_| format!("user {}", rustix::process::getuid().as_raw()));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{user}@{host}, process {}", std::process::id())
}
