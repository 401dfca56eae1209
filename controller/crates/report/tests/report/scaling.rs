//! What is said of CPU counts, in every format that says it.

use drover_model::{Direction, DoubtKind, HostFacts, MissingCause, NgCause, Verdict};
use drover_report::Format;
use drover_store::RunResults;
use proptest::prelude::*;

use crate::fixture::{attempt, empty_run, missing, ng, render_as, suspect};

/// A run over kernels and CPUs: the trials of each cell, row by row.
fn run(kernels: &[&str], cpus: &[&str], trials: &[&[f64]]) -> RunResults {
    let repeat = trials.iter().map(|trials| trials.len()).max().unwrap_or(1);
    let mut results = empty_run(&[("kernel", kernels), ("cpus", cpus)], u32::try_from(repeat).unwrap());
    for (cell, values) in (0..).zip(trials) {
        for (repetition, value) in (1..).zip(*values) {
            results.attempts.push(attempt(cell, repetition, 1, Verdict::Ok, Some(*value)));
        }
    }
    results
}

/// What the text says of CPU counts.
fn said(results: &RunResults) -> String {
    let text = render_as(results, Format::Text);
    let mut lines = text.lines().skip_while(|line| !line.starts_with("more CPUs"));
    let mut said = Vec::new();
    for line in lines.by_ref().take_while(|line| !line.starts_with('[')) {
        said.push(line);
    }
    said.join("\n").trim_end().to_owned()
}

/// Three kernels: one on which four CPUs are worse than two, one on which it is nowhere so, one on which all are worse.
fn three_kernels() -> RunResults {
    run(
        &["6.1", "6.12", "6.12-rt"],
        &["1", "2", "4"],
        &[
            &[401.0, 400.0, 402.0],
            &[503.0, 500.0, 509.0],
            &[412.0, 410.0, 415.0],
            &[401.0, 400.0, 402.0],
            &[503.0, 500.0, 509.0],
            &[504.0, 499.0, 510.0],
            &[600.0, 590.0, 610.0],
            &[300.0, 301.0, 302.0],
            &[450.0, 449.0, 460.0],
        ],
    )
}

#[test]
fn expect_words_below_the_table_when_more_cpus_give_less() {
    insta::assert_snapshot!(render_as(&three_kernels(), Format::Text));
}

#[test]
fn expect_the_same_words_in_markdown_when_more_cpus_give_less() {
    insta::assert_snapshot!(render_as(&three_kernels(), Format::Markdown));
}

#[test]
fn expect_figures_in_json_when_more_cpus_give_less() {
    let json: serde_json::Value = serde_json::from_str(&render_as(&three_kernels(), Format::Json)).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&json["scaling"]).unwrap());
    let plain = render_as(&empty_run(&[("servers", &["1", "2"])], 1), Format::Json);
    assert!(!plain.contains("scaling"), "{plain}");
}

#[test]
fn expect_nowhere_when_more_cpus_never_give_less_for_sure() {
    // The medians fall by 4 %, yet one trial of two CPUs is above one of one CPU.
    let overlap = run(&["6.1"], &["1", "2"], &[&[100.0, 99.0, 101.0], &[96.0, 95.0, 99.5]]);
    assert_eq!(said(&overlap), "more CPUs gave less nowhere (1 comparison at 95 %)");
    // All are below, by half a percent: no use to anybody.
    let little = run(&["6.1"], &["1", "2"], &[&[1000.0, 999.0, 1001.0], &[995.0, 994.0, 996.0]]);
    assert_eq!(said(&little), "more CPUs gave less nowhere (1 comparison at 95 %)");
}

#[test]
fn expect_doubt_said_when_trials_are_too_few() {
    let one = run(&["6.1"], &["1", "2"], &[&[696.2], &[397.1]]);
    assert_eq!(
        said(&one),
        "more CPUs gave less, by too few trials to tell it from chance (1 comparison):\n  2 CPUs gave 43 % less than 1 \
         (397 against 696 conn/s)"
    );
    let none = run(&["6.1"], &["1", "2"], &[&[300.0, 310.0], &[397.0, 290.0]]);
    assert_eq!(said(&none), "more CPUs gave less nowhere, as far as so few trials can tell (1 comparison)");
}

