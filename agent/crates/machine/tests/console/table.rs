//! Every line of the reference table.

use std::time::Duration;

use drover_machine::console::{Class, Classifier, Finding, Hint, Severity};
use drover_model::NgCause;

use crate::classified;

const TABLE: &str = include_str!("../testdata/console-classes.tsv");

/// A row without the remark that some have in brackets after a wide gap.
fn rows() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    TABLE.lines().skip(1).map(|row| {
        let mut columns = row.splitn(3, '\t');
        let mut column = || columns.next().expect("three columns");
        let (class, severity, line) = (column(), column(), column());
        (class, severity, line.split_once("   (").map_or(line, |(line, _)| line))
    })
}

/// Findings of a console on which the kernel that is expected has started, then a line.
fn findings(line: &str) -> Vec<Finding> {
    let console = format!("Linux version 6.1.0 (x) #1 SMP\nplain\n{line}\nplain\n");
    classified(console.as_bytes()).findings().to_vec()
}

#[test]
fn expect_class_and_severity_of_the_table_when_its_lines_are_read() {
    assert_eq!(rows().count(), 64);
    for (class, severity, line) in rows() {
        for prefix in [
            "",
            "[   12.345678] ",
            "<0>[   12.345678][  T123] ",
            "3,77,1234567,-;",
            "Nov  1 01:02:03 host kernel: ",
        ] {
            let line = match class {
                // A boot is told by the clock, which starts anew.
                "UNEXPECTED_REBOOT" => line.to_owned(),
                _ => format!("{prefix}{line}"),
            };
            let found = findings(&line);
            if class == "ignore" {
                assert!(found.is_empty(), "{line}: {found:?}");
                continue;
            }
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert_eq!(found[0].class.as_str(), class, "{line}");
            // The table has no letter for what is a note or a request.
            let letter = found[0].severity.as_str();
            assert_eq!(if letter == class { "-" } else { letter }, severity, "{line}");
            assert_eq!(found[0].line, 3);
        }
    }
}

#[test]
fn expect_every_class_in_the_table_when_classes_are_listed() {
    for class in Class::ALL {
        assert!(rows().any(|(name, _, _)| name == class.as_str()), "{}", class.as_str());
    }
}

#[test]
fn expect_an_ng_when_a_class_is_fatal_or_a_bug() {
    for class in Class::ALL {
        let decides = matches!(class.hint(), Hint::Ng(_) | Hint::Missing(_));
        let doubts = matches!(class.hint(), Hint::Doubt(_));
        match class.severity() {
            Severity::Fatal | Severity::Bug | Severity::Harness => assert!(decides, "{class:?}"),
            Severity::MaybeBug | Severity::Warning | Severity::Invalid | Severity::Hardware => {
                assert!(doubts, "{class:?}");
            }
            Severity::Note => assert_eq!(class.hint(), Hint::Nothing),
        }
    }
}

#[test]
fn expect_no_hang_when_the_crash_was_our_request() {
    let read = |ours: bool, text: &[u8]| {
        let mut classifier = Classifier::new();
        classifier.expect_sysrq(ours);
        classifier.push(text, Duration::ZERO);
        classifier.finish(Duration::ZERO);
        let verdict = classifier.verdict().map(|(found, hint)| (found.class, hint));
        (classifier.findings()[0].ours, verdict)
    };
    let line = b"sysrq: Trigger a crash\n";
    assert_eq!(read(true, line), (true, None));
    assert_eq!(read(false, line), (false, Some((Class::Sysrq, Hint::Ng(NgCause::Hang)))));
    let whole = include_bytes!("../testdata/console/sysrq-crash.txt");
    assert_eq!(read(true, whole), (true, Some((Class::Sysrq, Hint::Nothing))));
    assert_eq!(read(false, whole), (false, Some((Class::Panic, Hint::Ng(NgCause::Panic)))));
}
