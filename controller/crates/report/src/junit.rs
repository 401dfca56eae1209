//! JUnit XML: a test case for each trial, for CI systems.
//!
//! `ng` is a failure, `error` an error, `missing` skipped. A suspect trial passes, with its doubts in `system-out`.
//! Attempts before the one that speaks for the trial are flaky failures or reruns, as Jenkins and GitLab read them.

use std::{io::Write, time::Duration};

use drover_model::{Outcome, Verdict};
use drover_store::{AttemptRecord, RunResults};
use jiff::Timestamp;
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestRerun, TestSuite};

use crate::{
    error::ReportError,
    escape::{printable, xml},
    trials::{CellTrials, Trial, group, valid_metrics},
};

/// Writes the report.
pub(crate) fn write(results: &RunResults, out: &mut dyn Write) -> Result<(), ReportError> {
    let run = &results.run;
    let mut suite = TestSuite::new(xml(&run.name));
    suite.timestamp = i64::try_from(run.started_unix_ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .and_then(|at| at.to_string().parse().ok());
    let length = results.ended_unix_ms.and_then(|ended| ended.checked_sub(run.started_unix_ms));
    suite.time = length.map(Duration::from_millis);
    suite.add_property(("run", run.id.to_string().as_str()));
    suite.add_property(("seed", run.seed.to_string().as_str()));
    suite.add_property(("drover", xml(&run.drover_version).as_str()));
    for (name, facts) in &results.hosts {
        suite.add_property((format!("host.{name}.kernel"), xml(&facts.kernel_release)));
        suite.add_property((format!("host.{name}.cpus"), facts.cpus.len().to_string()));
    }
    for cell in group(results)? {
        let name = cell_name(results, &cell);
        if cell.is_excluded() {
            let because = cell.cell.excluded.as_deref().unwrap_or_default();
            suite.add_test_case(skipped(&run.name, &name, "excluded", because));
        }
        for trial in &cell.trials {
            suite.add_test_case(of_trial(&run.name, &name, trial));
        }
    }
    let mut report = Report::new("drover");
    report.timestamp = suite.timestamp;
    report.time = suite.time;
    report.add_test_suite(suite);
    report.serialize(out).map_err(ReportError::Junit)
}

fn cell_name(results: &RunResults, cell: &CellTrials<'_>) -> String {
    let pairs = results.run.axes.iter().zip(&cell.cell.values);
    let named: Vec<String> = pairs.map(|(axis, value)| format!("{axis}={value}")).collect();
    if named.is_empty() { results.run.name.clone() } else { named.join(" ") }
}

fn skipped(class: &str, name: &str, cause: &str, detail: &str) -> TestCase {
    let mut status = TestCaseStatus::skipped();
    status.set_type(cause).set_message(message(cause, detail));
    let mut case = TestCase::new(xml(name), status);
    case.set_classname(xml(class));
    case
}

fn of_trial(class: &str, cell: &str, trial: &Trial<'_>) -> TestCase {
    let name = format!("{cell} #{}", trial.repetition);
    let Some(speaker) = trial.speaker() else {
        return skipped(class, &name, "not-run", "planned, not reached");
    };
    let (cause, detail) = (speaker.verdict.cause(), speaker.verdict.detail());
    let mut status = match speaker.verdict.outcome() {
        Outcome::Ok | Outcome::Suspect => TestCaseStatus::success(),
        Outcome::Ng => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Outcome::Error => TestCaseStatus::non_success(NonSuccessKind::Error),
        Outcome::Missing => return skipped(class, &name, cause, &detail),
    };
    status.set_type(cause).set_message(message(cause, &detail)).set_description(xml(&evidence(speaker)));
    for earlier in trial.attempts.iter().filter(|attempt| attempt.id != speaker.id) {
        status.add_reruns(rerun(earlier));
    }
    let mut case = TestCase::new(xml(&name), status);
    case.set_classname(xml(class)).set_time(speaker.elapsed);
    for (metric, value) in valid_metrics(speaker) {
        case.add_property(Property::new(metric, value.to_string()));
    }
    if trial.outcome == Outcome::Suspect {
        let doubts: Vec<String> = trial
            .reasons()
            .iter()
            .map(|reason| format!("suspect {}", message(reason.cause, &reason.detail)))
            .collect();
        case.set_system_out(xml(&doubts.join("\n")));
    }
    case
}

/// An earlier attempt, if it failed.
fn rerun(attempt: &AttemptRecord) -> Option<TestRerun> {
    let kind = match attempt.verdict {
        Verdict::Ng { .. } => NonSuccessKind::Failure,
        Verdict::Error { .. } => NonSuccessKind::Error,
        Verdict::Ok | Verdict::Suspect { .. } | Verdict::Missing { .. } => return None,
    };
    let cause = attempt.verdict.cause();
    let mut rerun = TestRerun::new(kind);
    rerun
        .set_type(cause)
        .set_message(message(cause, &attempt.verdict.detail()))
        .set_time(attempt.elapsed)
        .set_description(xml(&evidence(attempt)));
    Some(rerun)
}

/// One line, because parsers turn line ends in attributes into spaces.
fn message(cause: &str, detail: &str) -> String {
    let detail = detail.trim();
    if detail.is_empty() { cause.to_owned() } else { xml(&printable(&format!("{cause}: {detail}"))) }
}

/// What was seen, and the last lines of all tasks that have some.
fn evidence(attempt: &AttemptRecord) -> String {
    let mut text = attempt.verdict.detail();
    text.push('\n');
    for task in attempt.tasks.iter().filter(|task| !task.tail.is_empty()) {
        text.push_str(&format!("--- {}.{}\n{}\n", task.role, task.instance, task.tail.trim_end()));
    }
    text
}
