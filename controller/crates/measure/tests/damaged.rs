//! Outputs that are cut, changed, of another locale, or no outputs at all: an error or the truth, never a wrong number.

mod common;

use std::collections::BTreeSet;

use common::{CASES, Case};
use drover_measure::{Input, ParseError, parse};
use drover_model::{Measurement, ParserSpec, Tool};

/// Whatever is read from a damaged output must be what is read from the whole one.
#[track_caller]
fn assert_no_contradiction(case: &Case, whole: Option<&Measurement>, damaged: &[u8], how: &str) {
    let Ok(found) = case.parse_changed(damaged) else { return };
    let name = case.name;
    assert!(whole.is_some(), "{name} {how}: figures from nothing: {found:?}");
    for sample in &found.samples {
        let truth = whole.and_then(|whole| whole.samples.iter().find(|known| known.name == sample.name));
        assert_eq!(Some(sample), truth, "{name} {how}");
    }
}

/// Every boundary of lines, and some places inside of them.
fn cuts(stdout: &[u8]) -> BTreeSet<usize> {
    let places = |wanted: &'static [u8]| {
        let found = stdout.iter().enumerate().filter(|(_, byte)| wanted.contains(byte));
        found.map(|(at, _)| at).collect::<Vec<_>>()
    };
    let ends = places(b"\n");
    let mut cuts: BTreeSet<usize> = ends.iter().map(|end| end + 1).collect();
    cuts.extend(ends.iter().take(40).flat_map(|end| [end.saturating_sub(1), *end]));
    cuts.extend(places(b",.:}").iter().step_by(3).take(40));
    cuts.extend([0, stdout.len()]);
    cuts
}

#[test]
fn expect_no_contradiction_when_an_output_is_cut_anywhere() {
    for case in CASES {
        let whole = case.parse().ok();
        for cut in cuts(case.stdout) {
            assert_no_contradiction(case, whole.as_ref(), &case.stdout[..cut], &format!("cut at {cut}"));
        }
    }
}

#[test]
fn expect_no_contradiction_when_the_beginning_of_an_output_is_lost() {
    for case in CASES {
        let whole = case.parse().ok();
        for cut in cuts(case.stdout).into_iter().step_by(4) {
            assert_no_contradiction(case, whole.as_ref(), &case.stdout[cut..], &format!("from {cut}"));
        }
    }
}

#[test]
fn expect_the_same_measurement_when_lines_end_with_a_carriage_return() {
    for case in CASES {
        let mut changed = Vec::new();
        for &byte in case.stdout {
            if byte == b'\n' {
                changed.push(b'\r');
            }
            changed.push(byte);
        }
        match (case.parse(), case.parse_changed(&changed)) {
            (Ok(plain), Ok(found)) => assert_eq!(found, plain, "{}", case.name),
            (Err(_), Err(_)) => {}
            (plain, found) => panic!("{}: {plain:?} but with CRLF {found:?}", case.name),
        }
    }
}

/// Applies `change` to every byte that has neighbours.
fn with_neighbours(bytes: &[u8], change: impl Fn(u8, u8, u8) -> Vec<u8>) -> Vec<u8> {
    let neighbour = |at: Option<usize>| at.and_then(|at| bytes.get(at)).copied().unwrap_or(b' ');
    let changed =
        |(at, byte): (usize, &u8)| change(neighbour(at.checked_sub(1)), *byte, neighbour(Some(at + 1)));
    bytes.iter().enumerate().flat_map(changed).collect()
}

#[test]
fn expect_an_error_or_the_truth_when_numbers_have_a_decimal_comma() {
    let mut errors = 0;
    for case in CASES {
        let localised = with_neighbours(case.stdout, |before, byte, after| {
            let decimal = byte == b'.' && before.is_ascii_digit() && after.is_ascii_digit();
            vec![if decimal { b',' } else { byte }]
        });
        assert_no_contradiction(case, case.parse().ok().as_ref(), &localised, "with decimal commas");
        errors += usize::from(case.parse_changed(&localised).is_err());
    }
    assert!(errors > CASES.len() / 2, "{errors} errors");
}