#[test]
fn expect_what_is_certain_apart_when_some_cells_have_fewer_trials() {
    let mixed = run(&["6.1"], &["1", "2", "4"], &[&[500.0, 510.0, 505.0], &[400.0, 410.0, 405.0], &[300.0]]);
    assert_eq!(
        said(&mixed),
        "more CPUs gave less (3 comparisons, each at 95 %):\n  2 CPUs gave 20 % less than 1 (405 against 505 conn/s)\n\n\
         more CPUs gave less, by too few trials to tell it from chance (3 comparisons, each at 95 %):\n  4 CPUs gave 41 % less \
         than 1 (300 against 505 conn/s)"
    );
}

#[test]
fn expect_no_comparison_with_cells_that_have_no_number() {
    let mut results = run(&["6.1"], &["1", "2", "4"], &[&[500.0; 3], &[], &[]]);
    for repetition in 1..=3 {
        results.attempts.push(attempt(1, repetition, 1, missing(MissingCause::WrongCpus, "2 asked"), None));
        // A number that an NG left behind is none.
        results.attempts.push(attempt(2, repetition, 1, ng(NgCause::Lockup, "stuck"), Some(3.0)));
    }
    // Nor is a cell of which one trial passed.
    results.attempts.last_mut().unwrap().verdict = Verdict::Ok;
    assert_eq!(said(&results), "");
    for repetition in 1..=3 {
        results.attempts[2 + usize::try_from(repetition).unwrap() * 2].verdict = Verdict::Ok;
    }
    let text = said(&results);
    assert!(text.contains("(1 comparison at 95 %; 2 more cannot be made)"), "{text}");
    assert!(text.contains("4 CPUs gave 99 % less than 1 (3 against 500 conn/s)"), "{text}");
    results.cells[1].excluded = Some("not today".to_owned());
    results.attempts.retain(|attempt| attempt.id.trial.cell != 1);
    assert!(said(&results).contains("(1 comparison at 95 %):"), "{}", said(&results));
}

#[test]
fn expect_no_comparison_of_cells_that_ran_on_different_hosts() {
    let mut results = run(&["6.1"], &["1", "2", "4"], &[&[500.0; 3], &[400.0; 3], &[300.0; 3]]);
    for attempt in &mut results.attempts[..3] {
        attempt.hosts = vec!["other".parse().unwrap()];
    }
    assert_eq!(
        said(&results),
        "more CPUs gave less (1 comparison at 95 %; 2 more cannot be made):\n  4 CPUs gave 25 % less than 2 (300 against 400 \
         conn/s)"
    );
}

#[test]
fn expect_marks_kept_when_numbers_are_suspect_or_functional_only() {
    let mut results = run(&["6.1"], &["1", "2"], &[&[500.0; 3], &[400.0; 3]]);
    results.attempts[4].verdict = suspect(DoubtKind::ForeignLoad, "others used 30 % of the CPUs");
    results.hosts[0].1.hypervisor = Some(HostFacts::TRANSLATED.to_owned());
    assert_eq!(
        said(&results),
        "more CPUs gave less (functional only; 1 comparison at 95 %):\n  2 CPUs gave 20 % less than 1 (400** against 500 \
         conn/s)"
    );
}

#[test]
fn expect_more_called_worse_when_lower_is_better() {
    let mut results = run(&["6.1"], &["1", "2"], &[&[0.0; 3], &[4.0, 5.0, 6.0]]);
    results.run.metrics[0].better = Direction::Lower;
    assert_eq!(
        said(&results),
        "more CPUs were worse (1 comparison at 95 %):\n  2 CPUs gave more than 1 (5 against 0 conn/s)"
    );
    let mut results = run(&["6.1"], &["1", "2"], &[&[2.0; 3], &[4.0, 5.0, 6.0]]);
    results.run.metrics[0].better = Direction::Lower;
    assert!(
        said(&results).contains("2 CPUs gave 150 % more than 1 (5 against 2 conn/s)"),
        "{}",
        said(&results)
    );
    let mut results = run(&["6.1"], &["1", "2"], &[&[4.0, 5.0, 6.0], &[2.0; 3]]);
    results.run.metrics[0].better = Direction::Lower;
    assert_eq!(said(&results), "more CPUs were worse nowhere (1 comparison at 95 %)");
}

