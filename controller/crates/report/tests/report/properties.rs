//! What holds for every run, whatever its outcomes, names and outputs are.

use std::sync::LazyLock;

use drover_model::{DoubtKind, ErrorCause, MissingCause, NgCause, Outcome, Verdict};
use drover_report::{Coverage, Format, exit_status};
use drover_store::RunResults;
use proptest::prelude::*;

use crate::fixture::{attempt, empty_run, error, missing, ng, render_as, suspect};

/// Carried by attempts that must not show a number.
const FORBIDDEN: f64 = 7_777_777.0;

static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let schema: serde_json::Value = serde_json::from_str(&drover_report::json_schema()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
});

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[=+@' -][a-z,\"|<&]{0,8}",
        Just("\u{1b}[31m\u{9b}2J\u{7}\r\n\u{202e}|<b>`x`</b>".to_owned()),
        Just(String::new()),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    (0..6_u8, text()).prop_map(|(kind, detail)| match kind {
        0 | 1 => Verdict::Ok,
        2 => suspect(DoubtKind::ClientSaturated, &detail),
        3 => ng(NgCause::Lockup, &detail),
        4 => error(ErrorCause::Script, &detail),
        _ => missing(MissingCause::WrongCpus, &detail),
    })
}

/// Up to 3 x 3 cells with hostile axis values and up to three attempts for each of two trials.
fn run() -> impl Strategy<Value = RunResults> {
    let levels =
        || prop::collection::hash_set(text(), 1..4).prop_map(|set| set.into_iter().collect::<Vec<_>>());
    let verdicts = prop::collection::vec(prop::collection::vec(verdict(), 0..4), 18);
    (levels(), levels(), verdicts, prop::bool::weighted(0.2), text()).prop_map(
        |(a, b, verdicts, excluded, about)| {
            let a: Vec<&str> = a.iter().map(String::as_str).collect();
            let b: Vec<&str> = b.iter().map(String::as_str).collect();
            let mut results = empty_run(&[("hosts", &a), ("b", &b)], 2);
            results.run.about = about;
            for cell in 0..u32::try_from(results.cells.len()).unwrap() {
                for repetition in 1..=2 {
                    let at = usize::try_from(cell * 2 + repetition - 1).unwrap() % verdicts.len();
                    for (number, verdict) in (1..).zip(&verdicts[at]) {
                        let passed = verdict.outcome().has_number();
                        let value = if passed { 1_000_000.0 + f64::from(number) } else { FORBIDDEN };
                        results.attempts.push(attempt(
                            cell,
                            repetition,
                            number,
                            verdict.clone(),
                            Some(value),
                        ));
                    }
                }
            }
            if excluded && results.attempts.iter().all(|attempt| attempt.id.trial.cell != 0) {
                results.cells[0].excluded = Some("=because".to_owned());
            }
            results
        },
    )
}

/// The verdict that speaks for each trial of a cell, computed apart from the code under test.
fn spoken(results: &RunResults, cell: u32) -> Vec<Outcome> {
    let of_trial = |repetition| {
        let mut attempts = results
            .attempts
            .iter()
            .filter(|attempt| attempt.id.trial.cell == cell && attempt.id.trial.repetition == repetition);
        attempts.next_back().map_or(Outcome::Missing, |attempt| attempt.verdict.outcome())
    };
    vec![of_trial(1), of_trial(2)]
}

fn shows_number(outcomes: &[Outcome]) -> bool {
    !outcomes.contains(&Outcome::Ng) && outcomes.iter().any(|outcome| outcome.has_number())
}

fn without_apostrophe(field: &str) -> &str {
    field.strip_prefix('\'').unwrap_or(field)
}

