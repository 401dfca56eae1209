//! Each format over a run that has every outcome.

use crate::fixture::{self, attempt, empty_run, every_outcome, render, render_as};
use drover_model::Verdict;
use drover_report::{Axes, Coverage, ExitStatus, Format, Options, exit_status};
use drover_store::RunResults;

#[test]
fn expect_text_when_every_outcome_occurs() {
    insta::assert_snapshot!(render_as(&every_outcome(), Format::Text));
}

#[test]
fn expect_markdown_when_every_outcome_occurs() {
    insta::assert_snapshot!(render_as(&every_outcome(), Format::Markdown));
}

#[test]
fn expect_a_row_per_attempt_when_csv_is_asked_for() {
    insta::assert_snapshot!(render_as(&every_outcome(), Format::Csv));
}

#[test]
fn expect_a_row_per_cell_when_cells_csv_is_asked_for() {
    insta::assert_snapshot!(render_as(&every_outcome(), Format::CellsCsv));
}

#[test]
fn expect_junit_when_every_outcome_occurs() {
    insta::assert_snapshot!(render_as(&every_outcome(), Format::Junit));
}

#[test]
fn expect_json_when_every_outcome_occurs() {
    let mut results = every_outcome();
    // The first cells have all outcomes; the rest would only make the snapshot long.
    results.cells.truncate(12);
    results.attempts.retain(|attempt| attempt.id.trial.cell < 12);
    let json: serde_json::Value = serde_json::from_str(&render_as(&results, Format::Json)).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap());
}

#[test]
fn expect_json_to_fit_its_schema_when_every_outcome_occurs() {
    let schema: serde_json::Value = serde_json::from_str(&drover_report::json_schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for results in [every_outcome(), empty_run(&[], 1), empty_run(&[("a", &["1", "2"])], 0)] {
        let json: serde_json::Value = serde_json::from_str(&render_as(&results, Format::Json)).unwrap();
        let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
        assert_eq!(errors, [""; 0]);
    }
    let mut wrong: serde_json::Value =
        serde_json::from_str(&render_as(&every_outcome(), Format::Json)).unwrap();
    wrong["attempts"][0]["elapsed_s"] = "long".into();
    assert!(!validator.is_valid(&wrong));
}

/// Set `DROVER_UPDATE_SCHEMA=1` to write the file anew.
#[test]
fn expect_the_committed_schema_when_generated() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/report.schema.json");
    let generated = drover_report::json_schema();
    if std::env::var_os("DROVER_UPDATE_SCHEMA").is_some() {
        std::fs::write(path, &generated).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        generated,
        "run this test with DROVER_UPDATE_SCHEMA=1"
    );
}

