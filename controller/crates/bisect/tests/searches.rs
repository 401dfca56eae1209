//! Whole searches against known culprits, steady and flaky.

#![expect(clippy::panic, reason = "a test that cannot go on fails")]

use drover_bisect::{OrderStep, Outcome, Policy, Stuck, ToggleStep, Toggles, first_bad, smallest_set};
use proptest::prelude::*;

use Outcome::{Bad, Good, Skipped};

const POLICY: Policy = Policy { ends: 3, most: 50 };

/// Searches along `count` values; gives the last step and how often each place was tried.
fn search(count: usize, mut outcome: impl FnMut(usize, usize) -> Outcome) -> (OrderStep, Vec<usize>) {
    let mut trials = Vec::new();
    let mut tried = vec![0; count];
    for _ in 0..10_000 {
        match first_bad(count, POLICY, &trials) {
            OrderStep::Try(place) => {
                trials.push((place, outcome(place, tried[place])));
                tried[place] += 1;
            }
            over => return (over, tried),
        }
    }
    panic!("the search does not end: {tried:?}");
}

fn search_toggles(count: usize, outcome: impl Fn(&Toggles) -> Outcome) -> (ToggleStep, usize) {
    let mut trials = Vec::new();
    for _ in 0..100_000 {
        match smallest_set(count, POLICY, &trials) {
            ToggleStep::Try(set) => {
                let seen = outcome(&set);
                trials.push((set, seen));
            }
            over => return (over, trials.len()),
        }
    }
    panic!("the search does not end");
}

#[test]
fn expect_few_trials_when_a_failure_is_steady() {
    let (over, tried) = search(1000, |place, _| if place >= 617 { Bad } else { Good });
    let OrderStep::Found { last_good: 616, first_bad: 617, confidence } = over else { panic!("{over:?}") };
    // Ten halvings, of which some take three clean trials.
    assert!(tried.iter().sum::<usize>() <= 6 + 10 * 3, "{}", tried.iter().sum::<usize>());
    assert!((0.7..1.0).contains(&confidence), "{confidence}");
}

#[test]
fn expect_the_place_between_named_when_values_cannot_be_measured() {
    let (over, tried) = search(9, |place, _| match place {
        4 | 5 => Skipped,
        6.. => Bad,
        _ => Good,
    });
    assert!(matches!(over, OrderStep::Found { last_good: 3, first_bad: 6, .. }), "{over:?}");
    assert!(tried[4] <= 1 && tried[5] <= 1, "{tried:?}");
}

#[test]
fn expect_the_reason_when_an_end_is_not_what_it_should_be() {
    let stuck = |outcome: fn(usize, usize) -> Outcome| search(5, outcome).0;
    assert_eq!(stuck(|_, _| Bad), OrderStep::Stuck(Stuck::GoodEndFails));
    assert_eq!(stuck(|_, _| Good), OrderStep::Stuck(Stuck::BadEndPasses));
    assert_eq!(
        stuck(|place, _| if place == 4 { Skipped } else { Good }),
        OrderStep::Stuck(Stuck::EndSkipped { good: false })
    );
    assert_eq!(first_bad(1, POLICY, &[]), OrderStep::Stuck(Stuck::BadEndPasses));
    let policy = Policy { ends: 3, most: 5 };
    let rare = [(0, Good), (0, Good), (0, Good), (4, Good), (4, Bad), (4, Good)];
    assert_eq!(first_bad(5, policy, &rare), OrderStep::Stuck(Stuck::TooFlaky { failures: 1, trials: 3 }));
}

#[test]
fn expect_more_clean_trials_when_the_bad_end_fails_only_now_and_then() {
    // Bad values fail in every second trial.
    let (over, tried) = search(16, |place, time| if place >= 11 && time % 2 == 1 { Bad } else { Good });
    assert!(matches!(over, OrderStep::Found { first_bad: 11, .. }), "{over:?}");
    assert!(tried[10] > 3, "{tried:?}");
}

#[test]
fn expect_the_pair_when_two_toggles_change_the_outcome_together() {
    let fixes = |set: &Toggles| if set.contains(&3) && set.contains(&6) { Good } else { Bad };
    let (over, trials) = search_toggles(8, fixes);
    assert_eq!(over, ToggleStep::Found { set: Toggles::from([3, 6]), unmeasured: vec![] });
    assert!(trials < 80, "{trials}");
    let breaks = |set: &Toggles| if set.contains(&3) && set.contains(&6) { Bad } else { Good };
    assert_eq!(
        search_toggles(8, breaks).0,
        ToggleStep::Found { set: Toggles::from([3, 6]), unmeasured: vec![] }
    );
}

#[test]
fn expect_what_could_not_be_told_named_when_sets_cannot_be_measured() {
    let outcome = |set: &Toggles| match set.len() {
        1 => Skipped,
        _ if set.contains(&0) => Bad,
        _ => Good,
    };
    let (over, _) = search_toggles(4, outcome);
    let ToggleStep::Found { set, unmeasured } = over else { panic!("{over:?}") };
    assert!(set.contains(&0) && set.len() == 2, "{set:?}");
    assert_eq!(unmeasured.len(), 2);
}

#[test]
fn expect_the_reason_when_toggles_change_nothing() {
    assert_eq!(search_toggles(3, |_| Good).0, ToggleStep::Stuck(Stuck::BadEndPasses));
    assert_eq!(search_toggles(3, |_| Bad).0, ToggleStep::Stuck(Stuck::GoodEndFails));
    assert_eq!(search_toggles(0, |_| Good).0, ToggleStep::Stuck(Stuck::BadEndPasses));
}

proptest! {
    #[test]
    fn expect_the_first_bad_value_wherever_it_is(count in 2usize..300, at in any::<prop::sample::Index>()) {
        let first = 1 + at.index(count - 1);
        let (over, _) = search(count, |place, _| if place >= first { Bad } else { Good });
        let found = matches!(over, OrderStep::Found { last_good, first_bad, .. } if (last_good, first_bad) == (first - 1, first));
        prop_assert!(found, "{:?}", over);
    }

    #[test]
    fn expect_the_same_step_whatever_the_order_of_the_journal(count in 2usize..50, seed in any::<u64>()) {
        let first = 1 + usize::try_from(seed % u64::try_from(count - 1).unwrap_or(1)).unwrap_or(0);
        let mut trials = Vec::new();
        while let OrderStep::Try(place) = first_bad(count, POLICY, &trials) {
            let mut reversed = trials.clone();
            reversed.reverse();
            prop_assert_eq!(first_bad(count, POLICY, &reversed), OrderStep::Try(place));
            trials.push((place, if place >= first { Bad } else { Good }));
        }
    }

    #[test]
    fn expect_the_culprits_and_nothing_else_when_they_act_alone_or_together(
        count in 1usize..20,
        culprits in prop::collection::btree_set(0usize..20, 1..4),
        together in any::<bool>(),
        fix in any::<bool>(),
    ) {
        let culprits: Toggles = culprits.into_iter().map(|toggle| toggle % count).collect();
        let acts = |set: &Toggles| if together { culprits.is_subset(set) } else { !culprits.is_disjoint(set) };
        let (over, _) = search_toggles(count, |set| if acts(set) == fix { Good } else { Bad });
        let ToggleStep::Found { set, unmeasured } = over else { return Err(TestCaseError::fail(format!("{over:?}"))) };
        prop_assert!(unmeasured.is_empty());
        if together {
            prop_assert_eq!(set, culprits);
        } else {
            prop_assert!(set.len() == 1 && set.is_subset(&culprits), "{:?}", set);
        }
    }
}
