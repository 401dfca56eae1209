//! Combines what several loads found into points: one when each of them has given something new. None is forgotten because
//! another one is behind: what is replaced by something newer before its point came about is judged with what the others gave
//! last. Pure.

/// Whether something is a point, or only to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// All loads have given something new.
    Point,
    /// Something of a load gives way to something newer; of other loads there may be nothing yet.
    Replaced,
}

/// Gets what there is of all loads, by load.
pub type Judge<'a, T> = dyn FnMut(&[(usize, &T)], Occasion) + 'a;

/// What each load gave last.
#[derive(Debug)]
pub struct Sweep<T> {
    loads: Vec<Load<T>>,
}

#[derive(Debug)]
struct Load<T> {
    last: Option<T>,
    /// It is in no point yet.
    is_new: bool,
}

impl<T> Sweep<T> {
    /// Of so many loads.
    pub fn new(loads: usize) -> Self {
        let load = |_| Load { last: None, is_new: false };
        Self { loads: (0..loads).map(load).collect() }
    }

    /// A load gives something.
    pub fn add(&mut self, load: usize, found: T, judge: &mut Judge<'_, T>) {
        self.give_way(load, judge);
        let Some(entry) = self.loads.get_mut(load) else { return };
        (entry.last, entry.is_new) = (Some(found), true);
        self.complete(judge);
    }

    /// A load failed to give anything: what it gave before stands for it no more.
    pub fn fail(&mut self, load: usize, judge: &mut Judge<'_, T>) {
        self.give_way(load, judge);
        if let Some(entry) = self.loads.get_mut(load) {
            (entry.last, entry.is_new) = (None, false);
        }
    }

    /// All loads are over: judges what came to no point.
    pub fn finish(&mut self, judge: &mut Judge<'_, T>) {
        if self.loads.iter().any(|load| load.is_new) {
            judge(&self.given(), Occasion::Replaced);
        }
        self.loads.iter_mut().for_each(|load| load.is_new = false);
    }

    fn give_way(&self, load: usize, judge: &mut Judge<'_, T>) {
        if self.loads.get(load).is_some_and(|load| load.is_new) {
            judge(&self.given(), Occasion::Replaced);
        }
    }

    fn complete(&mut self, judge: &mut Judge<'_, T>) {
        if self.loads.iter().all(|load| load.is_new) {
            judge(&self.given(), Occasion::Point);
            self.loads.iter_mut().for_each(|load| load.is_new = false);
        }
    }

    fn given(&self) -> Vec<(usize, &T)> {
        self.loads.iter().enumerate().filter_map(|(place, load)| Some((place, load.last.as_ref()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `0=5 1=7 point`, one for each judgement.
    #[derive(Default)]
    struct Seen(Vec<String>);

    impl Seen {
        fn note(&mut self, given: &[(usize, &u32)], occasion: Occasion) {
            let given: Vec<String> = given.iter().map(|(load, found)| format!("{load}={found}")).collect();
            let word = if occasion == Occasion::Point { "point" } else { "replaced" };
            self.0.push(format!("{} {word}", given.join(" ")));
        }

        fn take(&mut self) -> Vec<String> {
            std::mem::take(&mut self.0)
        }
    }

    #[test]
    fn expect_a_point_each_time_when_there_is_one_load() {
        let (mut sweep, mut seen) = (Sweep::new(1), Seen::default());
        for found in [5, 6] {
            sweep.add(0, found, &mut |given, occasion| seen.note(given, occasion));
        }
        assert_eq!(seen.take(), ["0=5 point", "0=6 point"]);
    }

    #[test]
    fn expect_every_round_of_a_faster_load_judged_when_another_is_behind() {
        let (mut sweep, mut seen) = (Sweep::new(2), Seen::default());
        let mut add = |load, found| {
            sweep.add(load, found, &mut |given, occasion| seen.note(given, occasion));
            seen.take()
        };
        assert!(add(0, 1).is_empty());
        assert_eq!(add(0, 2), ["0=1 replaced"], "nothing of the other one yet");
        assert_eq!(add(1, 10), ["0=2 1=10 point"]);
        assert!(add(0, 3).is_empty());
        assert_eq!(add(0, 4), ["0=3 1=10 replaced"]);
        assert_eq!(add(0, 5), ["0=4 1=10 replaced"]);
        assert_eq!(add(1, 11), ["0=5 1=11 point"]);
    }

    #[test]
    fn expect_no_point_with_the_last_good_round_when_a_load_fails() {
        let (mut sweep, mut seen) = (Sweep::new(2), Seen::default());
        sweep.add(0, 1, &mut |given, occasion| seen.note(given, occasion));
        sweep.fail(0, &mut |given, occasion| seen.note(given, occasion));
        assert_eq!(seen.take(), ["0=1 replaced"], "it was fine itself");
        sweep.add(1, 2, &mut |given, occasion| seen.note(given, occasion));
        assert!(seen.take().is_empty());
        sweep.finish(&mut |given, occasion| seen.note(given, occasion));
        sweep.finish(&mut |given, occasion| seen.note(given, occasion));
        assert_eq!(seen.take(), ["1=2 replaced"]);
    }
}
