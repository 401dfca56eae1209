//! What is to be run, and what already was: the input of [`Scheduler::new`](crate::Scheduler::new).

use std::{collections::BTreeMap, fmt, time::Duration};

use drover_model::{AttemptId, Name, NgCause, Outcome, RunId, TrialId, Verdict};

/// A run as the driver hands it to the scheduler.
#[derive(Debug)]
pub struct Plan {
    /// The run.
    pub run: RunId,
    /// Hosts that may run trials, each once, at least one; a host runs one trial at a time, alone. Earlier ones are
    /// preferred.
    pub hosts: Vec<Name>,
    /// Roles of every trial, at least one.
    pub roles: Vec<RoleShape>,
    /// The trials, at least one group. Among groups that stay, earlier ones are taken up first.
    pub groups: Vec<Group>,
    /// Further attempts after faults of our own.
    pub retries: u32,
    /// Further attempts after an `ng`; a pass is then `suspect`.
    pub after_ng: u32,
    /// Attempts written to the journal ahead of their begin, for each set of hosts that runs trials; at least 1. Where
    /// there are thousands of such sets, each gets less, so that all of them together stay bounded.
    pub journal_window: u32,
    /// Attempts that may be over on their hosts and not stored yet, for each set of hosts that runs trials; at least 1.
    pub unstored_limit: u32,
    /// Largest difference between the first and the last start at a barrier, clock error included; above it an attempt is
    /// void.
    pub skew_limit: Duration,
    /// How a lost host is sought.
    pub reconnect: Reconnect,
    /// Hosts, by their position in [`Plan::hosts`], whose power can be cycled when they are not found.
    pub power: BTreeMap<usize, PowerPolicy>,
    /// Hosts, by their position in [`Plan::hosts`], that this run may boot as other machines. They are what they were before
    /// they are given back.
    pub boots: BTreeMap<usize, BootPolicy>,
    /// A host that another run holds is asked for again every two seconds, without limit, instead of given up.
    pub wait_for_hosts: bool,
}

/// Trials that are worked off together.
#[derive(Debug)]
pub struct Group {
    /// The trials, each once (in all groups together), in the order in which they are to be begun. Excluded cells are not
    /// among them.
    pub order: Order,
    /// All its trials must run on the same hosts, because they are compared with one another.
    pub stay: bool,
    /// Position in [`Plan::hosts`] of the host on which every pinned role of these trials runs. `None`: pinned roles are
    /// like others.
    pub host: Option<usize>,
}

/// How often and how fast a lost host is connected again. The first try is made at once, later ones after a delay that
/// doubles from `first_delay` to `max_delay`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnect {
    /// Tries in a row, without any news from the agent in between, after which the host is given up.
    pub tries: u32,
    /// Delay before the second try.
    pub first_delay: Duration,
    /// Longest delay.
    pub max_delay: Duration,
}

impl Default for Reconnect {
    /// Eight tries within about half a minute.
    fn default() -> Self {
        Self { tries: 8, first_delay: Duration::from_millis(250), max_delay: Duration::from_secs(8) }
    }
}

/// What may be done about a host that is lost and was not found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerPolicy {
    /// From the end of the power command on, the longest time until the host is ours again. It is sought at the longest distance of
    /// [`Reconnect`] meanwhile.
    pub within: Duration,
    /// Times that its power may be cycled, each for another loss; then it is given up.
    pub times: u32,
}

/// What holds for a host that this run may boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootPolicy {
    /// From the order to reboot on, the longest time until the host is ours again. It is sought every two seconds meanwhile.
    pub within: Duration,
    /// A former controller of the run booted it as another machine, and has not put that right.
    pub astray: bool,
    /// The boot that a former controller told it to leave, or was about to, if it is not known to have left it.
    pub leaves: Option<String>,
}

