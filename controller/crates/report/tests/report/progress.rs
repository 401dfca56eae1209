//! What `judge_progress` says, whatever the series is.

use std::time::Duration;

use drover_model::{NgCause, Verdict};
use drover_report::{
    drift::Nature,
    soak::{Band, Course, Progress, judge_progress},
};
use drover_store::{Mark, MarkKind};
use proptest::prelude::*;

use crate::fixture::ng;

const START: u64 = 1_000_000;

fn band() -> Band {
    Band::of("rate", "1/s", Nature::Throughput, (0..20).map(|n| 100.0 + f64::from(n % 3)).collect()).unwrap()
}

fn mark(at_unix_us: u64, kind: MarkKind) -> Mark {
    Mark { at_unix_us, kind, text: format!("at {at_unix_us}") }
}

fn course(verdict: Option<&Verdict>) -> Course<'_> {
    Course { started_unix_us: START, ended_unix_us: None, planned: Duration::from_micros(10_000), verdict }
}

fn judge(verdict: Option<&Verdict>, marks: &[Mark], points: &[(u64, f64)]) -> Progress {
    let points = points.iter().map(|(at, value)| (*at, 0, *value));
    judge_progress(&course(verdict), &[band()], marks.to_vec(), points, [])
}

#[test]
fn expect_the_break_to_end_it_unless_it_hung() {
    let marks = [
        mark(START + 10, MarkKind::Begun),
        mark(START + 700, MarkKind::Broke),
        mark(START + 900, MarkKind::Broke),
    ];
    let points = [(START + 400, 100.0), (START + 800, 100.0)];
    let crash = judge(Some(&ng(NgCause::Crash, "x")), &marks, &points);
    assert_eq!((crash.begun_unix_us, crash.held), (START + 10, Duration::from_micros(690)));
    assert_eq!(crash.broke.unwrap().at_unix_us, START + 700);
    for cause in [NgCause::Hang, NgCause::Timeout] {
        assert_eq!(judge(Some(&ng(cause, "x")), &marks, &points).held, Duration::from_micros(390));
    }
    assert_eq!(judge(Some(&ng(NgCause::Hang, "x")), &marks, &[]).held, Duration::ZERO);
}

#[test]
fn expect_the_last_point_when_nothing_marks_the_break() {
    let found = judge(Some(&ng(NgCause::Panic, "Oops")), &[], &[(START + 5, 100.0), (START + 9, 100.0)]);
    assert_eq!((found.held, found.broke.clone().unwrap().at_unix_us), (Duration::from_micros(9), START + 9));
    assert_eq!(found.broke.unwrap().what, "panic: Oops");
}

#[test]
fn expect_the_earliest_sign_when_marks_and_points_tell_of_trouble() {
    let points: Vec<(u64, f64)> =
        (1..=20).map(|n| (START + n * 10, if n >= 15 { 50.0 } else { 100.0 })).collect();
    let broke = mark(START + 200, MarkKind::Broke);
    let sign = |marks: &[Mark]| judge(None, marks, &points).first_bad_sign.unwrap();
    let by_points = sign(std::slice::from_ref(&broke));
    assert_eq!(by_points.at_unix_us, START + 150);
    assert_eq!(by_points.what, "rate was 50 1/s, usual were 101 1/s, at least 96 1/s");
    let earlier = sign(&[mark(START + 149, MarkKind::Kernel), broke.clone()]);
    assert_eq!((earlier.at_unix_us, earlier.what.as_str()), (START + 149, "kernel: at 1000149"));
    assert_eq!(sign(&[mark(START + 150, MarkKind::Stalled), broke.clone()]).what, "stalled: at 1000150");
    let none = [
        mark(START + 1, MarkKind::Note),
        mark(START + 2, MarkKind::HostBack),
        mark(START + 201, MarkKind::Kernel),
    ];
    let late = sign(&[&none[..], &[broke]].concat());
    assert_eq!(late.at_unix_us, START + 150);
}

#[test]
fn expect_no_sign_when_what_was_lost_came_back() {
    let sign = |kinds: &[MarkKind]| {
        let marks: Vec<Mark> = (1..).zip(kinds).map(|(n, kind)| mark(START + n, *kind)).collect();
        judge(None, &marks, &[]).first_bad_sign.map(|sign| sign.at_unix_us - START)
    };
    use MarkKind::{HostBack, HostLost, Resumed, RoundFailed, Stalled};
    assert_eq!(sign(&[HostLost, HostBack, Stalled, Resumed]), None);
    assert_eq!(sign(&[HostLost, HostBack, HostLost]), Some(3));
    assert_eq!(sign(&[HostLost, HostLost, HostBack]), Some(1));
    assert_eq!(sign(&[Stalled, HostBack, HostBack]), Some(1));
    assert_eq!(sign(&[HostLost, HostBack, RoundFailed, Stalled]), Some(3));
}

#[test]
fn expect_sensors_to_be_signs_and_no_progress() {
    let sensors = (1..=50).map(|n| (START + n * 10, 0, if n > 40 { 1.0 } else { 100.0 }));
    let verdict = ng(NgCause::Hang, "x");
    let marks = vec![mark(START + 500, MarkKind::Broke)];
    let found = judge_progress(&course(Some(&verdict)), &[band()], marks, [(START + 300, 9, 1.0)], sensors);
    assert_eq!(found.held, Duration::from_micros(300));
    assert_eq!(found.first_bad_sign.unwrap().at_unix_us, START + 410);
}

