//! One host: its connection and lease, the lanes that use it, the one that has it, and what the agent is still to end or to
//! forget.

use std::{collections::BTreeSet, time::Duration};

use drover_model::{AttemptId, Name, TaskId};

use crate::{
    BootPolicy, Effect, Effects, PowerPolicy, Reconnect,
    power::Power,
    reboot::{Reboot, Seek},
};

/// Stored attempts that are forgotten in one go.
const FORGET_BATCH: usize = 16;
/// Longest time that a stored attempt waits for a batch, as long as attempts are stored at all.
const FORGET_AFTER: Duration = Duration::from_secs(1);

/// What a host waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostState {
    /// For a lane that needs it.
    Idle,
    /// For `HostConnected`.
    Connecting,
    /// For `HostConnected`, as the machine that an attempt needs.
    Making,
    /// For the time of its next try to connect.
    Waiting {
        /// That time.
        until: Duration,
    },
    /// For `PowerCycled`.
    Cycling,
    /// For the answer to `AcquireLease`.
    Leasing,
    /// For the time to ask again for a lease that another run has.
    Denied {
        /// That time.
        until: Duration,
    },
    /// For attempts and what becomes of them: it is ours.
    Leased,
    /// For `MachineRestored`, or `HostRebooting`.
    Restoring,
    /// For `LeaseReleased`.
    Releasing,
    /// For nothing: it was given back, or is not needed any more.
    Released,
    /// For nothing: it could not be had or kept.
    GivenUp,
}

/// A task that runs on the host without an attempt that waits for it.
#[derive(Debug)]
pub(crate) struct Stray {
    pub task: TaskId,
    /// When the host is given up if the task has not ended.
    pub deadline: Duration,
    /// Its attempt is stored, and to be forgotten when it has no more strays.
    pub is_stored: bool,
}

/// One host of the run.
#[derive(Debug)]
pub(crate) struct Host {
    pub name: Name,
    pub state: HostState,
    pub boot_id: Option<String>,
    /// It was ours when it was last heard of; whoever has it now has it through us.
    pub was_ours: bool,
    /// What may be done when it is lost.
    pub power: Power,
    /// What was asked of it when it is booted as another machine.
    pub reboot: Reboot,
    /// The run does not finish before it is given back, or given up.
    pub is_awaited: bool,
    /// Lanes that use it, those included that only wait for their last attempts to be stored.
    pub lanes: BTreeSet<usize>,
    /// The lane that has the host for itself, for its current attempt.
    pub busy: Option<usize>,
    /// Lanes that would begin an attempt if their hosts were free, by the number of their turn.
    pub line: BTreeSet<(u64, usize)>,
    /// Attempts that a former controller began here and that are to be gone on with before any other, in the order of the
    /// journal.
    pub adopted: BTreeSet<(u64, AttemptId)>,
    /// Of all inherited attempts that the agent ever knew of, the last in the journal: those before it are over here.
    pub latest: Option<u64>,
    /// What is due next, as the scheduler's list of times has it.
    pub timer: Option<Duration>,
    /// It is to be looked at before the step ends.
    pub is_marked: bool,
    /// The host is not free while there are any.
    pub strays: Vec<Stray>,
    /// Losses since the agent last reported anything new.
    losses: u32,
    /// Stored attempts, to be forgotten in the next batch.
    to_forget: Vec<AttemptId>,
    to_forget_since: Duration,
    /// Attempts ordered to be forgotten, without an answer so far.
    forgetting: Vec<AttemptId>,
}

impl Host {
    /// A host that nothing was done with.
    pub fn new(name: Name, power: Option<PowerPolicy>, boots: Option<BootPolicy>) -> Self {
        Self {
            name,
            state: HostState::Idle,
            boot_id: None,
            was_ours: false,
            power: Power::new(power),
            reboot: Reboot::new(boots),
            is_awaited: false,
            lanes: BTreeSet::new(),
            busy: None,
            line: BTreeSet::new(),
            adopted: BTreeSet::new(),
            latest: None,
            timer: None,
            is_marked: false,
            strays: Vec::new(),
            losses: 0,
            to_forget: Vec::new(),
            to_forget_since: Duration::ZERO,
            forgetting: Vec::new(),
        }
    }

    /// Whether an attempt may be begun.
    pub fn is_free(&self) -> bool {
        self.state == HostState::Leased && self.busy.is_none() && self.strays.is_empty()
    }

    /// Whether it is ours, or nothing is expected of it any more.
    pub fn is_held_or_gone(&self) -> bool {
        matches!(self.state, HostState::Leased | HostState::GivenUp)
    }

    /// Starts connecting, if that was not done yet.
    pub fn wake(&mut self, effects: &mut Effects) {
        if self.state == HostState::Idle {
            self.connect(effects);
        }
    }

    /// Connects now.
    pub fn connect(&mut self, effects: &mut Effects) {
        self.state = HostState::Connecting;
        effects.push(Effect::ConnectHost { host: self.name.clone() });
    }

    /// The connection is gone, or was not made: tries again, now or later. `false` if it was tried often enough, or long enough
    /// where it boots because of us.
    pub fn reconnect(&mut self, now: Duration, policy: Reconnect, effects: &mut Effects) -> bool {
        if let Some(until) = self.power.until() {
            self.state = HostState::Waiting { until: now.saturating_add(policy.max_delay).min(until) };
            return now < until;
        }
        match self.reboot.seek(now, policy.max_delay) {
            Some(Seek::At(until)) => {
                self.state = HostState::Waiting { until };
                return true;
            }
            Some(Seek::Over) => return false,
            None => {}
        }
        self.losses = self.losses.saturating_add(1);
        if self.losses > policy.tries {
            return false;
        }
        if self.losses == 1 {
            self.connect(effects);
        } else {
            let doublings = (self.losses - 2).min(31);
            let delay = policy.first_delay.saturating_mul(1 << doublings).min(policy.max_delay);
            self.state = HostState::Waiting { until: now.saturating_add(delay) };
        }
        true
    }

