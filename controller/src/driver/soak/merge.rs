//! Puts what several tasks report into one order: that of the time since their load began. The order depends on the reports
//! alone, not on when they arrive, so that another controller that reads them again comes to the same. Pure.

use std::{collections::VecDeque, time::Duration};

/// Reports that wait for others at most. A host that is away for so long that more come is not waited for.
const MOST_WAITING: usize = 100_000;

/// Reports of several tasks.
#[derive(Debug)]
pub struct Merge<T> {
    lanes: Vec<Lane<T>>,
    waiting: usize,
}

#[derive(Debug)]
struct Lane<T> {
    queue: VecDeque<(Duration, T)>,
    /// Nothing earlier than this comes any more.
    seen: Duration,
    over: bool,
}

impl<T> Merge<T> {
    /// Of so many tasks.
    pub fn new(lanes: usize) -> Self {
        let lane = |_| Lane { queue: VecDeque::new(), seen: Duration::ZERO, over: false };
        Self { lanes: (0..lanes).map(lane).collect(), waiting: 0 }
    }

    /// A task reports something that happened at a time since its begin.
    pub fn push(&mut self, lane: usize, at: Duration, item: T) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.seen = lane.seen.max(at);
            lane.queue.push_back((lane.seen, item));
            self.waiting += 1;
        }
    }

    /// Nothing more comes of a task.
    pub fn close(&mut self, lane: usize) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.over = true;
        }
    }

    /// Nothing more comes of any task.
    pub fn close_all(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.over = true);
    }

    /// The next report, with its task, once nothing earlier can come.
    pub fn next(&mut self) -> Option<(usize, Duration, T)> {
        let heads = self.lanes.iter().enumerate();
        let (at, place) = heads.filter_map(|(place, lane)| Some((lane.queue.front()?.0, place))).min()?;
        let may_be_earlier = |(other, lane): (usize, &Lane<T>)| {
            other != place && lane.queue.is_empty() && !lane.over && lane.seen <= at
        };
        if self.waiting <= MOST_WAITING && self.lanes.iter().enumerate().any(may_be_earlier) {
            return None;
        }
        let (at, item) = self.lanes.get_mut(place)?.queue.pop_front()?;
        self.waiting -= 1;
        Some((place, at, item))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn all(merge: &mut Merge<u32>) -> Vec<(usize, u32)> {
        std::iter::from_fn(|| merge.next()).map(|(lane, _, item)| (lane, item)).collect()
    }

    #[test]
    fn expect_a_report_to_wait_until_the_others_are_past_it() {
        let mut merge = Merge::new(2);
        let second = Duration::from_secs;
        merge.push(0, second(10), 1);
        merge.push(0, second(20), 2);
        assert_eq!(all(&mut merge), []);
        merge.push(1, second(15), 3);
        assert_eq!(all(&mut merge), [(0, 1), (1, 3)]);
        merge.push(1, second(30), 4);
        assert_eq!(all(&mut merge), [(0, 2)]);
        merge.close(0);
        assert_eq!(all(&mut merge), [(1, 4)]);
    }

    #[test]
    fn expect_no_more_waiting_when_too_many_wait() {
        let mut merge = Merge::new(2);
        for at in 0..=MOST_WAITING {
            merge.push(0, Duration::from_millis(u64::try_from(at).unwrap()), 0_u32);
        }
        assert_eq!(all(&mut merge).len(), 1);
    }

    proptest! {
        #[test]
        fn the_order_is_the_same_whenever_reports_arrive(
            times in vec(vec(1_u64..50, 0..20), 1..4), picks in vec(any::<prop::sample::Index>(), 0..100),
        ) {
            let mut number = 0;
            let lanes: Vec<VecDeque<(Duration, u32)>> = times.iter().map(|steps| {
                let mut at = 0;
                steps.iter().map(|step| {
                    at += step;
                    number += 1;
                    // No two at one time: of those, the lower task comes first only if it is known of.
                    (Duration::from_micros(at * 1000 + number), u32::try_from(number).unwrap())
                }).collect()
            }).collect();
            let run = |mut left: Vec<VecDeque<(Duration, u32)>>, picks: &[prop::sample::Index]| {
                let mut merge = Merge::new(left.len());
                let mut found = Vec::new();
                let mut picks = picks.iter();
                while left.iter().any(|lane| !lane.is_empty()) {
                    let open: Vec<usize> = (0..left.len()).filter(|lane| !left[*lane].is_empty()).collect();
                    let lane = picks.next().map_or(open[0], |pick| open[pick.index(open.len())]);
                    let (at, item) = left[lane].pop_front().unwrap();
                    merge.push(lane, at, item);
                    found.extend(all(&mut merge));
                }
                merge.close_all();
                found.extend(all(&mut merge));
                found
            };
            prop_assert_eq!(run(lanes.clone(), &picks), run(lanes, &[]));
        }
    }
}
