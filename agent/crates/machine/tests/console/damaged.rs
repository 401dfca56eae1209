//! However the bytes arrive, the findings are the same; whatever they are, nothing breaks and all stays within bounds.

use std::{fs, time::Duration};

use drover_machine::console::{
    BEFORE_LINES, Classifier, EXCERPT_MAX, KEPT_LINE_MAX, LINE_MAX, THEN_MAX, TRACE_LINES,
};
use proptest::{prelude::*, sample::Index};

use crate::{classified, golden::describe_all};

/// All samples, one after the other.
fn samples() -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testdata/console");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 20);
    paths.iter().flat_map(|path| [fs::read(path).unwrap(), b"\n".to_vec()].concat()).collect()
}

fn invariant_findings_are_bounded(classifier: &Classifier, length: usize) {
    let mut last = 0;
    for (index, finding) in classifier.findings().iter().enumerate() {
        let excerpt = &finding.excerpt;
        assert!(excerpt.before.len() <= BEFORE_LINES && excerpt.lines.len() <= TRACE_LINES);
        let lines = excerpt.before.iter().chain(&excerpt.lines);
        // A byte that is not UTF-8 is three as text.
        assert!(lines.clone().all(|line| line.len() <= 3 * KEPT_LINE_MAX));
        assert!(
            lines.map(String::len).sum::<usize>() <= EXCERPT_MAX + 3 * KEPT_LINE_MAX * (BEFORE_LINES + 1)
        );
        assert!(finding.first_line.len() <= 3 * KEPT_LINE_MAX && finding.then.len() <= THEN_MAX);
        assert!(finding.offset < u64::try_from(length).unwrap() && finding.line >= 1 && finding.count >= 1);
        assert!(finding.follows.is_none_or(|cause| cause < index));
        last = last.max(finding.line);
    }
    assert!(classifier.death().is_none() || classifier.verdict().is_some());
}

fn in_chunks(bytes: &[u8], cuts: &[Index]) -> Classifier {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.sort_unstable();
    let mut classifier = Classifier::new();
    classifier.expect_boot();
    let mut start = 0;
    for end in cuts.into_iter().chain([bytes.len()]) {
        classifier.push(&bytes[start..end], Duration::ZERO);
        start = end;
    }
    classifier.finish(Duration::ZERO);
    classifier
}

#[test]
fn expect_the_same_findings_when_bytes_come_one_by_one() {
    let bytes = samples();
    let whole = classified(&bytes);
    assert!(whole.findings().len() > 40);
    let mut classifier = Classifier::new();
    classifier.expect_boot();
    for byte in &bytes {
        classifier.push(&[*byte], Duration::ZERO);
    }
    classifier.finish(Duration::ZERO);
    assert_eq!(classifier.findings(), whole.findings());
    invariant_findings_are_bounded(&whole, bytes.len());
}

#[test]
fn expect_the_same_classes_when_lines_end_otherwise() {
    let bytes = samples();
    let classes =
        |bytes: &[u8]| classified(bytes).findings().iter().map(|found| found.class).collect::<Vec<_>>();
    let plain = classes(&bytes);
    for end in ["\r\n", "\r", "\r\r\n", "\0\r\n", "\x1b[0m\n"] {
        let changed: Vec<u8> =
            bytes.split(|byte| *byte == b'\n').flat_map(|line| [line, end.as_bytes()].concat()).collect();
        assert_eq!(classes(&changed), plain, "{end:?}");
    }
}

/// A line of a kernel, whole or damaged, or no line of one at all.
fn fragment(samples: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(samples);
    let cut = (line.clone(), any::<Index>(), any::<Index>()).prop_map(|(line, from, to)| {
        let (from, to) = (from.index(line.len() + 1), to.index(line.len() + 1));
        line[from.min(to)..from.max(to)].to_vec()
    });
    let odd = prop::sample::select(vec![
        b"\n".to_vec(),
        b"\r".to_vec(),
        vec![0; 9],
        vec![0xff, 0xfe],
        b"\x1b[".to_vec(),
        b"\x1b]".to_vec(),
        b"[   ".to_vec(),
        b"<".to_vec(),
        b"6,1,".to_vec(),
        b";".to_vec(),
        b"\\x0a".to_vec(),
        vec![b'x'; LINE_MAX],
    ]);
    let noise = prop::collection::vec(any::<u8>(), 0..200);
    let whole = line.prop_map(|line| [line, b"\n".to_vec()].concat());
    prop_oneof![4 => whole, 3 => cut, 2 => odd, 1 => noise]
}

fn sample_lines() -> Vec<Vec<u8>> {
    samples().split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn expect_the_same_findings_when_bytes_are_cut_anywhere(
        fragments in prop::collection::vec(fragment(sample_lines()), 0..60),
        cuts in prop::collection::vec(any::<Index>(), 0..20),
    ) {
        let bytes = fragments.concat();
        let whole = classified(&bytes);
        let cut = in_chunks(&bytes, &cuts);
        prop_assert_eq!(describe_all(&cut), describe_all(&whole));
        prop_assert_eq!(cut.findings(), whole.findings());
        invariant_findings_are_bounded(&whole, bytes.len());
        prop_assert_eq!(whole.bytes(), u64::try_from(bytes.len()).unwrap());
    }
}
