//! Carries a search out: asks what to try next, runs it, notes what it showed.

use std::path::Path;

use drover_bisect::{
    OrderStep, Outcome, Policy, Stuck, ToggleStep, Toggles, clean_time_factor, first_bad, smallest_set,
};
use drover_matrix::Options;
use drover_model::RunId;
use drover_store::{ResultsDir, SqliteStore, Store};

use super::{
    BisectArgs,
    journal::{Journal, Search, VERSION},
    judge::judge,
    target::{Candidate, Target},
};
use crate::{
    Context,
    args::{HostArgs, MatrixArgs, ResumeArgs, RunArgs},
    commands::{
        load::load,
        run::{resume, run_as},
    },
    driver::chain,
    error::Failure,
    exit::ExitStatus,
};

/// What a search has come to.
enum Step {
    Try(Candidate),
    Order { last_good: usize, first_bad: usize, confidence: f64 },
    Toggles { set: Toggles, unmeasured: Vec<Toggles> },
    Stuck(Stuck),
}

/// Searches, from the beginning or from where a former search stood.
pub fn bisect(args: &BisectArgs, context: &Context) -> Result<ExitStatus, Failure> {
    let results = ResultsDir::create(&context.global.results).map_err(|e| Failure::infrastructure(&e))?;
    let mut journal = match (&args.resume, &args.matrix) {
        (Some(wanted), _) => reopen(wanted, &results, context)?,
        (None, Some(matrix)) => begin(matrix, args, &results, context)?,
        (None, None) => return Err(Failure::new(ExitStatus::Usage, "name a matrix, or --resume")),
    };
    let hint = format!("`drover bisect --resume {}` goes on", journal.id);
    loop {
        let candidate = match next(&journal) {
            Step::Try(candidate) => candidate,
            over => return conclude(&over, &journal, &results, context),
        };
        let status = attempt(&mut journal, candidate, args, &results, context).map_err(|failure| {
            let text = format!("{failure}\n{hint}");
            if failure.status == ExitStatus::Usage { failure } else { Failure::new(failure.status, text) }
        })?;
        if status == ExitStatus::Interrupted {
            context.screen.complain(&format!("interrupted: {hint}"));
            return Ok(status);
        }
    }
}

fn begin(
    matrix: &Path,
    args: &BisectArgs,
    results: &ResultsDir,
    context: &Context,
) -> Result<Journal, Failure> {
    let options = Options { set: args.set.clone(), ..Options::default() };
    let loaded = load(matrix, &options, &context.screen)?;
    let target = Target::of(&loaded.matrix, args.axis.as_deref(), &args.toggle)?;
    let search = Search {
        version: VERSION,
        matrix: std::path::absolute(matrix).unwrap_or_else(|_| matrix.to_owned()),
        hash: hash(&loaded.text),
        set: args.set.clone(),
        target,
        bad: args.bad.clone(),
        ends: args.ends,
        most: args.most,
        hosts: args
            .hosts
            .hosts
            .as_ref()
            .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone())),
    };
    let journal = Journal::create(results.path(), search).map_err(|e| Failure::infrastructure(&e))?;
    context.screen.say(&format!("bisect {}: {}, bad is {}", journal.id, loaded.matrix.name(), args.bad));
    Ok(journal)
}

fn reopen(wanted: &str, results: &ResultsDir, context: &Context) -> Result<Journal, Failure> {
    let journal = Journal::open(results.path(), wanted)
        .map_err(|error| Failure::new(ExitStatus::Usage, chain(&error)))?;
    let options = Options { set: journal.search.set.clone(), ..Options::default() };
    let loaded = load(&journal.search.matrix, &options, &context.screen)?;
    if hash(&loaded.text) != journal.search.hash {
        let text = format!(
            "{} has changed since the search began: begin another one, or put the file back",
            journal.search.matrix.display()
        );
        return Err(Failure::new(ExitStatus::Usage, text));
    }
    let tries = journal.tries.len();
    context.screen.say(&format!("bisect {}: {}, after {tries} tries", journal.id, loaded.matrix.name()));
    Ok(journal)
}