    /// Asks for the lease.
    pub fn ask(&mut self, effects: &mut Effects) {
        self.state = HostState::Leasing;
        effects.push(Effect::AcquireLease { host: self.name.clone() });
    }

    /// Gives it back.
    pub fn release(&mut self, effects: &mut Effects) {
        self.state = HostState::Releasing;
        effects.push(Effect::ReleaseLease { host: self.name.clone() });
    }

    /// Orders its power to be cycled, if that may be done. Nothing is done to a host that others may have.
    pub fn cycle(&mut self, why: &str, effects: &mut Effects) -> bool {
        let may = self.was_ours && self.power.cycle(why);
        if may {
            // Its next boot is another one.
            self.reboot.over();
            self.state = HostState::Cycling;
            effects.push(Effect::CyclePower { host: self.name.clone(), why: why.to_owned() });
        }
        may
    }

    /// Its power was cycled: seeks it.
    pub fn power_cycled(&mut self, now: Duration, effects: &mut Effects) {
        self.power.cycled(now);
        self.losses = 0;
        self.connect(effects);
    }

    /// It goes down because it was asked to: seeks it.
    pub fn rebooting(&mut self, now: Duration, policy: Reconnect) {
        self.reboot.begun(now, self.boot_id.clone());
        self.losses = 0;
        let until = match self.reboot.seek(now, policy.max_delay) {
            Some(Seek::At(until)) => until,
            Some(Seek::Over) | None => now,
        };
        self.state = HostState::Waiting { until };
    }

    /// It is ours.
    pub fn leased(&mut self) {
        self.state = HostState::Leased;
        self.was_ours = true;
        self.power.came_back();
        self.reboot.over();
    }

    /// The agent reported something new: it works.
    pub fn note_progress(&mut self) {
        self.losses = 0;
    }

    /// Takes note of a task that must end before the host is free, and kills it.
    pub fn add_stray(&mut self, stray: Stray, effects: &mut Effects) {
        let (host, task) = (self.name.clone(), stray.task.clone());
        effects.push(Effect::StopTask { host, task, kill: true });
        self.strays.push(stray);
    }

    /// A task has ended; if it was a stray, its attempt may be ripe to be forgotten.
    pub fn stray_ended(&mut self, now: Duration, task: &TaskId) {
        let Some(position) = self.strays.iter().position(|stray| stray.task == *task) else { return };
        if self.strays.swap_remove(position).is_stored {
            self.stored(now, task.attempt);
        }
    }

    /// An attempt is stored: it may be forgotten as soon as nothing of it runs.
    pub fn stored(&mut self, now: Duration, attempt: AttemptId) {
        let mut runs = false;
        for stray in self.strays.iter_mut().filter(|stray| stray.task.attempt == attempt) {
            stray.is_stored = true;
            runs = true;
        }
        if runs {
            // It may have been stored before the host told of these.
            self.to_forget.retain(|stored| *stored != attempt);
        } else {
            self.forget_later(now, attempt);
        }
    }

    /// Whether an attempt is stored, and waits to be forgotten.
    pub fn is_to_forget(&self, attempt: AttemptId) -> bool {
        self.to_forget.contains(&attempt)
    }

    /// When something must have happened.
    pub fn next_deadline(&self) -> Option<Duration> {
        match self.state {
            HostState::Waiting { until } | HostState::Denied { until } => Some(until),
            HostState::Leased => self.strays.iter().map(|stray| stray.deadline).min(),
            _ => None,
        }
    }

    fn forget_later(&mut self, now: Duration, attempt: AttemptId) {
        if self.to_forget.is_empty() {
            self.to_forget_since = now;
        }
        if !self.to_forget.contains(&attempt) {
            self.to_forget.push(attempt);
        }
    }

    /// Forgets what waits for it, if it is much or has waited long.
    pub fn forget_some(&mut self, now: Duration, effects: &mut Effects) {
        let long = now.saturating_sub(self.to_forget_since) >= FORGET_AFTER;
        if self.to_forget.len() >= FORGET_BATCH || long {
            self.forget_all(effects);
        }
    }

    /// Forgets what waits for it.
    pub fn forget_all(&mut self, effects: &mut Effects) {
        if self.state != HostState::Leased || self.to_forget.is_empty() {
            return;
        }
        let attempts = std::mem::take(&mut self.to_forget);
        self.forgetting.extend(&attempts);
        effects.push(Effect::ForgetAttempts { host: self.name.clone(), attempts });
    }

    /// The agent has forgotten these.
    pub fn forgotten(&mut self, attempts: &[AttemptId]) {
        self.forgetting.retain(|attempt| !attempts.contains(attempt));
    }

    /// Orders to forget that may have been lost with the connection, or that strays held up; they are given again where the
    /// agent still knows the attempt.
    pub fn take_forgetting(&mut self) -> Vec<AttemptId> {
        let mut attempts = std::mem::take(&mut self.forgetting);
        attempts.extend(self.strays.iter().filter(|stray| stray.is_stored).map(|stray| stray.task.attempt));
        attempts
    }
}
