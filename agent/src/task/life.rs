//! Decides when a task is asked to end, when it is killed, and what its end is called. Pure: the run loop feeds it what
//! happened and carries out what it says.
//!
//! A task that must end for any reason but an outright kill is first asked by its stop policy, so that it can write what
//! it knows and remove what outlives a process (System V semaphores, sockets, temporary files); after the grace period
//! its tree is killed. The first reason is the one that is reported.

use std::time::{Duration, Instant};

use drover_model::{EndKind, StopPolicy};
use drover_supervise::ExitStatus;

/// Longest deadline; a longer one is cut to this (some 30 years), so that it is a point in time.
const MAX_DEADLINE: Duration = Duration::from_secs(1_000_000_000);

/// Longest grace period: a stuck task must not hold its host for hours.
const MAX_GRACE: Duration = Duration::from_secs(300);

/// What happened.
#[derive(Debug)]
pub(super) enum Input {
    /// The barrier of a held task opened.
    Released,
    /// It was not ready in time, with what was still missing.
    NotReady(String),
    /// Someone wants it to end.
    Stop,
    /// Someone wants it to end at once.
    Kill,
    /// Time passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Send this signal to the first process.
    Signal(i32),
    /// Kill the whole tree.
    KillTree,
}

#[derive(Debug)]
enum Reason {
    Stop,
    Kill,
    Deadline,
    NotReady(String),
}

/// The state of a task that has a process.
#[derive(Debug)]
pub(super) struct Life {
    held: bool,
    allowed: Duration,
    deadline: Instant,
    stop: StopPolicy,
    reason: Option<Reason>,
    /// When the tree is killed.
    kill_at: Option<Instant>,
    killed: bool,
}

impl Life {
    /// A task that starts now. A held one has the time `held` until its release, and `allowed` from then on.
    pub(super) fn new(held: Option<Duration>, allowed: Duration, stop: StopPolicy, now: Instant) -> Self {
        let allowed = allowed.min(MAX_DEADLINE);
        let deadline = now + held.unwrap_or(allowed).min(MAX_DEADLINE);
        Self { held: held.is_some(), allowed, deadline, stop, reason: None, kill_at: None, killed: false }
    }

    /// When [`Input::Tick`] is due.
    pub(super) fn wake_at(&self) -> Instant {
        self.kill_at.unwrap_or(self.deadline)
    }

    /// Takes in what happened. Late and repeated inputs are legal and do nothing.
    pub(super) fn step(&mut self, now: Instant, input: Input) -> Option<Effect> {
        match input {
            Input::Released => {
                self.held = false;
                self.deadline = now + self.allowed;
                None
            }
            Input::Stop => self.ask(now, Reason::Stop),
            Input::NotReady(missing) => self.ask(now, Reason::NotReady(missing)),
            Input::Kill => {
                if matches!(self.reason, None | Some(Reason::Stop)) {
                    self.reason = Some(Reason::Kill);
                }
                self.kill()
            }
            Input::Tick if self.kill_at.is_some_and(|at| at <= now) => self.kill(),
            Input::Tick if self.deadline <= now => self.ask(now, Reason::Deadline),
            Input::Tick => None,
        }
    }

    fn ask(&mut self, now: Instant, reason: Reason) -> Option<Effect> {
        if self.reason.is_some() {
            return None;
        }
        self.reason = Some(reason);
        // A held task has executed nothing that could react to a signal.
        if self.held {
            return self.kill();
        }
        self.kill_at = Some(now + self.stop.grace.min(MAX_GRACE));
        Some(Effect::Signal(self.stop.signal))
    }

    fn kill(&mut self) -> Option<Effect> {
        let first = !self.killed;
        self.killed = true;
        first.then_some(Effect::KillTree)
    }

