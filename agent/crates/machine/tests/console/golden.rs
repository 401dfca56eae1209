//! Every sample in `testdata` against all that is found in it.

use std::{fmt::Write, fs};

use drover_machine::console::{Classifier, Finding};

use crate::classified;

/// All of a finding that a test should notice when it changes.
fn describe(finding: &Finding) -> String {
    let mut text =
        format!("{} {} at line {}", finding.severity.as_str(), finding.class.as_str(), finding.line);
    write!(text, ", byte {}, {:?}", finding.offset, finding.hint()).unwrap();
    if let Some(time) = finding.kernel_time {
        write!(text, ", kernel time {time:?}").unwrap();
    }
    if finding.count > 1 {
        write!(text, ", {} times", finding.count).unwrap();
    }
    if let Some(cause) = finding.follows {
        write!(text, ", follows {cause}").unwrap();
    }
    for (class, line) in &finding.then {
        write!(text, ", then {} at line {line}", class.as_str()).unwrap();
    }
    assert!(finding.complete);
    let excerpt = &finding.excerpt;
    writeln!(text, "\n  {}", finding.first_line).unwrap();
    let cut = if excerpt.cut { ", cut" } else { "" };
    writeln!(text, "  {} lines after {} others{cut}", excerpt.lines.len(), excerpt.before.len()).unwrap();
    for line in [excerpt.lines.first(), excerpt.lines.last()].into_iter().flatten() {
        writeln!(text, "  | {line}").unwrap();
    }
    text
}

pub(crate) fn describe_all(classifier: &Classifier) -> String {
    let mut text = String::new();
    for (index, finding) in classifier.findings().iter().enumerate() {
        write!(text, "{index}: {}", describe(finding)).unwrap();
    }
    let named = |finding: &Finding| format!("{} at line {}", finding.class.as_str(), finding.line);
    writeln!(text, "death: {:?}", classifier.death().map(named)).unwrap();
    writeln!(text, "verdict: {:?}", classifier.verdict().map(|(found, hint)| (named(found), hint))).unwrap();
    text
}

#[test]
fn expect_exactly_these_findings_when_a_sample_is_read() {
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true, snapshot_path => "../snapshots" }, {
        insta::glob!("../testdata/console", "*.txt", |path| {
            insta::assert_snapshot!(describe_all(&classified(&fs::read(path).unwrap())));
        });
    });
}