#[test]
fn expect_the_end_of_the_attempt_when_nothing_broke() {
    let points = [(START + 5, 100.0)];
    assert_eq!(judge(None, &[], &points).held, Duration::from_micros(5));
    assert_eq!(judge(None, &[mark(START + 7, MarkKind::Note)], &points).held, Duration::from_micros(7));
    let ended = Course { ended_unix_us: Some(START + 20), ..course(Some(&Verdict::Ok)) };
    let held = |marks: Vec<Mark>| judge_progress(&ended, &[], marks, [(START + 5, 0, 1.0)], []).held;
    assert_eq!(held(vec![]), Duration::from_micros(20));
    assert_eq!(held(vec![mark(START + 15, MarkKind::Ended)]), Duration::from_micros(15));
}

fn marks() -> impl Strategy<Value = Vec<Mark>> {
    let one = (0..30_000_u64, prop::sample::select(&MarkKind::ALL[..]));
    prop::collection::vec(one.prop_map(|(at, kind)| mark(START + at, kind)), 0..12)
}

fn points() -> impl Strategy<Value = Vec<(u64, f64)>> {
    let one = (0..30_000_u64, prop_oneof![3 => 96.0..200.0_f64, 1 => 0.0..96.0_f64]);
    prop::collection::vec(one, 0..60).prop_map(|mut list| {
        list.sort_by_key(|(at, _)| *at);
        list.into_iter().map(|(at, value)| (START + at, value)).collect()
    })
}

fn verdict() -> impl Strategy<Value = Option<Verdict>> {
    prop_oneof![
        Just(None),
        Just(Some(Verdict::Ok)),
        Just(Some(ng(NgCause::Crash, "x"))),
        Just(Some(ng(NgCause::Hang, "x"))),
    ]
}

proptest! {
    #[test]
    fn it_never_holds_longer_than_planned_or_beyond_the_break(
        marks in marks(), points in points(), verdict in verdict(),
    ) {
        let found = judge(verdict.as_ref(), &marks, &points);
        prop_assert!(found.held <= Duration::from_micros(10_000));
        let broken = marks.iter().any(|mark| mark.kind == MarkKind::Broke);
        prop_assert_eq!(found.broke.is_some(), broken || matches!(verdict, Some(Verdict::Ng { .. })));
        if let Some(broke) = &found.broke {
            prop_assert!(found.begun_unix_us + u64::try_from(found.held.as_micros()).unwrap() <= broke.at_unix_us);
            prop_assert!(found.first_bad_sign.is_none_or(|sign| sign.at_unix_us <= broke.at_unix_us));
        }
    }

    #[test]
    fn what_is_behind_the_break_changes_nothing(
        marks in marks(), points in points(), verdict in verdict(), more in points(),
    ) {
        let broke = mark(START + 15_000, MarkKind::Broke);
        let marks: Vec<Mark> = marks.into_iter().filter(|m| m.kind != MarkKind::Broke).chain([broke]).collect();
        let begun = marks.iter().find(|m| m.kind == MarkKind::Begun).map_or(START, |m| m.at_unix_us);
        let limit = begun.max(START + 15_000);
        let before: Vec<_> = points.iter().copied().filter(|(at, _)| *at <= limit).collect();
        let behind = more.iter().copied().filter(|(at, _)| *at > limit);
        let all: Vec<_> = before.iter().copied().chain(behind).collect();
        prop_assert_eq!(judge(verdict.as_ref(), &marks, &before), judge(verdict.as_ref(), &marks, &all));
    }

    #[test]
    fn times_that_are_moved_move_the_answer(
        marks in marks(), points in points(), verdict in verdict(), by in 0..1_000_000_u64,
    ) {
        let here = judge(verdict.as_ref(), &marks, &points);
        let moved: Vec<Mark> =
            marks.into_iter().map(|mark| Mark { at_unix_us: mark.at_unix_us + by, ..mark }).collect();
        let points = points.iter().map(|(at, value)| (at + by, 0, *value));
        let there = Course { started_unix_us: START + by, ..course(verdict.as_ref()) };
        let there = judge_progress(&there, &[band()], moved, points, []);
        prop_assert_eq!(there.held, here.held);
        prop_assert_eq!(there.begun_unix_us, here.begun_unix_us + by);
        prop_assert_eq!(there.broke.map(|b| b.at_unix_us), here.broke.map(|b| b.at_unix_us + by));
        let sign = |progress: Option<drover_report::soak::BadSign>| progress.map(|sign| sign.at_unix_us);
        prop_assert_eq!(sign(there.first_bad_sign), sign(here.first_bad_sign).map(|at| at + by));
    }

    #[test]
    fn only_runs_outside_of_the_band_are_signs(values in prop::collection::vec(any::<bool>(), 0..40), broken in any::<bool>()) {
        let points: Vec<(u64, f64)> =
            (1..).zip(&values).map(|(n, good)| (START + n, if *good { 100.0 } else { 10.0 })).collect();
        let marks: Vec<Mark> = broken.then(|| mark(START + 5_000, MarkKind::Broke)).into_iter().collect();
        let found = judge(None, &marks, &points).first_bad_sign.map(|sign| sign.at_unix_us - START);
        let three = values.windows(3).position(|run| run.iter().all(|good| !good));
        let tail = values.iter().rev().take_while(|good| !**good).count();
        let tail = (broken && tail > 0).then(|| values.len() - tail);
        let expected = three.or(tail).map(|place| u64::try_from(place).unwrap() + 1);
        prop_assert_eq!(found, expected);
    }
}
