//! What happened: the input of [`Scheduler::step`](crate::Scheduler::step), made by the driver.

use std::sync::Arc;

use drover_model::{
    AttemptId, Doubt, EndKind, ErrorCause, Name, NgCause, Seats, TaskEnd, TaskEvent, TaskEventKind, TaskId,
    Verdict,
};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The run, its cells and its hosts are in the store: work may begin. The first event.
    RunOpened,

    /// A connection to the agent stands and it has said hello. Answers [`ConnectHost`](crate::Effect::ConnectHost).
    HostConnected {
        /// The host.
        host: Name,
        /// Changes at every boot of the host.
        boot_id: String,
    },
    /// The connection is gone, or could not be made. Tasks on the host may run on.
    HostLost {
        /// The host.
        host: Name,
        /// What was seen.
        why: String,
    },
    /// The host cannot be reached or used, and trying again would not help: a wrong key, a user that is refused, an agent that
    /// takes no tasks. It is given up.
    HostUnusable {
        /// The host.
        host: Name,
        /// What was seen, and what to do about it.
        why: String,
    },
    /// The commands that switch a host off and on have ended. Answers [`CyclePower`](crate::Effect::CyclePower).
    PowerCycled {
        /// The host.
        host: Name,
        /// Why it could not be done, if so.
        problem: Option<String>,
    },
    /// The host goes down because it was asked to, and is sought from now on; what is still said on its connection counts no more.
    /// Answers [`MakeMachine`](crate::Effect::MakeMachine) and [`RestoreMachine`](crate::Effect::RestoreMachine).
    HostRebooting {
        /// The host.
        host: Name,
    },
    /// The host is the machine that it was before the run, or cannot be made that. Answers
    /// [`RestoreMachine`](crate::Effect::RestoreMachine).
    MachineRestored {
        /// The host.
        host: Name,
        /// Why it is not, if so.
        problem: Option<String>,
    },
    /// The host is ours under a new epoch. Answers [`AcquireLease`](crate::Effect::AcquireLease).
    LeaseGranted {
        /// The host.
        host: Name,
        /// Every task of this run that the agent has not forgotten, running or ended.
        known: Vec<KnownTask>,
    },
    /// The host is another's: the lease was refused, or was taken from us. The host is given up, or asked for again later
    /// if the plan says so.
    LeaseRefused {
        /// The host.
        host: Name,
        /// Who holds it, for people.
        why: String,
    },
    /// The host was given back (or could not be, which changes nothing). Answers
    /// [`ReleaseLease`](crate::Effect::ReleaseLease).
    LeaseReleased {
        /// The host.
        host: Name,
    },
    /// The agent has forgotten these attempts. Answers [`ForgetAttempts`](crate::Effect::ForgetAttempts).
    AttemptsForgotten {
        /// The host.
        host: Name,
        /// The attempts.
        attempts: Vec<AttemptId>,
    },

    /// These attempts are durably in the journal. Answers [`JournalAttempts`](crate::Effect::JournalAttempts).
    AttemptsJournalled {
        /// The attempts with their hosts, as ordered: an answer for other hosts is stale.
        attempts: Vec<(AttemptId, Arc<Seats>)>,
    },
    /// The journal could not be written. Ends the run.
    JournalFailed {
        /// What was seen.
        why: String,
        /// Whether the cause is a full disk.
        disk_full: bool,
    },

    /// Ports are reserved and templates rendered. Answers [`PrepareAttempt`](crate::Effect::PrepareAttempt).
    AttemptPrepared {
        /// The attempt.
        attempt: AttemptId,
    },
    /// The attempt cannot be made ready; this is its verdict.
    AttemptUnprepared {
        /// The attempt.
        attempt: AttemptId,
        /// Why not.
        verdict: Verdict,
    },
    /// Some hosts of the attempt are other machines than its cell asks for, and can be made those. Answers
    /// [`PrepareAttempt`](crate::Effect::PrepareAttempt), which is ordered again when they are.
    MachinesNeeded {
        /// The attempt.
        attempt: AttemptId,
        /// These hosts.
        hosts: Vec<Name>,
    },
    /// The host cannot be made what the attempt's cell asks for; this is the attempt's verdict. Answers
    /// [`MakeMachine`](crate::Effect::MakeMachine).
    MachineRefused {
        /// The host.
        host: Name,
        /// The attempt.
        attempt: AttemptId,
        /// Why not.
        verdict: Verdict,
    },
    /// The machine that the host was has died, whatever was on it; this is what it means for the attempts there. Comes
    /// before the news that the host is lost, or connected as another machine.
    HostDied {
        /// The host.
        host: Name,
        /// What was seen.
        verdict: Verdict,
    },
    /// The agent refused [`StartTask`](crate::Effect::StartTask): nothing was started.
    TaskRefused {
        /// The task.
        task: TaskId,
        /// The agent's words.
        why: String,
    },
    /// An agent reported on a task.
    TaskChanged {
        /// The task.
        task: TaskId,
        /// What happened to it.
        change: TaskChange,
    },
    /// The kernel of a host reported that it failed while the attempt ran there: a lockup, an oops. May come when the attempt is
    /// over and is being collected, and again after a reconnection.
    KernelFailed {
        /// The host.
        host: Name,
        /// The attempt that was observed.
        attempt: AttemptId,
        /// What the report means.
        cause: NgCause,
        /// The report, in one or a few lines.
        detail: String,
    },
    /// The driver found out by itself that an attempt has failed while it runs: a check that does not hold, a load that makes
    /// no progress. Ignored before its tasks run, and after they have done their
    /// work; what is stronger, or came before, stays its verdict.
    AttemptFailed {
        /// The attempt.
        attempt: AttemptId,
        /// What was found.
        verdict: Verdict,
    },
    /// The service can be reached from where it was asked. Answers [`CheckReach`](crate::Effect::CheckReach).
    RoleReached {
        /// The attempt.
        attempt: AttemptId,
        /// The service.
        role: Name,
    },
    /// The service cannot be reached from one of the hosts; this is the attempt's verdict.
    RoleUnreached {
        /// The attempt.
        attempt: AttemptId,
        /// The service.
        role: Name,
        /// From where not, and how that showed.
        verdict: Verdict,
    },
    /// All agents were told when to release the held tasks. Answers [`ReleaseBarrier`](crate::Effect::ReleaseBarrier);
    /// the tasks' `Released` may come before it.
    BarrierReleased {
        /// The attempt.
        attempt: AttemptId,
        /// Microseconds by which the clocks of the hosts may be apart beyond what was allowed for; 0 on one host.
        error_us: u64,
    },
    /// The barrier could not be opened: an agent refused, or the clocks cannot be compared. Answers
    /// [`ReleaseBarrier`](crate::Effect::ReleaseBarrier).
    BarrierFailed {
        /// The attempt.
        attempt: AttemptId,
        /// What was seen, or the agent's words.
        why: String,
    },
    /// Outputs are fetched, parsed and checked. Answers [`Collect`](crate::Effect::Collect).
    Collected {
        /// The attempt.
        attempt: AttemptId,
        /// What was found.
        outcome: CollectOutcome,
    },
    /// The attempt is durably in the store. Answers [`StoreAttempt`](crate::Effect::StoreAttempt).
    AttemptStored {
        /// The attempt.
        attempt: AttemptId,
    },
    /// The attempt could not be stored; nothing of it was.
    StoreFailed {
        /// The attempt.
        attempt: AttemptId,
        /// What was seen.
        why: String,
        /// Whether the cause is a full disk.
        disk_full: bool,
    },

    /// The user asked to stop (one Ctrl-C). The second kills tasks, later ones change nothing.
    Interrupted,
    /// The time of [`next_deadline`](crate::Scheduler::next_deadline) has come.
    TimerElapsed,
}

