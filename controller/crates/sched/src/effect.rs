//! What to do: the output of [`Scheduler::step`](crate::Scheduler::step), carried out by the driver.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use drover_model::{AttemptId, Name, Outcome, Seats, TaskId, Verdict};

/// Something to do. Each is safe to repeat.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Connect to the host's agent, starting one where that is our job; drop any former connection. Answered by
    /// `HostConnected` or `HostLost`.
    ConnectHost {
        /// The host.
        host: Name,
    },
    /// Drop the connection to the host, and switch it off and on. Answered by `PowerCycled`. Ordered only for hosts that the plan
    /// names, that were ours, and that are not found any more or do not end a task.
    CyclePower {
        /// The host.
        host: Name,
        /// What was seen.
        why: String,
    },
    /// Make the host the machine that the cell of the attempt asks for; drop any former connection, and connect. The attempt
    /// is in the journal: the boot is expected. Answered by `HostConnected`, `MachineRefused`, `HostLost` or `HostUnusable`;
    /// for a host of [`Plan::boots`](crate::Plan::boots) also by `HostRebooting`, after which it is connected again by order.
    MakeMachine {
        /// The host.
        host: Name,
        /// The attempt.
        attempt: AttemptId,
    },
    /// The run is over, and may have booted the host as another machine: see to it that it is what it was before. Answered by
    /// `MachineRestored`, `HostRebooting` (the order comes again when it is ours again) or `HostLost`.
    RestoreMachine {
        /// The host.
        host: Name,
    },
    /// Take the host for the run. Answered by `LeaseGranted`, `LeaseRefused` or `HostLost`.
    AcquireLease {
        /// The host.
        host: Name,
    },
    /// Give the host back. Answered by `LeaseReleased` or `HostLost`.
    ReleaseLease {
        /// The host.
        host: Name,
    },
    /// The host was given up because it is lost, or because a task on it cannot be ended: nobody should use it before
    /// somebody has looked at it. Has no answer.
    QuarantineHost {
        /// The host.
        host: Name,
        /// What was seen.
        why: String,
    },
    /// Write down durably that these attempts may be sent to their hosts. An attempt that is in the journal already moves
    /// to the seats named here, and to the end of the journal's order. Answered by `AttemptsJournalled` or
    /// `JournalFailed`.
    JournalAttempts {
        /// Attempts with their hosts, in the order in which they will be begun.
        attempts: Vec<(AttemptId, Arc<Seats>)>,
    },
    /// Reserve ports and render templates. For an attempt that the agents know, the ports reserved before are used.
    /// Answered by `AttemptPrepared` or `AttemptUnprepared`; ordered again when the connection to one of its hosts was
    /// lost meanwhile.
    PrepareAttempt {
        /// The attempt.
        attempt: AttemptId,
        /// Where it will run.
        seats: Arc<Seats>,
    },
    /// Find out whether a service, which is ready on its own hosts, can be reached from others. Answered by `RoleReached` or
    /// `RoleUnreached`; ordered again when the connection to one of the attempt's hosts was lost meanwhile.
    CheckReach {
        /// The attempt.
        attempt: AttemptId,
        /// The service.
        role: Name,
        /// The hosts to probe from: those of roles that come after it, without its own.
        from: Vec<Name>,
    },
    /// Start a task. Answered by its events, or `TaskRefused`.
    StartTask {
        /// Where.
        host: Name,
        /// The task.
        task: TaskId,
        /// Whether it waits at the barrier.
        hold: bool,
    },
    /// Release all held tasks of the attempt at one instant. Answered by `BarrierReleased` and the tasks' `Released`, or by
    /// `BarrierFailed`. Ordered again after a lost connection only where all held tasks are on one host.
    ReleaseBarrier {
        /// The attempt.
        attempt: AttemptId,
        /// The hosts that have held tasks.
        hosts: Vec<Name>,
    },
    /// End a task. Answered by its `Ended`; a task that is over, or unknown to the agent, needs no answer.
    StopTask {
        /// Where.
        host: Name,
        /// The task.
        task: TaskId,
        /// Now, without grace.
        kill: bool,
    },
    /// Fetch and keep the outputs of these tasks, parse those that are measured, evaluate metrics and their `must`s.
    /// Answered by `Collected`; ordered again when the connection to one of the hosts was lost meanwhile, for fewer tasks
    /// when a host was given up.
    Collect {
        /// The attempt.
        attempt: AttemptId,
        /// Its tasks that were started and have ended, each with its host.
        tasks: Vec<(Name, TaskId)>,
    },
    /// Store the attempt durably. Answered by `AttemptStored` or `StoreFailed`.
    StoreAttempt {
        /// The attempt.
        attempt: AttemptId,
        /// Where it ran, or would have run; `None` if no hosts could be had.
        seats: Option<Arc<Seats>>,
        /// What became of it.
        verdict: Verdict,
        /// No further attempt of this trial follows.
        is_final: bool,
        /// When it was begun, on the clock of `now`.
        begun: Duration,
        /// When its last task ended, on the clock of `now`.
        ended: Duration,
        /// Microseconds between the first and the last release at the start barrier, when one was used; the bound of the
        /// error of the clocks is added.
        start_skew_us: Option<u64>,
        /// `false` when a first try to store it failed for lack of space: store the bare verdict, drop its outputs.
        with_outputs: bool,
    },
    /// The attempts are stored: their spools, outputs and folders on the agent may go. Answered by `AttemptsForgotten`
    /// (or, after a lost connection, ordered again).
    ForgetAttempts {
        /// Where.
        host: Name,
        /// The attempts.
        attempts: Vec<AttemptId>,
    },
    /// The run is over. The last effect.
    Finish {
        /// Why it is over.
        ended: Ended,
        /// What was reached.
        progress: Progress,
    },
}

