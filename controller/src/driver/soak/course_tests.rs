//! Courses of soaks that are written down report by report.

use std::{sync::Arc, time::Duration};

use drover_matrix::{Options, Source, parse};
use drover_model::{
    AttemptId, EndKind, OutputSummary, RoundEnd, TaskEvent, TaskEventKind, TaskId, Usage, Verdict,
};
use drover_store::MarkKind;
use proptest::prelude::*;

use super::course::{Course, Finding, OnDisk};

const SECOND: u64 = 1_000_000;
const BEGUN: u64 = 1_000_000 * SECOND;

/// Two clients that run in rounds; `soak` is added to its keys.
fn course(clients: u32, soak: &str, on_disk: OnDisk) -> Course {
    let text = format!(
        "
version: 1
name: m
axes: {{ n: [1] }}
roles:
  server: {{ run: [serve], ready: {{ log: up }} }}
  client:
    after: server
    instances: {clients}
    run: [load]
    measure: {{ regex: 'rate (?<rate>[0-9]+) failed (?<failed>[0-9]+)' }}
metrics:
  rate: {{ unit: 1/s, better: higher, primary: true, across: sum }}
  failed: {{ unit: requests, better: lower, across: sum, must: '== 0' }}
soak: {{ for: 1h, every: 10s, stall: 30s{soak} }}
"
    );
    let matrix = parse(&Source::new("m.yaml", text), &Options::default());
    let matrix = Arc::new(matrix.unwrap_or_else(|found| panic!("{found}")));
    let tasks = (0..clients).map(task).collect();
    Course::new(&matrix, *matrix.soak().unwrap(), tasks, on_disk)
}

fn task(instance: u32) -> TaskId {
    let attempt: AttemptId = "00000000-0000-7000-8000-000000000001.c0r1a1".parse().unwrap();
    TaskId { attempt, role: "client".parse().unwrap(), instance }
}

fn event(instance: u32, seq: u64, after: u64, kind: TaskEventKind) -> TaskEvent {
    TaskEvent { seq, task: task(instance), at_unix_us: BEGUN + after * SECOND, kind }
}

fn begun(instance: u32, clients: u32) -> TaskEvent {
    let started = TaskEventKind::Started { pid: 1, cpus: "0".to_owned() };
    event(instance, 1, 0, if clients > 1 { TaskEventKind::Released { late_us: 0 } } else { started })
}

/// A round of ten seconds that ended so long after the begin, and wrote this.
fn round(instance: u32, seq: u64, after: u64, kind: EndKind, text: &str) -> TaskEvent {
    let stdout = OutputSummary { written: 1, kept: 1, inline: Some(text.into()) };
    let end = RoundEnd {
        kind,
        wall: Duration::from_secs(10),
        usage: Usage::default(),
        started_unix_us: BEGUN,
        stdout,
        stderr: OutputSummary::default(),
        cut: false,
    };
    event(instance, seq, after, TaskEventKind::Round { number: seq - 1, end })
}

fn good(instance: u32, seq: u64, after: u64) -> TaskEvent {
    round(instance, seq, after, EndKind::Exited(0), &format!("rate {after} failed 0"))
}

/// The findings in short: `10 point 3: rate=20 failed=0`, times in seconds since the begin.
fn see(course: &mut Course, events: &[TaskEvent]) -> Vec<String> {
    let host = "h".parse().unwrap();
    let mut findings = Vec::new();
    for event in events {
        let load = course.load_of(&event.task).unwrap();
        course.report(load, &host, event, event.at_unix_us, &mut findings);
    }
    short(findings)
}

fn short(findings: Vec<Finding>) -> Vec<String> {
    let after = |at: u64| (at - BEGUN) / SECOND;
    let line = |finding| match finding {
        Finding::Point { at_unix_us, round, values } => {
            let values: Vec<String> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
            Some(format!("{} point {round}: {}", after(at_unix_us), values.join(" ")))
        }
        Finding::Mark { at_unix_us, kind, text } => {
            Some(format!("{} {kind} {text}", after(at_unix_us)).trim_end().to_owned())
        }
        Finding::Value { .. } => None,
        Finding::Failed { at_unix_us, verdict } => {
            Some(format!("{} {} {}", after(at_unix_us), verdict.outcome().as_str(), verdict.cause()))
        }
    };
    findings.into_iter().filter_map(line).collect()
}