fn acts(c: char) -> bool {
    c.is_control() && c != '\n'
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_format_shows_a_number_of_an_attempt_that_has_none(results in run()) {
        for format in Format::ALL {
            let text = render_as(&results, format);
            prop_assert!(!text.contains("7777777") && !text.contains("7,777,777"), "{format}: {text}");
        }
    }

    #[test]
    fn a_cell_has_a_number_exactly_if_it_may(results in run()) {
        let csv = render_as(&results, Format::CellsCsv);
        let rows: Vec<csv::StringRecord> =
            csv::Reader::from_reader(csv.as_bytes()).records().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(rows.len(), results.cells.len());
        let mut numbers = 0;
        for (cell, row) in (0..).zip(&rows) {
            let outcomes = spoken(&results, cell);
            let number = shows_number(&outcomes);
            numbers += usize::from(number);
            prop_assert_eq!(!row[2].is_empty(), number, "{:?} of {:?}", row, outcomes);
            prop_assert_eq!(&row[3] != "0", number);
            let mark_says_number = matches!(&row[4], "" | "**");
            prop_assert_eq!(mark_says_number, number);
            if outcomes.contains(&Outcome::Ng) {
                prop_assert_eq!(&row[4], "NG");
            }
        }
        let text = render_as(&results, Format::Text);
        // The table is above the notes, which may tell the median of the trials that passed beside an `ng`.
        let table = text.split("\n[1] ").next().unwrap();
        prop_assert_eq!(table.matches("1,000,00").count(), numbers, "{}", text);
    }

    #[test]
    fn attempts_come_back_from_csv_as_they_were(results in run()) {
        let csv = render_as(&results, Format::Csv);
        let rows: Vec<csv::StringRecord> =
            csv::Reader::from_reader(csv.as_bytes()).records().collect::<Result<_, _>>().unwrap();
        let mut attempts = results.attempts.iter();
        for row in rows.iter().filter(|row| !row[6].is_empty()) {
            let attempt = attempts.next().unwrap();
            prop_assert_eq!(row[1].parse::<u32>().unwrap(), attempt.id.trial.cell);
            prop_assert_eq!(row[5].parse::<u32>().unwrap(), attempt.id.trial.repetition);
            prop_assert_eq!(row[6].parse::<u32>().unwrap(), attempt.id.number);
            prop_assert_eq!(&row[8], attempt.verdict.outcome().as_str());
            prop_assert_eq!(&row[9], attempt.verdict.cause());
            let detail = attempt.verdict.detail();
            if detail.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
                prop_assert_eq!(without_apostrophe(&row[10]), detail);
            }
            let value = row[13].parse::<f64>().ok();
            prop_assert_eq!(value, attempt.verdict.outcome().has_number().then(|| attempt.metrics[0].1));
        }
        prop_assert!(attempts.next().is_none());
        for row in &rows {
            for field in row {
                let formula = field.starts_with(['=', '+', '@', '-']) && field.parse::<f64>().is_err();
                prop_assert!(!formula || field.chars().all(|c| c == '-'), "{field}");
            }
        }
    }

    #[test]
    fn nothing_acts_on_a_terminal_or_a_page(results in run()) {
        for format in Format::ALL {
            let text = render_as(&results, format);
            let bad = text.chars().find(|c| acts(*c) && !(format == Format::Junit && *c == '\t'));
            prop_assert_eq!(bad, None, "{}: {}", format, text);
            let reversed = text.contains('\u{202e}');
            prop_assert!(!reversed);
        }
        let markdown = render_as(&results, Format::Markdown);
        prop_assert!(!markdown.contains("<b>") && !markdown.contains("`x`"), "{markdown}");
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        let tables: Vec<usize> = markdown.lines().filter(|line| line.starts_with("| ")).map(columns).collect();
        prop_assert!(tables.windows(2).all(|pair| pair[0] == pair[1]), "{markdown}");
    }

    #[test]
    fn counts_add_up_and_zero_measured_is_never_success(results in run()) {
        let c = Coverage::of(&results).unwrap();
        prop_assert_eq!(c.cells, c.measured + c.ng + c.error + c.missing + c.excluded);
        prop_assert_eq!(c.trials, c.trials_measured + c.trials_ng + c.trials_error + c.trials_missing);
        let code = exit_status(&results).unwrap().code();
        let all: Vec<Outcome> =
            (0..).zip(&results.cells).filter(|(_, cell)| cell.excluded.is_none()).flat_map(|(at, _)| spoken(&results, at)).collect();
        prop_assert_eq!(code == 1, all.contains(&Outcome::Ng));
        prop_assert_eq!(code == 0, !all.is_empty() && all.iter().all(|outcome| outcome.has_number()));
    }

    #[test]
    fn documents_fit_the_schema(results in run()) {
        let document: serde_json::Value = serde_json::from_str(&render_as(&results, Format::Json)).unwrap();
        prop_assert!(SCHEMA.is_valid(&document));
        for (cell, document) in results.cells.iter().zip(document["cells"].as_array().unwrap()) {
            prop_assert_eq!(document["values"]["hosts"].as_str().unwrap(), &*cell.values[0]);
        }
    }

    #[test]
    fn junit_is_well_formed_and_counts_every_trial(results in run()) {
        let report = quick_junit::Report::deserialize_from_str(&render_as(&results, Format::Junit)).unwrap();
        let c = Coverage::of(&results).unwrap();
        prop_assert_eq!(report.tests, c.trials + c.excluded);
        prop_assert_eq!(report.failures, c.trials_ng);
        prop_assert_eq!(report.errors, c.trials_error);
    }
}