/// Why a run is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every trial has its final verdict.
    Complete,
    /// The user stopped it.
    Interrupted,
    /// Trials are left that no hosts can be had for.
    HostsUnavailable {
        /// What became of the last host that was given up.
        why: String,
    },
    /// Results could not be stored any more. What was not stored is still held by the agents.
    StoreFailed {
        /// What was seen.
        why: String,
        /// Whether the cause is a full disk.
        disk_full: bool,
    },
}

impl Ended {
    /// Why it ended early, in words; `None` if it is complete.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Complete => None,
            Self::Interrupted => Some("interrupted".to_owned()),
            Self::HostsUnavailable { why } => Some(format!("no host left to run on: {why}")),
            Self::StoreFailed { why, .. } => Some(format!("results cannot be stored: {why}")),
        }
    }
}

/// Where the run stands, former controllers' work included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Trials whose final verdict is `ok`.
    pub ok: u64,
    /// Trials whose final verdict is `suspect`.
    pub suspect: u64,
    /// Trials whose final verdict is `ng`.
    pub ng: u64,
    /// Trials whose final verdict is `error`.
    pub error: u64,
    /// Trials whose final verdict is `missing`.
    pub missing: u64,
    /// Attempts stored that are not their trial's last word.
    pub passing: u64,
}

impl Progress {
    /// Trials with a final verdict.
    #[must_use]
    pub fn finished(&self) -> u64 {
        self.ok + self.suspect + self.ng + self.error + self.missing
    }

    /// Counts a stored attempt.
    pub(crate) fn count(&mut self, outcome: Outcome, is_final: bool) {
        let counter = match outcome {
            _ if !is_final => &mut self.passing,
            Outcome::Ok => &mut self.ok,
            Outcome::Suspect => &mut self.suspect,
            Outcome::Ng => &mut self.ng,
            Outcome::Error => &mut self.error,
            Outcome::Missing => &mut self.missing,
        };
        *counter += 1;
    }
}

/// Effects in the order in which they are to be carried out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects(VecDeque<Effect>);

impl Effects {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one.
    pub fn push(&mut self, effect: Effect) {
        self.0.push_back(effect);
    }

    /// Takes the oldest.
    pub fn pop(&mut self) -> Option<Effect> {
        self.0.pop_front()
    }

    /// Whether nothing is to be done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes all of them, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = Effect> + '_ {
        self.0.drain(..)
    }
}