#[test]
fn expect_a_point_for_each_round_of_one_client() {
    let mut course = course(1, "", OnDisk::default());
    let seen = see(&mut course, &[begun(0, 1), good(0, 2, 10), good(0, 3, 20), good(0, 3, 20)]);
    assert_eq!(seen, ["0 begun", "10 point 1: rate=10 failed=0", "20 point 2: rate=20 failed=0"]);
    assert_eq!((course.points(), course.failed_rounds()), (2, None));
}

#[test]
fn expect_the_sum_of_both_and_every_round_judged_when_a_client_is_behind() {
    let mut course = course(2, "", OnDisk::default());
    let bad = |seq, after| round(0, seq, after, EndKind::Exited(0), "rate 1 failed 3");
    let seen = see(&mut course, &[begun(0, 2), begun(1, 2), good(0, 2, 10), good(1, 2, 11), bad(3, 20)]);
    assert_eq!(seen, ["0 begun", "11 point 2: rate=21 failed=0"]);
    // The one that is behind comes: what the other one found meanwhile is judged, and then both together.
    let seen = see(&mut course, &[good(0, 4, 30), good(1, 3, 31), good(0, 5, 40)]);
    assert_eq!(seen, ["30 round-failed failed = 3 requests, must be == 0", "31 point 5: rate=61 failed=0"]);
}

#[test]
fn expect_what_waits_to_be_judged_when_all_is_over() {
    let mut course = course(2, "", OnDisk::default());
    see(&mut course, &[begun(0, 2), begun(1, 2), good(0, 2, 10), good(1, 2, 11)]);
    let bad = round(0, 3, 20, EndKind::Exited(1), "");
    assert_eq!(see(&mut course, &[bad]), ["11 point 2: rate=21 failed=0"]);
    let mut findings = Vec::new();
    course.finish(&mut findings);
    assert_eq!(short(findings), ["20 round-failed client.0 ended with status 1"]);
    assert!(course.failed_rounds().unwrap().starts_with("1 round failed: client.0 ended with status 1"));
}

#[test]
fn expect_the_end_at_the_first_failure_only_where_it_is_asked_for() {
    let failing = round(0, 3, 20, EndKind::Exited(0), "rate 1 failed 3");
    for (until, failed) in [("", 0), (", until: first-ng", 1)] {
        let mut course = course(1, until, OnDisk::default());
        let seen = see(&mut course, &[begun(0, 1), good(0, 2, 10), failing.clone()]);
        let count = seen.iter().filter(|line| *line == "20 ng check-failed").count();
        assert_eq!(count, failed, "{seen:?}");
        assert!(seen.iter().any(|line| line == "20 round-failed failed = 3 requests, must be == 0"));
    }
}

#[test]
fn expect_our_fault_when_nothing_worked_before_and_theirs_when_it_did() {
    let cases = [
        (EndKind::Exited(1), "", "error script", "ng check-failed"),
        (EndKind::Exited(0), "nothing", "error parse", "ng check-failed"),
        (EndKind::Deadline, "", "ng timeout", "ng timeout"),
    ];
    for (kind, text, first, later) in cases {
        let mut fresh = course(1, ", until: first-ng", OnDisk::default());
        let seen = see(&mut fresh, &[begun(0, 1), round(0, 2, 10, kind.clone(), text)]);
        assert_eq!(seen.last().unwrap(), &format!("10 {first}"));
        let mut worked = course(1, ", until: first-ng", OnDisk::default());
        let seen = see(&mut worked, &[begun(0, 1), good(0, 2, 10), round(0, 3, 20, kind, text)]);
        assert_eq!(seen.last().unwrap(), &format!("20 {later}"));
    }
}

#[test]
fn expect_a_hang_at_the_time_that_the_agent_saw_it() {
    let mut course = course(1, "", OnDisk::default());
    let stalled = TaskEventKind::Stalled { for_: Duration::from_secs(30), what: "futex_wait".to_owned() };
    let seen = see(&mut course, &[begun(0, 1), good(0, 2, 10), event(0, 3, 42, stalled), good(0, 4, 50)]);
    assert!(
        seen[2].starts_with("42 stalled client made no progress for 30s") && seen[2].contains("futex_wait")
    );
    assert_eq!((seen[3].as_str(), seen[4].as_str()), ("42 ng hang", "50 resumed client goes on"));
}