fn hash(text: &[u8]) -> String {
    blake3::hash(text).to_hex().to_string()
}

/// The next step, from all that was tried.
fn next(journal: &Journal) -> Step {
    let search = &journal.search;
    // One that has not ended is to be finished first.
    if let Some(open) = journal.tries.iter().find(|tried| tried.outcome.is_none()) {
        return Step::Try(open.candidate.clone());
    }
    let policy = Policy { ends: search.ends, most: search.most };
    let tries = journal.tries.iter().filter_map(|tried| Some((&tried.candidate, tried.outcome?)));
    match search.target {
        Target::Order { .. } => {
            let place = |candidate: &Candidate| match candidate {
                Candidate::Place(place) => Some(*place),
                Candidate::On(_) => None,
            };
            let tries: Vec<_> = tries.filter_map(|(of, outcome)| Some((place(of)?, outcome))).collect();
            match first_bad(search.target.count(), policy, &tries) {
                OrderStep::Try(place) => Step::Try(Candidate::Place(place)),
                OrderStep::Found { last_good, first_bad, confidence } => {
                    Step::Order { last_good, first_bad, confidence }
                }
                OrderStep::Stuck(why) => Step::Stuck(why),
            }
        }
        Target::Toggles { .. } => {
            let on = |candidate: &Candidate| match candidate {
                Candidate::On(on) => Some(on.clone()),
                Candidate::Place(_) => None,
            };
            let tries: Vec<_> = tries.filter_map(|(of, outcome)| Some((on(of)?, outcome))).collect();
            match smallest_set(search.target.count(), policy, &tries) {
                ToggleStep::Try(on) => Step::Try(Candidate::On(on)),
                ToggleStep::Found { set, unmeasured } => Step::Toggles { set, unmeasured },
                ToggleStep::Stuck(why) => Step::Stuck(why),
            }
        }
    }
}

/// Runs one candidate, or finishes the run that a former controller began for it, and notes what it showed.
fn attempt(
    journal: &mut Journal,
    candidate: Candidate,
    args: &BisectArgs,
    results: &ResultsDir,
    context: &Context,
) -> Result<ExitStatus, Failure> {
    let what = journal.search.target.describe(&candidate);
    let open = journal.tries.iter().find(|tried| tried.outcome.is_none()).map(|tried| tried.run);
    let run = match open {
        Some(run) => run,
        None => {
            let run = RunId(uuid::Uuid::now_v7());
            journal.begin(run, candidate.clone()).map_err(|e| Failure::infrastructure(&e))?;
            run
        }
    };
    let accept_new = args.hosts.accept_new;
    let status = if open.is_some() && exists(results, run)? {
        let args = ResumeArgs {
            run: run.to_string(),
            hosts: None,
            accept_new,
            wait: args.wait,
            detach: false,
            no_report: true,
        };
        resume(&args, context)?
    } else {
        let set = journal.search.set.iter().cloned().chain(journal.search.target.set(&candidate));
        let matrix = MatrixArgs {
            matrix: journal.search.matrix.clone(),
            set: set.collect(),
            only: Vec::new(),
            repeat: Some(1),
            seed: None,
        };
        let hosts = HostArgs { hosts: journal.search.hosts.clone(), accept_new };
        let args = RunArgs { matrix, hosts, wait: args.wait, detach: false, dry_run: false, no_report: true };
        run_as(run, &args, context)?
    };
    if status == ExitStatus::Interrupted {
        return Ok(status);
    }
    let store = SqliteStore::open_read_only(results).map_err(|e| Failure::infrastructure(&e))?;
    let found = store.load(run).map_err(|e| Failure::infrastructure(&e))?;
    let (outcome, why) = judge(&journal.search.bad, &found);
    journal.end(outcome, &why).map_err(|e| Failure::infrastructure(&e))?;
    let word = match outcome {
        Outcome::Good => "good",
        Outcome::Bad => "BAD",
        Outcome::Skipped => "skipped",
    };
    context.screen.say(&format!("try {}: {what}: {word} ({why})", journal.tries.len()));
    Ok(ExitStatus::Ok)
}