/// One role, as far as scheduling needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleShape {
    /// Its name, unique in the plan.
    pub name: Name,
    /// What its end means.
    pub kind: RoleKind,
    /// Positions in [`Plan::roles`] of the roles that must be ready (services) or over (awaited) before it starts.
    pub after: Vec<usize>,
    /// Tasks of this role on each of its hosts, at least 1. Instances are counted through all hosts: the first ones are on
    /// the first host.
    pub instances: u32,
    /// Hosts that it runs on, all different, at least 1.
    pub hosts: u32,
    /// Positions in [`Plan::hosts`] of those that it may run on.
    pub pool: Vec<usize>,
    /// It runs on the host of its group, whatever its pool, where the group has one. `hosts` is then 1.
    pub pinned: bool,
    /// Position in [`Plan::roles`] of the role that it shares all hosts with; its own `hosts` and `pool` mean
    /// nothing then.
    pub same_host_as: Option<usize>,
    /// Positions in [`Plan::roles`] of roles that it shares no host with.
    pub other_host_than: Vec<usize>,
    /// A service that other hosts can probe: before a role that comes after it starts on a host that is not one of its own,
    /// it must be reached from there.
    pub reach: bool,
    /// A service whose deadline is behind the time of everything that it serves. Where it ran into that with no controller
    /// there, the work was over.
    pub outlasts: bool,
    /// Exit statuses that count as success, for awaited roles.
    pub status: StatusPolicy,
    /// From its start (or release) on, the time after which a task must have ended by the agent's own rules: deadline,
    /// grace and a margin. An agent that says nothing until then is taken for lost.
    pub backstop: Duration,
    /// The same from the order to stop on: grace and a margin.
    pub stop_backstop: Duration,
}

/// What a role's end means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleKind {
    /// Becomes ready, must stay up until the awaited roles ended, is then stopped.
    Service,
    /// Runs to its end.
    Awaited,
}

/// Exit statuses that count as success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusPolicy {
    /// Whatever it exits with.
    Any,
    /// One of these.
    OneOf(Vec<i32>),
}

impl StatusPolicy {
    /// Whether a task that exited with `status` did what it should.
    #[must_use]
    pub fn accepts(&self, status: i32) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(good) => good.contains(&status),
        }
    }
}

/// Trials in the order in which they are to be begun, consumed as needed.
pub struct Order(Box<dyn Iterator<Item = TrialId> + Send>);

impl Order {
    /// An order that is computed while it is consumed.
    pub fn lazy(trials: impl Iterator<Item = TrialId> + Send + 'static) -> Self {
        Self(Box::new(trials))
    }
}

impl From<Vec<TrialId>> for Order {
    fn from(trials: Vec<TrialId>) -> Self {
        Self::lazy(trials.into_iter())
    }
}

impl Iterator for Order {
    type Item = TrialId;

    fn next(&mut self) -> Option<TrialId> {
        self.0.next()
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order").field("remaining", &self.0.size_hint()).finish()
    }
}

/// An attempt that is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastAttempt {
    /// Which.
    pub id: AttemptId,
    /// First column of its verdict.
    pub outcome: Outcome,
    /// Whether its cause lay in our infrastructure.
    pub retriable: bool,
    /// Whether it was its trial's last word.
    pub is_final: bool,
    /// The death of its kernel, or of its machine, if that ended it.
    pub died: Option<NgCause>,
}

impl PastAttempt {
    /// What the scheduler needs to know of a stored attempt.
    #[must_use]
    pub fn new(id: AttemptId, verdict: &Verdict, is_final: bool) -> Self {
        Self {
            id,
            outcome: verdict.outcome(),
            retriable: verdict.is_retriable(),
            is_final,
            died: crate::deaths::death(verdict),
        }
    }
}

/// Why a plan cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No host.
    #[error("the plan names no host")]
    NoHost,
    /// No role.
    #[error("the plan has no role")]
    NoRole,
    /// A role without tasks.
    #[error("role `{0}` has no instance")]
    NoInstance(Name),
    /// Two roles, or two hosts, of one name.
    #[error("`{0}` is named twice")]
    NamedTwice(Name),
    /// No group of trials.
    #[error("the plan has no group of trials")]
    NoGroup,
    /// An `after`, `same_host_as` or `other_host_than` that points at no role.
    #[error("role `{role}` refers to role number {after}, and there is none")]
    NoSuchRole {
        /// The role.
        role: Name,
        /// The position it names.
        after: usize,
    },
    /// Roles that wait for each other.
    #[error("role `{0}` comes after itself, directly or through others")]
    Cycle(Name),
    /// Its hosts cannot be chosen: too few, or what is asked for contradicts itself.
    #[error("no hosts can be chosen for role `{role}`: {why}")]
    NoSeats {
        /// The role.
        role: Name,
        /// What is asked for, and what there is.
        why: String,
    },
}
