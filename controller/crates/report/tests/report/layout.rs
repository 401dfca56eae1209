//! Where axes go, and what is said when they cannot.

use drover_model::Verdict;
use drover_report::{Axes, InconsistentRun, Options, ReportError};
use drover_store::{RunResults, TableLayout};

use crate::fixture::{attempt, empty_run, every_outcome, name, render};

fn axes(rows: &[&str], cols: &[&str], facet: &[&str]) -> Options {
    let list = |names: &[&str]| (!names.is_empty()).then(|| names.iter().map(|n| (*n).to_owned()).collect());
    Options { axes: Axes { rows: list(rows), cols: list(cols), facet: list(facet) }, ..Options::default() }
}

/// What stands above the rule of each table, a `|` between lines: `cpus=1 | serialisation | servers none fcntl`.
fn places(results: &RunResults, options: &Options) -> Vec<String> {
    let text = render(results, options).unwrap();
    let is_rule = |line: &str| line.starts_with('-') && line.chars().all(|c| c == '-' || c == ' ');
    let tables = text.split("\n\n").filter(|block| block.lines().any(is_rule));
    let above_rule = |block: &str| {
        let lines = block.lines().take_while(|line| !is_rule(line));
        lines
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
            .join(" | ")
    };
    tables.map(above_rule).collect()
}

fn four_axes() -> RunResults {
    empty_run(
        &[("k", &["x", "y"]), ("c", &["1", "2"]), ("s", &["3", "4"]), ("one", &["z"]), ("z", &["p", "q"])],
        1,
    )
}

#[test]
fn expect_last_axis_across_when_nothing_is_said() {
    let wanted = ["k=x c=1", "k=x c=2", "k=y c=1", "k=y c=2"].map(|facet| format!("{facet} | z | s p q"));
    assert_eq!(places(&four_axes(), &Options::default()), wanted);
    let text = render(&four_axes(), &Options::default()).unwrap();
    assert_eq!(text.matches("one=z").count(), 1, "{text}");
}

#[test]
fn expect_the_runs_own_layout_when_it_has_one_and_the_options_before_it() {
    let mut results = four_axes();
    results.run.table =
        TableLayout { rows: vec![name("z")], cols: vec![name("k")], facet: vec![name("one")] };
    let first = |options: &Options| places(&results, options)[0].clone();
    assert_eq!(first(&Options::default()), "c=1 s=3 | k | z x y");
    assert_eq!(first(&axes(&["k"], &[], &[])), "c=1 s=3 | z | k p q");
    assert_eq!(first(&axes(&["c", "s"], &["z"], &["k"])), "k=x | z | c s p q");
    assert_eq!(first(&axes(&["one"], &["s"], &[])), "k=x c=1 z=p | s | one 3 4");
}

#[test]
fn expect_rows_only_when_one_axis_varies_or_no_columns_are_wanted() {
    let results = empty_run(&[("k", &["x"]), ("s", &["3", "4"])], 1);
    assert_eq!(places(&results, &Options::default()), ["s conn_per_s"]);
    let axes = Axes { rows: None, cols: Some(Vec::new()), facet: None };
    let shown = places(&four_axes(), &Options { axes, ..Options::default() });
    assert_eq!(shown[0], "k=x c=1 s=3 | z conn_per_s");
}

#[test]
fn expect_fewer_columns_when_the_last_axis_has_many_values() {
    let many: Vec<String> = (0..40).map(|level| level.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let results = empty_run(&[("k", &["x", "y"]), ("s", &many)], 1);
    assert!(places(&results, &Options::default())[0].starts_with("k | s"), "fewer values go across");
}

#[test]
fn expect_tied_axes_side_by_side_when_they_advance_together() {
    let levels: Vec<String> = (0..400).map(|level| level.to_string()).collect();
    let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
    let mut results = empty_run(&[("a", &levels), ("b", &levels)], 1);
    results.cells.retain(|cell| cell.values[0] == cell.values[1]);
    assert!(places(&results, &Options::default())[0].starts_with("a b conn_per_s"));
    let error = render(&results, &axes(&["a"], &["b"], &[])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a table of 400 rows and 400 columns would show only 400 cells: put the column axis `b` into the rows or the \
         facets"
    );
}

#[test]
fn expect_empty_places_when_the_matrix_has_no_such_cell() {
    let mut results = empty_run(&[("a", &["1", "2"]), ("b", &["x", "y"])], 1);
    results.cells.remove(1);
    results.attempts = [0, 2, 3].map(|cell| attempt(cell, 1, 1, Verdict::Ok, Some(4000.0))).to_vec();
    let text = render(&results, &Options::default()).unwrap();
    assert!(text.contains("empty places are not part of the matrix"), "{text}");
    assert!(text.lines().any(|line| line.trim_end() == "1  4,000"), "{text}");
}

#[test]
fn expect_a_suggestion_when_a_name_is_mistyped() {
    let message = |options| render(&every_outcome(), &options).unwrap_err().to_string();
    assert_eq!(
        message(axes(&["servrs"], &[], &[])),
        "no axis is called `servrs`: did you mean `servers`? (axes: kernel, cpus, servers, serialisation)"
    );
    assert_eq!(
        message(axes(&[], &["zzzzzzzz"], &[])),
        "no axis is called `zzzzzzzz` (axes: kernel, cpus, servers, serialisation)"
    );
    assert_eq!(
        message(Options { metric: Some("conn_per_sec".to_owned()), ..Options::default() }),
        "no metric is called `conn_per_sec`: did you mean `conn_per_s`? (metrics: conn_per_s, failed)"
    );
    assert_eq!(
        message(axes(&["servers"], &["servers"], &[])),
        "axis `servers` is placed twice: name it once, in the rows, the columns or the facets"
    );
}

#[test]
fn expect_an_error_when_results_contradict_the_plan() {
    let mut results = empty_run(&[("a", &["1", "2"])], 1);
    results.attempts = vec![attempt(7, 1, 1, Verdict::Ok, Some(1.0))];
    let error = render(&results, &Options::default()).unwrap_err();
    assert!(
        matches!(error, ReportError::Inconsistent(InconsistentRun::UnknownCell { cell: 7, .. })),
        "{error}"
    );
    let mut results = empty_run(&[("a", &["1", "1"])], 1);
    let error = render(&results, &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "the stored run has two cells with the same values: the only cell");
    results.cells[1].index = 0;
    let error = render(&results, &Options::default()).unwrap_err();
    assert!(matches!(error, ReportError::Inconsistent(InconsistentRun::SameIndex(0))), "{error}");
    results.cells[1].values.clear();
    let error = render(&results, &Options::default()).unwrap_err();
    assert!(matches!(error, ReportError::Inconsistent(InconsistentRun::Values { .. })), "{error}");
}