#[test]
fn expect_colours_only_when_asked_for() {
    let colored = Options { color: true, ..Options::default() };
    let text = render(&every_outcome(), &colored).unwrap();
    assert!(text.contains("\u{1b}[31mNG crash\u{1b}[0m"), "{text}");
    let mut plain = text;
    for code in ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[35m", "\u{1b}[2m", "\u{1b}[0m"] {
        plain = plain.replace(code, "");
    }
    assert_eq!(plain, render_as(&every_outcome(), Format::Text));
}

#[test]
fn expect_ok_instead_of_numbers_when_a_run_has_no_metrics() {
    let mut results = empty_run(&[("n", &["1", "2"])], 1);
    results.run.metrics.clear();
    results.attempts = vec![attempt(0, 1, 1, Verdict::Ok, None), attempt(1, 1, 1, Verdict::Ok, None)];
    insta::assert_snapshot!(render_as(&results, Format::Text));
    assert_eq!(exit_status(&results).unwrap(), ExitStatus::AllOk);
}

#[test]
fn expect_another_metric_when_named() {
    let options = Options { metric: Some("failed".to_owned()), ..Options::default() };
    let mut results = empty_run(&[("servers", &["3", "10"])], 2);
    results.attempts =
        vec![attempt(0, 1, 1, Verdict::Ok, Some(5000.0)), attempt(0, 2, 1, Verdict::Ok, Some(5000.0))];
    let text = render(&results, &options).unwrap();
    assert!(text.contains("failed (connections, lower is better)"), "{text}");
    assert!(text.contains("no-value: trials passed without a value of failed (2 of 2 trials)"), "{text}");
    assert!(!text.contains("5,000"), "{text}");
}

#[test]
fn expect_one_row_and_no_labels_when_a_run_has_one_cell() {
    let mut results = empty_run(&[("servers", &["3"])], 1);
    results.attempts = vec![attempt(0, 1, 1, Verdict::Ok, Some(5000.0))];
    insta::assert_snapshot!(render_as(&results, Format::Text));
}

#[test]
fn expect_few_notes_when_many_trials_share_a_reason() {
    let levels: Vec<String> = (0..200).map(|level| level.to_string()).collect();
    let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
    let mut results = empty_run(&[("servers", &levels)], 1);
    results.attempts = (0..200)
        .map(|cell| {
            let detail = format!("client used {cell}.5 % of its CPU");
            attempt(
                cell,
                1,
                1,
                fixture::suspect(drover_model::DoubtKind::ClientSaturated, &detail),
                Some(1.0),
            )
        })
        .collect();
    let text = render_as(&results, Format::Text);
    assert!(text.contains("200 of 200 trials in 200 cells; figures differ"), "{text}");
    assert!(!text.contains("[2]"), "{text}");
    // Wordings that differ in more than figures are bounded too.
    for (at, attempt) in results.attempts.iter_mut().enumerate() {
        let word = "x".repeat(at + 1);
        attempt.verdict = fixture::suspect(drover_model::DoubtKind::Network, &word);
    }
    let text = render_as(&results, Format::Text);
    assert!(text.contains("[51] other reasons") && text.contains("150 more"), "{text}");
    assert!(!text.contains("[52]"), "{text}");
}

#[test]
fn expect_coverage_to_add_up_when_every_outcome_occurs() {
    let coverage = Coverage::of(&every_outcome()).unwrap();
    let parts = coverage.measured + coverage.ng + coverage.error + coverage.missing + coverage.excluded;
    assert_eq!((coverage.cells, parts), (24, 24));
    assert_eq!(coverage.excluded, 1);
    let trials =
        coverage.trials_measured + coverage.trials_ng + coverage.trials_error + coverage.trials_missing;
    assert_eq!((coverage.trials, trials), (69, 69));
}

#[test]
fn expect_exit_status_by_the_gravest_trial_when_outcomes_mix() {
    use crate::fixture::{error, missing, ng, suspect};
    use drover_model::{DoubtKind, ErrorCause, MissingCause, NgCause};
    let status = |verdicts: Vec<Verdict>| {
        let mut results = empty_run(&[], 2);
        results.attempts = verdicts
            .into_iter()
            .zip(1..)
            .map(|(verdict, repetition)| attempt(0, repetition, 1, verdict, Some(1.0)))
            .collect();
        exit_status(&results).unwrap().code()
    };
    let doubtful = || suspect(DoubtKind::ClientSaturated, "");
    let failed = || error(ErrorCause::DiskFull, "");
    let lockup = || ng(NgCause::Lockup, "");
    let gone = || missing(MissingCause::HostUnavailable, "");
    assert_eq!(status(vec![Verdict::Ok, Verdict::Ok]), 0);
    assert_eq!(status(vec![Verdict::Ok, doubtful()]), 0);
    assert_eq!(status(vec![Verdict::Ok]), 3);
    assert_eq!(status(vec![]), 3);
    assert_eq!(status(vec![Verdict::Ok, gone()]), 3);
    assert_eq!(status(vec![failed(), gone()]), 4);
    assert_eq!(status(vec![Verdict::Ok, failed()]), 4);
    assert_eq!(status(vec![lockup(), failed()]), 1);
    let mut excluded = empty_run(&[], 2);
    excluded.cells[0].excluded = Some("never".to_owned());
    assert_eq!(exit_status(&excluded).unwrap(), ExitStatus::Incomplete);
}

#[test]
fn expect_a_suspect_cell_when_a_pass_followed_an_ng_unmarked() {
    let mut results = empty_run(&[], 1);
    let mut first = attempt(0, 1, 1, fixture::ng(drover_model::NgCause::Hang, "no progress"), None);
    first.is_final = false;
    results.attempts = vec![first, attempt(0, 1, 2, Verdict::Ok, Some(4321.0))];
    let text = render_as(&results, Format::Text);
    assert!(text.contains("4,321**") && text.contains("passed-on-retry"), "{text}");
}

#[test]
fn expect_the_places_asked_for_when_axes_are_named() {
    let axes = Axes {
        rows: Some(vec!["serialisation".to_owned()]),
        cols: Some(vec!["cpus".to_owned(), "servers".to_owned()]),
        facet: None,
    };
    insta::assert_snapshot!(render(&every_outcome(), &Options { axes, ..Options::default() }).unwrap());
}

#[test]
fn expect_the_skew_of_valid_attempts_only_when_several_started_together() {
    let mut results = every_outcome();
    let lines = |results: &RunResults| {
        render_as(results, Format::Text)
            .lines()
            .find(|line| line.starts_with("started together"))
            .map(str::to_owned)
    };
    assert_eq!(lines(&results), None);
    let valid = results.attempts.iter_mut().filter(|attempt| attempt.verdict.outcome().has_number());
    for (attempt, skew) in valid.zip([250, 12_345, 90]) {
        attempt.start_skew_us = Some(skew);
    }
    let failed = results.attempts.iter_mut().find(|attempt| !attempt.verdict.outcome().has_number());
    failed.unwrap().start_skew_us = Some(99_999);
    let expected = "started together within 0.250 ms (median), 12.345 ms at most";
    assert_eq!(lines(&results).as_deref(), Some(expected));
}

#[test]
fn expect_numbers_marked_when_instructions_were_translated() {
    let mut results = every_outcome();
    let marked = |results: &RunResults| {
        let text = render_as(results, Format::Text).contains("functional only: QEMU translates");
        let json: serde_json::Value = serde_json::from_str(&render_as(results, Format::Json)).unwrap();
        let attempts = json["attempts"].as_array().unwrap().clone();
        (text, attempts.iter().filter(|attempt| attempt["functional_only"] == true).count())
    };
    assert_eq!(marked(&results), (false, 0));
    for (_, facts) in &mut results.hosts {
        facts.hypervisor = Some(drover_model::HostFacts::TRANSLATED.to_owned());
    }
    let (text, attempts) = marked(&results);
    assert!(text && attempts > 0, "{attempts}");
    let csv = render_as(&results, Format::Csv);
    assert!(csv.lines().any(|line| line.ends_with(",true,true")), "{csv}");
}