#[test]
fn expect_counts_in_their_order_whatever_the_order_of_the_file() {
    let results = run(&["6.1"], &["16", "4", "running"], &[&[300.0; 3], &[400.0; 3], &[1.0; 3]]);
    assert!(said(&results).contains("16 CPUs gave 25 % less than 4"), "{}", said(&results));
}

#[test]
fn expect_the_best_of_fewer_cpus_named_when_several_did_better() {
    let results = run(&["6.1"], &["1", "2", "4"], &[&[450.0; 3], &[600.0; 3], &[400.0; 3]]);
    assert!(
        said(&results).ends_with(":\n  4 CPUs gave 33 % less than 2 (400 against 600 conn/s)"),
        "{}",
        said(&results)
    );
}

#[test]
fn expect_few_lines_when_there_are_many_series() {
    let kernels: Vec<String> = (0..60).map(|kernel| format!("6.{kernel}")).collect();
    let kernels: Vec<&str> = kernels.iter().map(String::as_str).collect();
    let trials: Vec<&[f64]> = (0..60).flat_map(|_| [&[500.0; 3][..], &[400.0; 3][..]]).collect();
    let text = said(&run(&kernels, &["1", "2"], &trials));
    assert!(
        text.starts_with("more CPUs gave less, in 60 of 60 series (60 comparisons, each at 95 %):"),
        "{text}"
    );
    assert!(text.ends_with("and 20 more; the JSON export has all of them"), "{text}");
    assert_eq!(text.lines().count(), 42);
    // Of what may be chance, there are fewer.
    let trials: Vec<&[f64]> = (0..60).flat_map(|_| [&[500.0][..], &[400.0][..]]).collect();
    let text = said(&run(&kernels, &["1", "2"], &trials));
    assert!(text.ends_with("and 56 more; the JSON export has all of them"), "{text}");
    assert_eq!(text.lines().count(), 6);
}

proptest! {
    #[test]
    fn a_loss_is_told_only_of_cells_that_lost(
        trials in prop::collection::vec(prop::collection::vec(1..2000_u32, 0..5), 9),
        lower in any::<bool>(),
    ) {
        let trials: Vec<Vec<f64>> =
            trials.into_iter().map(|cell| cell.into_iter().map(f64::from).collect()).collect();
        let slices: Vec<&[f64]> = trials.iter().map(Vec::as_slice).collect();
        let mut results = run(&["a", "b", "c"], &["1", "2", "4"], &slices);
        if lower {
            results.run.metrics[0].better = Direction::Lower;
        }
        let json: serde_json::Value = serde_json::from_str(&render_as(&results, Format::Json)).unwrap();
        let worse = json["scaling"]["worse"].as_array().cloned().unwrap_or_default();
        let values = |kernel: &str, cpus: u64| {
            let row = ["a", "b", "c"].iter().position(|known| *known == kernel).unwrap();
            let col = [1, 2, 4].iter().position(|known| *known == cpus).unwrap();
            trials[row * 3 + col].clone()
        };
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
        };
        for loss in &worse {
            let kernel = loss["values"]["kernel"].as_str().unwrap();
            let cpus = |side: &str| loss[side]["cpus"].as_u64().unwrap();
            prop_assert!(cpus("more") > cpus("fewer"));
            let (more, fewer) = (values(kernel, cpus("more")), values(kernel, cpus("fewer")));
            let (more_median, fewer_median) = (median(more.clone()), median(fewer.clone()));
            let (worse, better) = if lower { (fewer_median, more_median) } else { (more_median, fewer_median) };
            prop_assert!(worse < better, "{:?} {:?}", more, fewer);
            let certain = loss["certain"].as_bool().unwrap();
            // Of up to four trials, three of each are the fewest with which 1 in 20 is reached.
            prop_assert_eq!(certain, more.len().min(fewer.len()) >= 3);
            prop_assert!(!certain || loss["chance"].as_f64().unwrap() <= 0.05 + 1e-9);
        }
        // Each count is told of once in a series at most.
        let mut told: Vec<_> = worse.iter().map(|l| (l["values"].to_string(), l["more"]["cpus"].as_u64())).collect();
        told.sort();
        told.dedup();
        prop_assert_eq!(told.len(), worse.len());
    }
}
