//! Arbitrary and mutated outputs: no panic, and what is read keeps the promises of a measurement.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::CASES;
use drover_measure::{Input, parse};
use drover_model::{Measurement, ParserSpec, Tool};
use proptest::{prelude::*, sample::Index};

fn invariant_measurement_is_sound(measurement: &Measurement) -> Result<(), TestCaseError> {
    let mut names = BTreeSet::new();
    for sample in &measurement.samples {
        prop_assert!(sample.value.is_finite(), "{sample:?}");
        prop_assert!(!sample.name.is_empty() && sample.name.len() <= 128, "{sample:?}");
        prop_assert!(names.insert(&sample.name), "{sample:?} twice");
    }
    prop_assert!(measurement.samples.len() <= 1000);
    prop_assert!(measurement.doubts.len() <= 21);
    for doubt in &measurement.doubts {
        prop_assert!(doubt.detail.chars().count() <= 450);
    }
    let value = |name| measurement.value(name);
    if let (Some(completed), Some(succeeded), Some(failed)) =
        (value("completed"), value("succeeded"), value("failed"))
    {
        // Beyond 2^53 counts are no longer exact.
        if completed < 9e15 {
            prop_assert_eq!(completed, succeeded + failed);
        }
        if succeeded == 0.0 {
            prop_assert!(
                value("goodput_per_s").is_none_or(|rate| rate == 0.0 || value("tx_per_s").is_some())
            );
        }
    }
    Ok(())
}

fn check(spec: &ParserSpec, stdout: &[u8], stderr: &[u8]) -> Result<(), TestCaseError> {
    match parse(spec, &Input { stdout, stderr, output_cut: false }) {
        Ok(measurement) => invariant_measurement_is_sound(&measurement),
        Err(error) => {
            prop_assert!(error.to_string().chars().count() < 1000);
            let source = std::error::Error::source(&error).map(ToString::to_string);
            prop_assert!(source.is_none_or(|source| source.chars().count() < 1000));
            Ok(())
        }
    }
}

#[derive(Clone, Debug)]
enum Mutation {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, u8),
    DropLine(Index),
    RepeatLine(Index),
    SwapLines(Index, Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let tokens = prop::sample::select(vec![
        "0",
        "-1",
        "99999999999999999999",
        "1e308",
        "1e400",
        "nan",
        "-nan%",
        "null",
        ",",
        ".",
        "\"",
        "{",
        "}",
        "[",
        "]",
        "\r",
        "\n",
        "\0",
        "é",
        ": ",
        "%",
        "1,5",
        " ",
    ]);
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        (any::<Index>(), tokens).prop_map(|(at, token)| Mutation::Insert(at, token.as_bytes().to_vec())),
        (any::<Index>(), any::<u8>()).prop_map(|(at, len)| Mutation::Remove(at, len % 16)),
        any::<Index>().prop_map(Mutation::DropLine),
        any::<Index>().prop_map(Mutation::RepeatLine),
        (any::<Index>(), any::<Index>()).prop_map(|(one, other)| Mutation::SwapLines(one, other)),
    ]
}

fn mutate(mut bytes: Vec<u8>, mutation: &Mutation) -> Vec<u8> {
    let lines = |bytes: &[u8]| -> Vec<Vec<u8>> {
        bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect()
    };
    if bytes.is_empty() {
        return bytes;
    }
    match mutation {
        Mutation::Set(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Mutation::Insert(at, token) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, token.iter().copied());
        }
        Mutation::Remove(at, len) => {
            let at = at.index(bytes.len());
            let end = bytes.len().min(at + usize::from(*len));
            bytes.drain(at..end);
        }
        Mutation::DropLine(at) => {
            let mut lines = lines(&bytes);
            lines.remove(at.index(lines.len()));
            bytes = lines.concat();
        }
        Mutation::RepeatLine(at) => {
            let mut lines = lines(&bytes);
            let at = at.index(lines.len());
            lines.insert(at, lines[at].clone());
            bytes = lines.concat();
        }
        Mutation::SwapLines(one, other) => {
            let mut lines = lines(&bytes);
            let (one, other) = (one.index(lines.len()), other.index(lines.len()));
            lines.swap(one, other);
            bytes = lines.concat();
        }
    }
    bytes
}

fn specs() -> Vec<ParserSpec> {
    let paths = [("a", "a"), ("b", "b[0].c"), ("rate", "summary.requestsPerSec")];
    let paths: BTreeMap<_, _> = paths.map(|(name, path)| (name.to_owned(), path.to_owned())).into();
    let mut specs: Vec<_> = Tool::ALL.map(ParserSpec::Tool).to_vec();
    specs.push(ParserSpec::Json(paths));
    specs.push(ParserSpec::Regex(r"(?<a>[-0-9.e]+) req|a=(?<b>\S+)".to_owned()));
    specs.push(ParserSpec::Lines);
    specs
}

proptest! {
    #[test]
    fn mutated_outputs_are_read_soundly_or_refused(
        case: Index,
        mutations in prop::collection::vec(mutation(), 1..6),
        to_all: bool,
    ) {
        let case = case.get(CASES);
        let stdout = mutations.iter().fold(case.stdout.to_vec(), mutate);
        check(&ParserSpec::Tool(case.tool), &stdout, case.stderr)?;
        if to_all {
            for spec in specs() {
                check(&spec, &stdout, case.stderr)?;
            }
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_soundly_or_refused(
        stdout in prop::collection::vec(any::<u8>(), 0..600),
        stderr in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        for spec in specs() {
            check(&spec, &stdout, &stderr)?;
        }
    }

    #[test]
    fn arbitrary_text_of_the_right_kind_is_read_soundly_or_refused(
        stdout in r#"([\[{}\]",: \n=]|a|b|[0-9.,e-]{1,6}|null|requests|Total:|Errors:){0,80}"#,
    ) {
        for spec in specs() {
            check(&spec, stdout.as_bytes(), b"")?;
        }
    }
}