#[test]
fn expect_no_point_and_no_failure_when_a_round_is_cut_off_or_its_output_dropped() {
    let mut course = course(1, ", until: first-ng", OnDisk::default());
    let mut dropped = good(0, 3, 20);
    if let TaskEventKind::Round { end, .. } = &mut dropped.kind {
        (end.cut, end.stdout.inline) = (true, None);
    }
    let cut_off = round(0, 4, 30, EndKind::Stopped(None), "");
    let seen = see(&mut course, &[begun(0, 1), good(0, 2, 10), dropped, cut_off]);
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(seen[2].starts_with("20 note what round 2 of client found was dropped"));
}

#[test]
fn expect_only_what_is_not_on_disk_when_another_controller_reads_it_all_again() {
    let events: Vec<TaskEvent> = (2..8)
        .map(|seq| match seq {
            3 => round(0, 3, 20, EndKind::Exited(1), ""),
            _ => good(0, seq, (seq - 1) * 10),
        })
        .collect();
    let all = see(&mut course(1, "", OnDisk::default()), &[&[begun(0, 1)], events.as_slice()].concat());
    let on_disk = OnDisk {
        begun_unix_us: Some(BEGUN),
        last_point: Some((4, BEGUN + 40 * SECOND)),
        last_marks: [(MarkKind::Begun, BEGUN), (MarkKind::RoundFailed, BEGUN + 20 * SECOND)].into(),
    };
    let mut second = course(1, "", on_disk);
    let rest = see(&mut second, &[&[begun(0, 1)], events.as_slice()].concat());
    assert_eq!(
        all.iter().skip_while(|line| !line.starts_with("50 ")).collect::<Vec<_>>(),
        rest.iter().collect::<Vec<_>>()
    );
    assert_eq!(rest.len(), 2);
    assert!(second.failed_rounds().unwrap().starts_with("1 round failed"), "it counts all the same");
}

proptest! {
    #[test]
    fn what_is_found_does_not_depend_on_when_hosts_are_heard(
        first in 0_usize..20, steps in prop::collection::vec((1_u64..15, 1_u64..15, 0_u64..8), 1..20),
    ) {
        let (mut at, mut lanes) = ((0, 0), [vec![begun(0, 2)], vec![begun(1, 2)]]);
        for (seq, (a, b, kind)) in (2..).zip(&steps) {
            at = (at.0 + a, at.1 + b);
            // Two at one time are in the order of their tasks if they are there.
            lanes[0].push(if *kind == 1 { round(0, seq, at.0 * 2, EndKind::Exited(1), "") } else { good(0, seq, at.0 * 2) });
            lanes[1].push(good(1, seq, at.1 * 2 + 1));
        }
        let finish = |mut course: Course, events: &[TaskEvent]| {
            let mut found = see(&mut course, events);
            let mut rest = Vec::new();
            course.finish(&mut rest);
            found.extend(short(rest));
            (found, course.failed_rounds())
        };
        let one_after_the_other = [lanes[0].clone(), lanes[1].clone()].concat();
        let [a, b] = &lanes;
        let split = first.min(a.len());
        let mixed = [&a[..split], b, &a[split..]].concat();
        // Rounds of two seconds' grid are told as ten seconds long, which only sets the clock.
        prop_assert_eq!(
            finish(course(2, "", OnDisk::default()), &one_after_the_other),
            finish(course(2, "", OnDisk::default()), &mixed)
        );
    }
}

#[test]
fn expect_the_first_verdict_to_name_the_time() {
    let mut course = course(1, ", until: first-ng", OnDisk::default());
    let host = "h".parse().unwrap();
    let mut findings = Vec::new();
    for event in [begun(0, 1), good(0, 2, 10), round(0, 3, 20, EndKind::Signaled(9), "")] {
        course.report(0, &host, &event, event.at_unix_us, &mut findings);
    }
    let detail = findings.iter().find_map(|finding| match finding {
        Finding::Failed { verdict: Verdict::Ng { detail, .. }, .. } => Some(detail.clone()),
        _ => None,
    });
    assert_eq!(detail.unwrap(), "client was killed by signal 9 (after 20s)");
}
