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
fn expect_the_confidence_to_lose_by_each_value_that_was_called_good() {
    // Three failures in three tries: three clean ones are (1/5)(2/6)(3/7) = 1/35 likely for a bad value. Of nine values, 4, 6 and 7
    // are called good on the way to the last.
    let (over, tried) = search(9, |place, _| if place == 8 { Bad } else { Good });
    let OrderStep::Found { last_good: 7, first_bad: 8, confidence } = over else { panic!("{over:?}") };
    assert!((confidence - (1.0 - 3.0 / 35.0)).abs() < 1e-12, "{confidence}");
    assert_eq!(tried, [3, 0, 0, 0, 3, 0, 3, 3, 3]);
    // Of what was found bad, nothing can be luck.
    let (over, _) = search(9, |place, _| if place > 0 { Bad } else { Good });
    assert_eq!(over, OrderStep::Found { last_good: 0, first_bad: 1, confidence: 1.0 });
}

#[test]
fn expect_each_end_tried_as_often_as_asked_before_anything_else() {
    let policy = Policy { ends: 2, most: 50 };
    let step = |trials: &[(usize, Outcome)]| first_bad(5, policy, trials);
    assert_eq!(step(&[]), OrderStep::Try(0));
    assert_eq!(step(&[(0, Good), (0, Good)]), OrderStep::Try(4));
    assert_eq!(step(&[(0, Good), (0, Good), (4, Bad)]), OrderStep::Try(4));
    // Two failures in two tries ask for three clean ones, of the good end too.
    let ends = [(0, Good), (0, Good), (4, Bad), (4, Bad)];
    assert_eq!(step(&ends), OrderStep::Try(0));
    assert_eq!(step(&[&ends[..], &[(0, Good)]].concat()), OrderStep::Try(2));
    // A failure of the good end counts at once, and one of the bad end among passes is enough.
    assert_eq!(step(&[(0, Good), (0, Bad)]), OrderStep::Stuck(Stuck::GoodEndFails));
    assert_eq!(step(&[(0, Good), (0, Good), (4, Good), (4, Bad)]), OrderStep::Try(0));
    // Nothing is asked of an end that cannot be measured.
    assert_eq!(step(&[(0, Skipped)]), OrderStep::Stuck(Stuck::EndSkipped { good: true }));
    // Once at least, whatever is asked for.
    assert_eq!(first_bad(5, Policy { ends: 0, most: 50 }, &[]), OrderStep::Try(0));
    assert_eq!(first_bad(5, Policy { ends: 0, most: 50 }, &[(0, Good)]), OrderStep::Try(4));
}

