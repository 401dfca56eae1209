//! The state machine of a run: attempts, leases, barriers, retries.
//!
//! [`Scheduler`] decides, the driver (in the crate `drover`) acts: it feeds every thing that happened as an [`Event`] to
//! [`Scheduler::step`] and carries out the [`Effect`]s that come back. There is no clock, no randomness, no I/O and no
//! task in here: the same events at the same times give the same effects, so a run can be replayed and simulated.
//!
//! # Where trials run
//!
//! An attempt runs on its *seats*: every role on one or more hosts. A *lane* is one such choice of hosts with the attempts
//! that wait for it; lanes are chosen so that they share no host, as many as there is work for. Groups of trials that are
//! compared with one another stay on one lane. Only where groups are bound to hosts (by the plan, or by what former
//! controllers did) lanes may overlap; they then take turns. An attempt begins when all its hosts are ours and free, on all
//! of them at once. Hosts that no lane needs are not connected; they replace those that are given up.
//!
//! # What the driver promises
//!
//! - Events are delivered one by one, `now` never goes back.
//! - Effects on one host are carried out in the order given; those on the store and the journal likewise.
//! - An effect may be repeated after a lost connection; every one of them is safe to repeat.
//! - Answers to calls (`AttemptPrepared`, `TaskRefused`, `RoleReached`, `BarrierReleased`, `Collected`, ...) that were made
//!   on a connection are not delivered after that connection's `HostLost`; those to calls that concern several hosts not
//!   after `HostLost` of any of these. Task events may be: what an agent has said stays true.
//! - On a new connection no task event comes before `LeaseGranted`; after it, every spooled event of the `known` tasks
//!   that this process has not delivered yet is delivered. Delivering one twice is harmless.
//! - Each order to the store and the journal is answered once.
//! - If [`Scheduler::next_deadline`] has passed, `TimerElapsed` is delivered. Too early or too often is harmless.
//!
//! # Which events are ignored
//!
//! Late, duplicate and stale events are legal. Each is ignored by one of these rules:
//!
//! - an event about an attempt that is not open (never drawn, or already stored);
//! - an answer that the attempt does not wait for in its present stage;
//! - a task event that is not news: a task only moves forward through started, armed, released, ready, ended;
//! - a task event about a task that was never sent, nor known to the agent;
//! - an event about a host in a state that does not wait for it, or about a host that is not of the run;
//! - everything after [`Effect::Finish`].

mod attempt;
mod attempts;
mod barrier;
mod crew;
mod deaths;
mod effect;
mod event;
mod group;
mod host;
mod lane;
mod orders;
mod pack;
mod past;
mod plan;
mod power;
mod reboot;
mod retry;
mod roles;
mod scheduler;
mod search;
mod verdict;

pub use effect::{Effect, Effects, Ended, Progress};
pub use event::{CollectOutcome, Ending, Event, KnownTask, TaskChange};
pub use plan::{
    BootPolicy, Group, Order, PastAttempt, Plan, PlanError, PowerPolicy, Reconnect, RoleKind, RoleShape,
    StatusPolicy,
};
pub use scheduler::Scheduler;