fn exists(results: &ResultsDir, run: RunId) -> Result<bool, Failure> {
    let store = SqliteStore::open_read_only(results).map_err(|e| Failure::infrastructure(&e))?;
    let names = store.run_names().map_err(|e| Failure::infrastructure(&e))?;
    Ok(names.iter().any(|name| name.id == run))
}

/// Prints what was found.
fn conclude(
    step: &Step,
    journal: &Journal,
    results: &ResultsDir,
    context: &Context,
) -> Result<ExitStatus, Failure> {
    let target = &journal.search.target;
    let name = |place: usize| target.describe(&Candidate::Place(place));
    let (text, status) = match step {
        Step::Order { last_good, first_bad, confidence } if last_good + 1 == *first_bad => {
            let text = format!(
                "first bad: {}\nlast good: {}\nconfidence: {:.0} % that no earlier value is bad",
                name(*first_bad),
                name(*last_good),
                (confidence * 100.0).floor()
            );
            (text, ExitStatus::Ok)
        }
        Step::Order { last_good, first_bad, .. } => {
            let between: Vec<String> = (last_good + 1..*first_bad).map(name).collect();
            let text = format!(
                "the first bad value is after {} and not after {}; between them nothing could be told of: {}",
                name(*last_good),
                name(*first_bad),
                between.join(", ")
            );
            (text, ExitStatus::Incomplete)
        }
        Step::Toggles { set, unmeasured } => {
            let on = |set: &Toggles| target.describe(&Candidate::On(set.clone()));
            let mut text = format!("the smallest set that changes the outcome: {}", on(set));
            for smaller in unmeasured {
                text.push_str(&format!("\nnothing could be told of: {}", on(smaller)));
            }
            (text, if unmeasured.is_empty() { ExitStatus::Ok } else { ExitStatus::Incomplete })
        }
        Step::Stuck(why) => (stuck(*why), ExitStatus::Incomplete),
        Step::Try(_) => return Ok(ExitStatus::Ok),
    };
    let _ = context.screen.out(&format!("{text}\n{}", clean_time(journal, results)?));
    Ok(status)
}

fn stuck(why: Stuck) -> String {
    match why {
        Stuck::GoodEndFails => "no search: the end that should be good fails too".to_owned(),
        Stuck::BadEndPasses => {
            "no search: the end that should be bad has not failed; more tries may show it: --ends N"
                .to_owned()
        }
        Stuck::EndSkipped { good } => {
            let end = if good { "good" } else { "bad" };
            format!("no search: the {end} end could not be measured; `drover list` names its run")
        }
        Stuck::TooFlaky { failures, trials } => format!(
            "no search: {failures} failures in {trials} tries of the bad end are too few to call anything good within \
             --most tries; raise it, or make the failure more likely"
        ),
    }
}

/// For failures that take their time: how long a clean run has to be.
fn clean_time(journal: &Journal, results: &ResultsDir) -> Result<String, Failure> {
    let store = SqliteStore::open_read_only(results).map_err(|e| Failure::infrastructure(&e))?;
    let mut times = Vec::new();
    for tried in journal.tries.iter().filter(|tried| tried.outcome == Some(Outcome::Bad)) {
        let found = store.load(tried.run).map_err(|e| Failure::infrastructure(&e))?;
        let last = found.attempts.iter().rfind(|attempt| attempt.is_final);
        times.extend(last.map(|attempt| attempt.elapsed.as_secs_f64()));
    }
    let Ok(count) = u32::try_from(times.len()) else { return Ok(String::new()) };
    if count == 0 {
        return Ok(String::new());
    }
    let mean = times.iter().sum::<f64>() / f64::from(count);
    Ok(format!(
        "tries: {}; {count} failed, after {mean:.1} s in the mean. If the time to the failure is by chance, a try has to last {:.1} s without one to be \
         called clean at 95 %\n",
        journal.tries.len(),
        mean * clean_time_factor(count)
    ))
}