#[test]
fn expect_a_value_called_bad_by_one_failure_and_good_by_clean_trials_only() {
    let begin = [(0, Good); 3].into_iter().chain([(4, Bad); 3]).collect::<Vec<_>>();
    let step = |more: &[(usize, Outcome)]| first_bad(5, POLICY, &[&begin[..], more].concat());
    assert_eq!(step(&[(2, Good), (2, Good)]), OrderStep::Try(2));
    assert_eq!(step(&[(2, Good), (2, Good), (2, Good)]), OrderStep::Try(3));
    assert_eq!(step(&[(2, Good), (2, Good), (2, Bad)]), OrderStep::Try(1));
    // What cannot be measured once is passed by, the nearer neighbour comes next; a failure says more than that.
    assert_eq!(step(&[(2, Good), (2, Skipped)]), OrderStep::Try(1));
    assert_eq!(step(&[(2, Skipped), (2, Bad)]), OrderStep::Try(1));
    assert_eq!(step(&[(2, Skipped), (1, Good), (1, Good), (1, Good)]), OrderStep::Try(3));
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

/// The trials of a search, in their order, for the paper's way of ddmin to be compared with.
fn tried_sets(count: usize, outcome: impl Fn(&Toggles) -> Outcome) -> Vec<Vec<usize>> {
    let mut trials: Vec<(Toggles, Outcome)> = Vec::new();
    for _ in 0..1000 {
        let ToggleStep::Try(set) = smallest_set(count, POLICY, &trials) else { break };
        let seen = outcome(&set);
        trials.push((set, seen));
    }
    let mut sets: Vec<Vec<usize>> = trials.into_iter().map(|(set, _)| set.into_iter().collect()).collect();
    // Each once: clean ones are tried several times.
    let mut known = std::collections::BTreeSet::new();
    sets.retain(|set| known.insert(set.clone()));
    sets
}

#[test]
fn expect_the_steps_of_the_paper_when_three_of_eight_changes_act_together() {
    // The example of Zeller and Hildebrandt: changes 1, 7 and 8 of eight make the failure (here from 0 on). Halves, quarters, and what is
    // left without a quarter, down to single ones.
    let fails = |set: &Toggles| if [0, 6, 7].iter().all(|part| set.contains(part)) { Bad } else { Good };
    let sets = tried_sets(8, fails);
    let beginning: [&[usize]; 11] = [
        &[],
        &[0, 1, 2, 3, 4, 5, 6, 7],
        &[0, 1, 2, 3],
        &[4, 5, 6, 7],
        &[0, 1],
        &[2, 3],
        &[4, 5],
        &[6, 7],
        &[2, 3, 4, 5, 6, 7],
        &[0, 1, 4, 5, 6, 7],
        // With three parts left of it; of these [4, 5] and [6, 7] are known already.
        &[0, 1, 6, 7],
    ];
    assert_eq!(sets[..11], beginning);
    assert_eq!(
        search_toggles(8, fails).0,
        ToggleStep::Found { set: Toggles::from([0, 6, 7]), unmeasured: vec![] }
    );
}

#[test]
fn expect_a_set_of_which_none_can_be_taken_out_when_the_outcome_is_not_monotone() {
    // An odd number of the first five: taking two out changes nothing, taking one out does.
    let outcome =
        |set: &Toggles| if set.iter().filter(|toggle| **toggle < 5).count() % 2 == 1 { Bad } else { Good };
    let (over, _) = search_toggles(7, outcome);
    let ToggleStep::Found { set, unmeasured } = over else { panic!("{over:?}") };
    assert!(unmeasured.is_empty() && outcome(&set) == Bad, "{set:?}");
    for toggle in &set {
        let without: Toggles = set.iter().copied().filter(|other| other != toggle).collect();
        assert_eq!(outcome(&without), Good, "{set:?} without {toggle}");
    }
}

#[test]
fn expect_the_one_toggle_at_once_when_there_is_no_other() {
    let (over, trials) = search_toggles(1, |set| if set.is_empty() { Bad } else { Good });
    assert_eq!(over, ToggleStep::Found { set: Toggles::from([0]), unmeasured: vec![] });
    assert_eq!(trials, 6);
}

#[test]
fn expect_the_end_that_fails_known_by_its_first_failure_when_a_fix_is_sought() {
    let step = |trials: &[(&[usize], Outcome)]| {
        let trials: Vec<_> =
            trials.iter().map(|(set, seen)| (set.iter().copied().collect(), *seen)).collect();
        smallest_set(2, POLICY, &trials)
    };
    let (none, all) = ([].as_slice(), [0, 1].as_slice());
    let try_ = |set: &[usize]| ToggleStep::Try(set.iter().copied().collect());
    assert_eq!(step(&[]), try_(none));
    // All off fails: all on is to be the good end, and is tried as often.
    assert_eq!(step(&[(none, Bad)]), try_(all));
    assert_eq!(step(&[(none, Bad), (all, Good), (all, Good), (all, Good)]), try_(none));
    // Both fail, in either order of coming.
    assert_eq!(step(&[(none, Bad), (all, Bad)]), ToggleStep::Stuck(Stuck::GoodEndFails));
    assert_eq!(step(&[(none, Good), (none, Bad), (all, Bad)]), ToggleStep::Stuck(Stuck::GoodEndFails));
    let skipped = step(&[(none, Good), (none, Good), (none, Good), (all, Skipped)]);
    assert!(matches!(skipped, ToggleStep::Stuck(Stuck::EndSkipped { .. })), "{skipped:?}");
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