#[test]
fn expect_an_error_or_the_truth_when_digits_are_grouped() {
    for group in [",", "'", "\u{a0}", " "] {
        for case in CASES {
            let mut grouped = Vec::new();
            for (at, &byte) in case.stdout.iter().enumerate() {
                let digits_behind = case.stdout[at..].iter().take_while(|b| b.is_ascii_digit()).count();
                let before =
                    at.checked_sub(1).and_then(|at| case.stdout.get(at)).is_some_and(u8::is_ascii_digit);
                // Not in the fraction of a number.
                let fraction = case.stdout[..at].iter().rev().find(|b| !b.is_ascii_digit()) == Some(&b'.');
                if before
                    && digits_behind % 3 == 0
                    && digits_behind > 0
                    && !fraction
                    && group != " "
                    && group != "."
                {
                    grouped.extend_from_slice(group.as_bytes());
                }
                grouped.push(byte);
            }
            assert_no_contradiction(
                case,
                case.parse().ok().as_ref(),
                &grouped,
                &format!("with digits grouped by {group:?}"),
            );
        }
    }
}

#[test]
fn expect_an_error_that_says_so_when_an_output_is_empty_binary_or_foreign() {
    let binary: Vec<u8> = (0..4096_u32).map(|i| u8::try_from(i * 7 % 256).unwrap()).collect();
    let foreign = b"usage: something else\nno figures here\n".as_slice();
    for tool in Tool::ALL {
        for stdout in [
            b"".as_slice(),
            b"\n\n",
            b"\0\0\0",
            &binary,
            b"\xff\xfe{\0",
            foreign,
            b"{}",
            b"[]",
            b"{",
            b"---\n...\n",
        ] {
            let spec = ParserSpec::Tool(tool);
            let error = parse(&spec, &Input { stdout, stderr: b"", output_cut: false }).unwrap_err();
            let message = error.to_string();
            assert!(message.contains(tool.as_str()), "{message}");
            assert!(message.chars().count() < 700, "{message}");
            assert!(!message.chars().any(char::is_control), "{message:?}");
        }
    }
}

#[test]
fn expect_the_tools_own_words_when_it_failed_without_a_figure() {
    let refused = b"connect: Connection refused (111)\n".as_slice();
    for tool in Tool::ALL {
        let spec = ParserSpec::Tool(tool);
        for (stdout, stderr) in [(b"".as_slice(), refused), (refused, b"".as_slice())] {
            match parse(&spec, &Input { stdout, stderr, output_cut: false }) {
                Err(ParseError::ToolFailed { said, .. }) => assert!(said.contains("Connection refused")),
                other => panic!("{}: {other:?}", tool.as_str()),
            }
        }
    }
}

#[test]
fn expect_a_doubt_when_the_middle_of_the_output_was_cut_out() {
    let case = CASES.iter().find(|case| case.name == "ab_ok.txt").unwrap();
    let input = Input { stdout: case.stdout, stderr: b"", output_cut: true };
    let measurement = parse(&ParserSpec::Tool(Tool::Ab), &input).unwrap();
    assert_eq!(
        measurement.doubts.iter().map(|doubt| doubt.kind.as_str()).collect::<Vec<_>>(),
        ["output-cut"]
    );
}

#[test]
fn expect_the_last_of_two_reports_with_a_doubt_when_a_tool_ran_twice() {
    let get = |name: &str| CASES.iter().find(|case| case.name == name).unwrap();
    let (first, second) = (get("ab_500.txt"), get("ab_ok.txt"));
    let both = [first.stdout, second.stdout].concat();
    let measurement: Measurement = second.parse_changed(&both).unwrap();
    assert_eq!(measurement.value("succeeded"), Some(500.0));
    assert!(measurement.doubts.first().unwrap().detail.contains("2 reports"));
}