    /// What the end is called, given the status of the first process.
    pub(super) fn end_kind(self, status: ExitStatus) -> EndKind {
        match (self.reason, status) {
            (None, ExitStatus::Exited(status)) => EndKind::Exited(status),
            (None, ExitStatus::Signaled(signal)) => EndKind::Signaled(signal),
            (Some(Reason::Stop), ExitStatus::Exited(status)) => EndKind::Stopped(Some(status)),
            (Some(Reason::Stop), ExitStatus::Signaled(_)) => EndKind::Stopped(None),
            (Some(Reason::Kill), _) => EndKind::Killed,
            (Some(Reason::Deadline), _) => EndKind::Deadline,
            (Some(Reason::NotReady(missing)), _) => EndKind::NotReady(missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    const STOP: StopPolicy = StopPolicy { signal: 15, grace: Duration::from_secs(5) };
    const ALLOWED: Duration = Duration::from_secs(60);

    fn life(held: bool) -> (Life, Instant) {
        let now = Instant::now();
        (Life::new(held.then_some(ALLOWED), ALLOWED, STOP, now), now)
    }

    #[test]
    fn expect_a_signal_then_a_kill_when_a_stopped_task_outlives_its_grace() {
        let (mut life, now) = life(false);
        assert_eq!(life.step(now, Input::Stop), Some(Effect::Signal(15)));
        assert_eq!(life.step(now, Input::Stop), None);
        assert_eq!(life.step(now + STOP.grace / 2, Input::Tick), None);
        assert_eq!(life.wake_at(), now + STOP.grace);
        assert_eq!(life.step(now + STOP.grace, Input::Tick), Some(Effect::KillTree));
        assert_eq!(life.end_kind(ExitStatus::Signaled(9)), EndKind::Stopped(None));
    }

    #[test]
    fn expect_deadline_as_the_end_when_the_task_is_told_to_stop_afterwards() {
        let (mut life, now) = life(false);
        assert_eq!(life.step(now + ALLOWED, Input::Tick), Some(Effect::Signal(15)));
        assert_eq!(life.step(now + ALLOWED, Input::Stop), None);
        assert_eq!(life.step(now + ALLOWED, Input::Kill), Some(Effect::KillTree));
        assert_eq!(life.end_kind(ExitStatus::Exited(0)), EndKind::Deadline);
    }

    #[test]
    fn expect_no_grace_when_a_held_task_must_end() {
        let (mut held, now) = life(true);
        assert_eq!(held.step(now + ALLOWED, Input::Tick), Some(Effect::KillTree));
        let (mut held, now) = life(true);
        assert_eq!(held.step(now, Input::Stop), Some(Effect::KillTree));
        assert_eq!(held.end_kind(ExitStatus::Signaled(9)), EndKind::Stopped(None));
    }

    #[test]
    fn expect_the_deadline_counted_from_the_release_when_a_task_was_held() {
        let (mut life, now) = life(true);
        life.step(now + ALLOWED / 2, Input::Released);
        assert_eq!(life.wake_at(), now + ALLOWED / 2 + ALLOWED);
        assert_eq!(life.step(now + ALLOWED, Input::Tick), None);
    }

    #[test]
    fn expect_its_own_time_at_the_barrier_when_what_follows_is_short() {
        let now = Instant::now();
        let mut life = Life::new(Some(ALLOWED), ALLOWED / 10, STOP, now);
        assert_eq!(life.wake_at(), now + ALLOWED);
        life.step(now + ALLOWED / 2, Input::Released);
        assert_eq!(life.wake_at(), now + ALLOWED / 2 + ALLOWED / 10);
    }

    #[test]
    fn expect_killed_when_a_kill_follows_a_stop() {
        let (mut life, now) = life(false);
        life.step(now, Input::Stop);
        assert_eq!(life.step(now, Input::Kill), Some(Effect::KillTree));
        assert_eq!(life.end_kind(ExitStatus::Signaled(9)), EndKind::Killed);
    }

    fn input() -> impl Strategy<Value = (u64, u8)> {
        (0_u64..200, 0_u8..5)
    }

    proptest! {
        #[test]
        fn whatever_happens_there_is_one_signal_one_kill_and_no_life_beyond_deadline_and_grace(
            held: bool, inputs in vec(input(), 0..20),
        ) {
            let (mut life, start) = life(held);
            let (mut now, mut signals, mut kills) = (start, 0, 0);
            for (seconds, kind) in inputs {
                now += Duration::from_secs(seconds);
                let input = match kind {
                    0 => Input::Tick,
                    1 => Input::Stop,
                    2 => Input::Kill,
                    3 => Input::NotReady("port".into()),
                    _ if held => Input::Released,
                    _ => Input::Tick,
                };
                match life.step(now, input) {
                    Some(Effect::Signal(_)) => { prop_assert_eq!(kills, 0); signals += 1 }
                    Some(Effect::KillTree) => kills += 1,
                    None => {}
                }
            }
            for _ in 0..2 {
                now = now.max(life.wake_at());
                match life.step(now, Input::Tick) {
                    Some(Effect::Signal(_)) => { prop_assert_eq!(kills, 0); signals += 1 }
                    Some(Effect::KillTree) => kills += 1,
                    None => {}
                }
            }
            prop_assert!(signals <= 1);
            prop_assert_eq!(kills, 1);
        }
    }
}
