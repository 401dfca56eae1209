//! Marks made few: successive ones of a kind become one event, and of too many events the beginning and the end are kept.

use std::collections::VecDeque;

use drover_store::{Mark, MarkKind};

/// Events kept from the beginning, and from the end.
const KEPT: usize = 100;

/// Successive marks of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When the first was, in microseconds since the Unix epoch, UTC.
    pub first_unix_us: u64,
    /// When the last was.
    pub last_unix_us: u64,
    /// What kind.
    pub kind: MarkKind,
    /// What the first one says.
    pub text: String,
    /// How many.
    pub count: u64,
}

/// Collects marks.
#[derive(Debug, Default)]
pub(super) struct Events {
    first: Vec<Event>,
    last: VecDeque<Event>,
    /// Marks of events that were dropped.
    dropped: u64,
    pub(super) rounds_failed: u64,
}

impl Events {
    pub(super) fn push(&mut self, mark: &Mark) {
        if mark.kind == MarkKind::RoundFailed {
            self.rounds_failed += 1;
        }
        let latest = self.last.back_mut().or(self.first.last_mut());
        if let Some(event) = latest.filter(|event| event.kind == mark.kind && mark.kind != MarkKind::Note) {
            event.last_unix_us = mark.at_unix_us;
            event.count += 1;
            return;
        }
        let event = Event {
            first_unix_us: mark.at_unix_us,
            last_unix_us: mark.at_unix_us,
            kind: mark.kind,
            text: mark.text.clone(),
            count: 1,
        };
        if self.first.len() < KEPT {
            self.first.push(event);
            return;
        }
        self.last.push_back(event);
        if self.last.len() > KEPT {
            self.dropped += self.last.pop_front().map_or(0, |event| event.count);
        }
    }

    /// The events in order, and how many marks in the middle are not among them.
    pub(super) fn finish(self) -> (Vec<Event>, u64) {
        let mut list = self.first;
        list.extend(self.last);
        (list, self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_beginning_and_end_when_there_are_too_many_events() {
        let mut events = Events::default();
        for at in 0..1000 {
            let kind = if at % 2 == 0 { MarkKind::HostLost } else { MarkKind::HostBack };
            events.push(&Mark { at_unix_us: at, kind, text: at.to_string() });
        }
        let (list, dropped) = events.finish();
        assert_eq!((list.len(), dropped), (200, 800));
        assert_eq!((list[99].first_unix_us, list[100].first_unix_us), (99, 900));
    }

    #[test]
    fn expect_one_event_when_marks_of_a_kind_follow_one_another() {
        let mut events = Events::default();
        for at in 0..500 {
            events.push(&Mark { at_unix_us: at, kind: MarkKind::RoundFailed, text: at.to_string() });
        }
        assert_eq!(events.rounds_failed, 500);
        let (list, dropped) = events.finish();
        let event = Event {
            first_unix_us: 0,
            last_unix_us: 499,
            kind: MarkKind::RoundFailed,
            text: "0".to_owned(),
            count: 500,
        };
        assert_eq!((list, dropped), (vec![event], 0));
    }
}