impl Event {
    /// The event that a report of an agent makes.
    #[must_use]
    pub fn of_task(event: &TaskEvent) -> Self {
        Self::TaskChanged { task: event.task.clone(), change: TaskChange::from(&event.kind) }
    }
}

/// A task in an agent's memory or spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownTask {
    /// The task.
    pub task: TaskId,
    /// Whether it has ended; its last event is then spooled.
    pub ended: bool,
}

/// What happened to a task, as far as decisions need it; the driver keeps the rest (outputs, usage) for the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskChange {
    /// The process exists.
    Started,
    /// It waits at the barrier.
    Armed,
    /// The barrier opened for it.
    Released {
        /// Microseconds between the agreed instant and the true one.
        late_us: u64,
    },
    /// All its ready checks hold.
    Ready,
    /// It is over and its process tree is gone.
    Ended(Ending),
}

/// How a task ended, as far as verdicts need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Why it is over.
    pub kind: EndKind,
    /// Descendants that had to be killed after it.
    pub leftovers: u32,
    /// Bytes of output that were not kept.
    pub output_cut: u64,
    /// It ran for as long as it was to, and its agent ended it then: whatever its command made of that is no failure. The
    /// driver tells this of loads that last for a given time.
    pub spent: bool,
}

impl From<&TaskEnd> for Ending {
    fn from(end: &TaskEnd) -> Self {
        let cut = |written: u64, kept: u64| written.saturating_sub(kept);
        Self {
            kind: end.kind.clone(),
            leftovers: end.leftovers,
            output_cut: cut(end.stdout.written, end.stdout.kept)
                .saturating_add(cut(end.stderr.written, end.stderr.kept)),
            spent: false,
        }
    }
}

impl From<&TaskEventKind> for TaskChange {
    fn from(kind: &TaskEventKind) -> Self {
        match kind {
            // What comes while it runs shows that it was started, and is news only if that was not known.
            TaskEventKind::Started { .. }
            | TaskEventKind::Round { .. }
            | TaskEventKind::Lines { .. }
            | TaskEventKind::Stalled { .. } => Self::Started,
            TaskEventKind::Armed => Self::Armed,
            TaskEventKind::Released { late_us } => Self::Released { late_us: *late_us },
            TaskEventKind::Ready { .. } => Self::Ready,
            TaskEventKind::Ended(end) => Self::Ended(Ending::from(end)),
        }
    }
}

/// What collecting an attempt gave: the driver's part of the verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectOutcome {
    /// Collecting itself failed: an output could not be fetched, or not be written to disk.
    pub failed: Option<(ErrorCause, String)>,
    /// A `must` that does not hold, with the figures.
    pub check_failed: Option<String>,
    /// A metric that the output should have and has not.
    pub parse_error: Option<String>,
    /// A machine was not, or is not any more, what the cell asks for: there is no number.
    pub wrong_machine: Option<Verdict>,
    /// Reasons to distrust the numbers.
    pub doubts: Vec<Doubt>,
}
