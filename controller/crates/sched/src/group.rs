//! A group of trials at work: what is left of its order, and where it is bound to run. Owned by the scheduler.

use std::{collections::VecDeque, sync::Arc};

use drover_model::Seats;

use crate::{
    Order,
    past::{Draw, Past},
};

/// One group. All groups of the plan that may run anywhere are one.
#[derive(Debug)]
pub(crate) struct Trials {
    order: Order,
    /// Nothing is left in the order.
    exhausted: bool,
    /// Draws that come before those from the order.
    pub redraws: VecDeque<Draw>,
    pub tie: Tie,
    /// The lane that it is worked off on, unless it may run anywhere.
    pub lane: Option<usize>,
    /// A trial of it has a number from these hosts: all others must run there.
    pub seats: Option<Arc<Seats>>,
    /// Its attempts that are drawn and not stored.
    pub open: usize,
    /// It is in one of the scheduler's lists of groups that wait for something.
    pub waits: bool,
    /// No hosts can be had for it any more; why.
    pub stranded: Option<String>,
}

/// What ties the trials of a group to hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tie {
    /// All of them on the same.
    pub stay: bool,
    /// Pinned roles on this one.
    pub host: Option<usize>,
}

impl Trials {
    /// A group that nothing was done with.
    pub fn new(order: Order, tie: Tie) -> Self {
        Self {
            order,
            exhausted: false,
            redraws: VecDeque::new(),
            tie,
            lane: None,
            seats: None,
            open: 0,
            waits: false,
            stranded: None,
        }
    }

    /// Whether its trials may run anywhere, each for itself.
    pub fn is_common(&self) -> bool {
        self.tie == Tie { stay: false, host: None }
    }

    /// The next attempt to make, if any is left.
    pub fn draw(&mut self, past: &Past) -> Option<Draw> {
        if let Some(draw) = self.redraws.pop_front() {
            return Some(draw);
        }
        while !self.exhausted {
            match self.order.next() {
                Some(trial) => {
                    if let Some(draw) = past.draw(trial) {
                        return Some(draw);
                    }
                }
                None => self.exhausted = true,
            }
        }
        None
    }

    /// Whether an attempt is left to make.
    pub fn has_draw(&mut self, past: &Past) -> bool {
        if let Some(draw) = self.draw(past) {
            self.redraws.push_front(draw);
        }
        !self.redraws.is_empty()
    }

    /// Every way in which work can be left is exhausted.
    pub fn is_drained(&self) -> bool {
        self.exhausted && self.redraws.is_empty()
    }

    /// Reads the whole order, for a look at its trials.
    pub fn read_all(&mut self) -> Vec<drover_model::TrialId> {
        let trials: Vec<_> = self.order.by_ref().collect();
        self.order = trials.clone().into();
        trials
    }
}
