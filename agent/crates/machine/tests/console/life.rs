//! What happens over time: boots, deaths, repetition, floods.

use std::time::Duration;

use drover_machine::console::{BUG_MAX, Class, Classifier, FATAL_MAX, OTHER_MAX, TRACE_LINES};

use crate::classified;

const BOOT: &str = "[    0.000000] Linux version 6.12.41 (x) #1 SMP\n";

fn classes(classifier: &Classifier) -> Vec<Class> {
    classifier.findings().iter().map(|finding| finding.class).collect()
}

#[test]
fn expect_nothing_when_an_ordinary_boot_is_read() {
    let found = classified(include_bytes!("../testdata/boot.log"));
    assert_eq!(found.findings(), []);
    assert_eq!(found.verdict(), None);
}

#[test]
fn expect_an_unexpected_reboot_when_nobody_asked_for_the_boot() {
    let mut classifier = Classifier::new();
    classifier.expect_boot();
    classifier.push(BOOT.as_bytes(), Duration::ZERO);
    assert_eq!(classes(&classifier), []);
    classifier.push(BOOT.as_bytes(), Duration::from_secs(9));
    assert_eq!(classes(&classifier), [Class::UnexpectedReboot]);
    assert_eq!(classifier.findings()[0].at, Duration::from_secs(9));
    classifier.expect_boot();
    classifier.push(BOOT.as_bytes(), Duration::from_secs(10));
    assert_eq!(classifier.findings()[0].count, 1);
}

#[test]
fn expect_no_boot_when_a_version_is_printed_late() {
    let found =
        classified(format!("{BOOT}[  500.000000] Linux version 6.12.41 (x) is what runs here\n").as_bytes());
    assert_eq!(classes(&found), []);
}

#[test]
fn expect_a_death_of_its_own_when_another_kernel_runs() {
    let death = "[  100.000000] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [httpd:4588]\n";
    let text = format!("{BOOT}{death}{BOOT}[    1.0] Kernel panic - not syncing: Attempted to kill init!\n");
    let found = classified(text.as_bytes());
    assert_eq!(classes(&found), [Class::SoftLockup, Class::UnexpectedReboot, Class::Panic]);
    assert_eq!(found.death().unwrap().class, Class::SoftLockup);
    let follows: Vec<_> = found.findings().iter().map(|finding| finding.follows).collect();
    assert_eq!(follows, [None, Some(0), None]);
}

#[test]
fn expect_one_finding_when_a_report_is_repeated_for_an_hour() {
    let mut classifier = Classifier::new();
    for second in 0..3600 {
        let line = format!("[{second:5}.000000] nf_conntrack: nf_conntrack: table full, dropping packet\n");
        for _ in 0..10 {
            classifier.push(line.as_bytes(), Duration::from_secs(second));
        }
    }
    assert_eq!(classes(&classifier), [Class::TableFull]);
    let finding = &classifier.findings()[0];
    assert_eq!((finding.count, finding.last_at), (36_000, Duration::from_secs(3599)));
}

#[test]
fn expect_room_for_a_death_when_other_reports_fill_the_store() {
    let mut text = String::new();
    let word =
        |n: usize| n.to_string().bytes().map(|byte| char::from(byte - b'0' + b'g')).collect::<String>();
    for n in 0..1000 {
        text += &format!("EXT4-fs error (device {}): x\nBUG: {} is not right\n", word(n), word(n));
    }
    text += "watchdog: CPU3: Watchdog detected hard LOCKUP on cpu 3\n";
    let found = classified(text.as_bytes());
    assert_eq!(found.findings().len(), OTHER_MAX + BUG_MAX + 1);
    assert_eq!(found.dropped(), 2000 - u64::try_from(OTHER_MAX + BUG_MAX).unwrap());
    assert_eq!(classes(&found).last(), Some(&Class::HardLockup));
    assert!(found.findings().len() <= FATAL_MAX + BUG_MAX + OTHER_MAX);
}

#[test]
fn expect_a_bounded_trace_when_a_report_has_no_end() {
    let text =
        format!("x\nwatchdog: BUG: soft lockup - CPU#1 stuck for 26s!\n{}", " frame+0x1/0x2\n".repeat(1000));
    let found = classified(text.as_bytes());
    let excerpt = &found.findings()[0].excerpt;
    assert_eq!((excerpt.before.len(), excerpt.lines.len(), excerpt.cut), (1, TRACE_LINES, true));
}

#[test]
fn expect_findings_at_once_when_the_kernel_falls_silent() {
    let mut classifier = Classifier::new();
    classifier.push(
        b"------------[ cut here ]------------\nBUG: soft lockup - CPU#1 stuck for 26s!",
        Duration::ZERO,
    );
    assert_eq!(classes(&classifier), []);
    classifier.finish(Duration::from_secs(5));
    assert_eq!(classes(&classifier), [Class::SoftLockup]);
    classifier.push(b"\n------------[ cut here ]------------\n", Duration::from_secs(6));
    classifier.finish(Duration::from_secs(7));
    assert_eq!(classes(&classifier), [Class::SoftLockup, Class::WarnMarker]);
    assert_eq!(classifier.bytes(), 114);
}
