//! A lane: one choice of hosts with the attempts that wait for it, the one that has them, and those that are over there and
//! not stored. Owned by the scheduler, which makes lanes as there is work and dissolves them when a host is given up.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use drover_model::AttemptId;

use crate::crew::Crew;

/// One lane.
#[derive(Debug)]
pub(crate) struct Lane {
    pub crew: Arc<Crew>,
    pub kind: LaneKind,
    /// Takes attempts. A lane that does not any more is kept until its last attempt is stored.
    pub is_live: bool,
    /// Nothing is left of it; its place may be used for another.
    pub is_vacant: bool,
    /// Attempts to be begun here, in the order of the journal.
    pub queue: VecDeque<AttemptId>,
    /// The attempt that has the hosts for itself.
    pub current: Option<AttemptId>,
    /// Attempts whose tasks are over and that are not stored.
    pub unstored: Vec<AttemptId>,
    /// Groups whose trials run here and nowhere else, in the order in which they came.
    pub groups: Vec<usize>,
    /// The number of its turn, while it stands in line at its hosts.
    pub turn: Option<u64>,
    /// Attempts at the end of its queue that may go elsewhere, as the scheduler's list of them has it.
    pub movable: usize,
    /// Its queue changed otherwise than by going on at its front, since those were counted.
    pub is_reordered: bool,
    /// What is due next, as the scheduler's list of times has it.
    pub timer: Option<Duration>,
    /// It is to be looked at before the step ends.
    pub is_marked: bool,
}

/// Where a lane's work comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneKind {
    /// From the trials that may run anywhere.
    Common,
    /// From groups that stay on one lane, one after the other.
    Staying,
    /// From groups with this host, one after the other.
    Pinned(usize),
    /// From what a former controller journalled, and the groups of that: its hosts are used by other lanes as well.
    Bound,
}

impl Lane {
    /// A lane without work.
    pub fn new(crew: Arc<Crew>, kind: LaneKind) -> Self {
        Self {
            crew,
            kind,
            is_live: true,
            is_vacant: false,
            queue: VecDeque::new(),
            current: None,
            unstored: Vec::new(),
            groups: Vec::new(),
            turn: None,
            movable: 0,
            is_reordered: false,
            timer: None,
            is_marked: false,
        }
    }

    /// Lets an attempt wait here, behind the others.
    pub fn push(&mut self, id: AttemptId) {
        self.queue.push_back(id);
        self.is_reordered = true;
    }

    /// Whether it runs nothing and has nothing to run.
    pub fn is_hungry(&self) -> bool {
        self.is_live && self.queue.is_empty() && self.current.is_none()
    }

    /// Whether nothing is left of what it was given.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.current.is_none() && self.unstored.is_empty()
    }

    /// Lets go of an attempt. `true` if it had the hosts.
    pub fn remove(&mut self, id: AttemptId) -> bool {
        self.unstored.retain(|unstored| *unstored != id);
        self.queue.retain(|queued| *queued != id);
        self.is_reordered = true;
        let had = self.current == Some(id);
        if had {
            self.current = None;
        }
        had
    }
}
