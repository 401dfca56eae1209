//! Verdict rules, as pure functions: what the end of a task means, and what an attempt comes to. Called by `attempt` when a
//! task ends, and when outputs were collected.
//!
//! # Precedence
//!
//! Several things go wrong together, and one causes the other in an order that the messages need not keep (a client
//! fails because its server crashed, and is heard of first). So failures have ranks ([`Rank`]); the strongest names the
//! verdict, among equals the first. After the failures of the tasks come, in this order: a machine that is not the
//! one asked for, collecting that failed, a
//! `must` that does not hold, a metric that is missing, doubts.

use std::time::Duration;

use drover_model::{
    Doubt, DoubtKind, EndKind, ErrorCause, MissingCause, Name, NgCause, NotStarted, Outcome, Seats, Verdict,
};

use crate::{CollectOutcome, RoleKind, RoleShape};

/// How strongly a failure claims the verdict; the first variant is the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// The user interrupted a sound attempt: whatever happens to it afterwards is our doing.
    Cancelled,
    /// The machine died: every task is gone because of that.
    Died,
    /// The host rebooted: every task is gone because of that.
    Reboot,
    /// The kernel failed: whatever else failed may follow from it.
    Kernel,
    /// A service ended by itself: the clients' errors follow from it.
    Crash,
    /// A service was not ready in time.
    NotReady,
    /// A task ran into its deadline.
    Timeout,
    /// What the driver saw of the system under test on the way: follows from all that is above.
    Seen,
    /// The host has not the CPUs asked for, or not the kernel.
    WrongCpus,
    /// A task could not be started.
    NotStarted,
    /// The agent or the host was lost. Ranks below what the system under test did before: an `ng` is never retried
    /// in silence as a fault of ours.
    Lost,
    /// A host could not reach a service: because of all that is above, or of the network.
    Unreached,
    /// Tasks that start together did not: the attempt is void, whatever its commands made of that.
    Skew,
    /// A command ended in a way the matrix does not expect.
    Script,
    /// A task was stopped before the attempt was complete. Where this controller ordered that, it did so because of
    /// something stronger.
    Stopped,
}

/// A failure of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub rank: Rank,
    pub verdict: Verdict,
}

impl Failure {
    fn ng(rank: Rank, cause: NgCause, detail: String) -> Self {
        Self { rank, verdict: Verdict::Ng { cause, detail } }
    }

    fn error(rank: Rank, cause: ErrorCause, detail: String) -> Self {
        Self { rank, verdict: Verdict::Error { cause, detail } }
    }

    fn missing(rank: Rank, cause: MissingCause, detail: String) -> Self {
        Self { rank, verdict: Verdict::Missing { cause, detail } }
    }

    /// The user interrupted the attempt.
    pub fn cancelled() -> Self {
        Self::missing(Rank::Cancelled, MissingCause::Cancelled, "interrupted while it ran".to_owned())
    }

    /// The boot id changed while the attempt ran.
    pub fn reboot(host: &Name, before: &str, now: &str) -> Self {
        let detail =
            format!("the host {host} rebooted while the attempt ran: boot id {before} before, {now} now");
        Self::ng(Rank::Reboot, NgCause::UnexpectedReboot, detail)
    }

    /// The kernel of a host said so itself.
    pub fn kernel(host: &Name, cause: NgCause, report: &str) -> Self {
        Self::ng(Rank::Kernel, cause, format!("the kernel of {host} reports: {report}"))
    }

    /// The kernels of this cell ended in the same way before.
    pub fn died_too_often(cause: NgCause) -> Self {
        let detail =
            format!("attempts of this cell ended as `{}` twice: it is tried no more", cause.as_str());
        Self::missing(Rank::NotStarted, MissingCause::BudgetSpent, detail)
    }

    /// The host is gone for good.
    pub fn host_lost(why: &str) -> Self {
        Self::error(Rank::Lost, ErrorCause::LostHost, format!("the host was given up: {why}"))
    }

    /// The host was lost while the attempt ran, and switched off and on.
    pub fn power_cycled(why: &str) -> Self {
        Self::error(Rank::Lost, ErrorCause::LostHost, format!("the power of the host was cycled: {why}"))
    }

    /// A service that is ready cannot be reached from the host of a role that needs it. What the driver calls a failure of
    /// the system under test is never hidden by a fault of ours.
    pub fn unreached(verdict: Verdict) -> Self {
        let rank = if verdict.outcome() == Outcome::Ng { Rank::NotReady } else { Rank::Unreached };
        Self { rank, verdict }
    }

    /// The driver found it out while the attempt ran.
    pub fn found(verdict: Verdict) -> Self {
        let rank = if verdict.outcome() == Outcome::Ng { Rank::Seen } else { Rank::Script };
        Self { rank, verdict }
    }

    /// Tasks at the barrier were released too far apart.
    pub fn skew(skew: Skew, limit: Duration) -> Self {
        let (total, limit) = (skew.total_us(), limit.as_micros());
        let Skew { spread_us, error_us } = skew;
        let detail = format!(
            "tasks that start together started up to {total} us apart ({spread_us} us measured, {error_us} us of \
             clock error), {limit} us are allowed"
        );
        Self::error(Rank::Skew, ErrorCause::StartSkew, detail)
    }

    /// Tasks at the barrier may have been released at different instants.
    pub fn skew_unknown() -> Self {
        let detail =
            "the barrier may have opened on some hosts only: the connection was lost while it opened";
        Self::error(Rank::Skew, ErrorCause::StartSkew, detail.to_owned())
    }

    /// The trials that it is compared with are run on other hosts by now.
    pub fn elsewhere(seats: &Seats) -> Self {
        let detail = format!("the trials it is compared with went on elsewhere: on {seats}");
        Self::error(Rank::Lost, ErrorCause::LostHost, detail)
    }

    /// The agent no longer has, or no longer speaks of, a task.
    pub fn agent_lost(label: &str, what: &str) -> Self {
        Self::error(Rank::Lost, ErrorCause::AgentLost, format!("{label}: {what}"))
    }

    /// The agent lost its memory of a task.
    pub fn unknown(label: &str) -> Self {
        Self::agent_lost(label, "the agent no longer knows of it")
    }

    /// The agent refused an order.
    pub fn refused(what: &str, why: &str) -> Self {
        Self::error(Rank::NotStarted, ErrorCause::Internal, format!("the agent refused to {what}: {why}"))
    }

    /// A task was stopped by someone else. An attempt that a former controller began was stopped by that one, on
    /// behalf of the user; in one of our own it must not happen.
    pub fn stopped(label: &str, inherited: bool) -> Self {
        if inherited {
            let detail = format!("{label} was stopped by a former controller");
            Self::missing(Rank::Stopped, MissingCause::Cancelled, detail)
        } else {
            let detail = format!("{label} was stopped without an order of this controller");
            Self::error(Rank::Stopped, ErrorCause::Internal, detail)
        }
    }
}

/// How far apart the tasks at a barrier started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Skew {
    /// Between the first and the last, each by its own clock.
    pub spread_us: u64,
    /// By which these clocks may be apart.
    pub error_us: u64,
}

impl Skew {
    /// The most that the starts can have been apart.
    pub fn total_us(self) -> u64 {
        self.spread_us.saturating_add(self.error_us)
    }
}

/// Where an attempt and its task stood when the task ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// All awaited tasks are over and all services were ready: the attempt did what it should.
    pub complete: bool,
    /// The task was ready.
    pub ready: bool,
    /// The attempt was begun by a former controller.
    pub inherited: bool,
    /// The connection to a host of the attempt is gone.
    pub apart: bool,
}

/// What the end of a task means for its attempt; `None` if it is no failure.
pub(crate) fn failure_of(role: &RoleShape, label: &str, end: &EndKind, at: Standing) -> Option<Failure> {
    let early = if at.ready { "before the clients were done" } else { "before it was ready" };
    match (end, role.kind) {
        (EndKind::Exited(_), RoleKind::Service) if at.complete => None,
        (EndKind::Exited(status), RoleKind::Service) => Some(Failure::ng(
            Rank::Crash,
            NgCause::Crash,
            format!("{label} ended with status {status} {early}"),
        )),
        (EndKind::Signaled(signal), RoleKind::Service) => {
            let when = if at.complete { "after the clients were done" } else { early };
            let detail = format!("{label} was killed by {} {when}", signal_name(*signal));
            Some(Failure::ng(Rank::Crash, NgCause::Crash, detail))
        }
        (EndKind::Exited(status), RoleKind::Awaited) if role.status.accepts(*status) => None,
        (EndKind::Exited(status), RoleKind::Awaited) => {
            let detail = format!("{label} ended with status {status}");
            Some(Failure::error(Rank::Script, ErrorCause::Script, detail))
        }
        (EndKind::Signaled(signal), RoleKind::Awaited) => {
            let detail = format!("{label} was killed by {}", signal_name(*signal));
            Some(Failure::error(Rank::Script, ErrorCause::Script, detail))
        }
        (EndKind::Deadline, RoleKind::Service) if at.complete => None,
        // It may have waited for orders that could not be given.
        (EndKind::Deadline, RoleKind::Service) if at.apart => {
            let detail =
                format!("{label} ran into its deadline while the connection to another host was gone");
            Some(Failure::error(Rank::Lost, ErrorCause::AgentLost, detail))
        }
        (EndKind::Deadline, _) => {
            let detail = format!("{label} was still running at its deadline");
            Some(Failure::ng(Rank::Timeout, NgCause::Timeout, detail))
        }
        (EndKind::NotReady(what), _) => Some(Failure::ng(
            Rank::NotReady,
            NgCause::NotReady,
            format!("{label} was not ready in time: {what}"),
        )),
        (
            EndKind::Stopped(_) | EndKind::Killed | EndKind::NotStarted(NotStarted::Cancelled, _),
            RoleKind::Service,
        ) if at.complete => None,
        (EndKind::Stopped(_) | EndKind::Killed | EndKind::NotStarted(NotStarted::Cancelled, _), _) => {
            Some(Failure::stopped(label, at.inherited))
        }
        (EndKind::NotStarted(cause, what), _) => Some(not_started(label, *cause, what)),
        (EndKind::AgentLost, _) => Some(Failure::agent_lost(label, "the agent ended while it ran")),
    }
}

fn not_started(label: &str, cause: NotStarted, what: &str) -> Failure {
    let detail = format!("{label} was not started: {what}");
    match cause {
        NotStarted::NotFound | NotStarted::Permission => {
            Failure::error(Rank::NotStarted, ErrorCause::Command, detail)
        }
        NotStarted::PortTaken => Failure::error(Rank::NotStarted, ErrorCause::PortTaken, detail),
        NotStarted::DiskFull => Failure::error(Rank::NotStarted, ErrorCause::DiskFull, detail),
        NotStarted::WrongCpus => Failure::missing(Rank::WrongCpus, MissingCause::WrongCpus, detail),
        NotStarted::Cancelled | NotStarted::Other => {
            Failure::error(Rank::NotStarted, ErrorCause::Internal, detail)
        }
    }
}

/// What an attempt comes to, from the strongest failure of its tasks, the driver's findings, and what the scheduler saw
/// itself.
pub(crate) fn decide(failure: Option<Verdict>, outcome: CollectOutcome, seen: Vec<Doubt>) -> Verdict {
    if let Some(verdict) = failure {
        return verdict;
    }
    if let Some(verdict) = outcome.wrong_machine {
        return verdict;
    }
    if let Some((cause, detail)) = outcome.failed {
        return Verdict::Error { cause, detail };
    }
    if let Some(detail) = outcome.check_failed {
        return Verdict::Ng { cause: NgCause::CheckFailed, detail };
    }
    if let Some(detail) = outcome.parse_error {
        return Verdict::Error { cause: ErrorCause::Parse, detail };
    }
    let mut doubts = seen;
    doubts.extend(outcome.doubts);
    if doubts.is_empty() { Verdict::Ok } else { Verdict::Suspect { doubts } }
}

/// Tasks of several hosts started together, and the error of their clocks was never learned.
pub(crate) fn doubt_of_skew(spread_us: u64) -> Doubt {
    let detail = format!(
        "tasks that start together started {spread_us} us apart by the hosts' own clocks; how far these differ is not known"
    );
    Doubt { kind: DoubtKind::StartSkew, detail }
}

/// It passed, and was `ng` before.
pub(crate) fn doubt_of_retry(ngs: u32) -> Option<Doubt> {
    let times = if ngs == 1 { "once".to_owned() } else { format!("{ngs} times") };
    (ngs > 0).then(|| Doubt { kind: DoubtKind::PassedOnRetry, detail: format!("it was ng {times} before") })
}

/// A task left processes behind, or wrote more than was kept.
pub(crate) fn doubts_of_ending(label: &str, ending: &crate::Ending) -> impl Iterator<Item = Doubt> + use<> {
    let leftovers = (ending.leftovers > 0).then(|| Doubt {
        kind: DoubtKind::Leftovers,
        detail: format!("{label} left {} processes, which were killed", ending.leftovers),
    });
    let cut = (ending.output_cut > 0).then(|| Doubt {
        kind: DoubtKind::OutputCut,
        detail: format!(
            "{} bytes of the output of {label} were over the limit and not kept",
            ending.output_cut
        ),
    });
    leftovers.into_iter().chain(cut)
}

/// A signal for people. Numbers are those of Linux on x86, arm, riscv and s390.
fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    format!("signal {signal} ({name})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StatusPolicy;

    fn role(kind: RoleKind) -> RoleShape {
        RoleShape {
            name: "r".parse().unwrap(),
            kind,
            after: vec![],
            instances: 1,
            hosts: 1,
            pool: vec![0],
            pinned: false,
            same_host_as: None,
            other_host_than: vec![],
            reach: false,
            outlasts: false,
            status: StatusPolicy::OneOf(vec![0, 3]),
            backstop: Duration::ZERO,
            stop_backstop: Duration::ZERO,
        }
    }

    const RUNNING: Standing = Standing { complete: false, ready: true, inherited: false, apart: false };

    fn cause(kind: RoleKind, end: &EndKind, at: Standing) -> &'static str {
        failure_of(&role(kind), "r", end, at).map_or("", |failure| failure.verdict.cause())
    }

    #[test]
    fn expect_the_cause_that_fits_when_a_task_ends() {
        use EndKind::{AgentLost, Deadline, Exited, Killed, NotReady, NotStarted, Signaled, Stopped};
        let text = String::new;
        // How it ended, and what that means for a service, and for an awaited role, in an attempt under way.
        let rows = [
            (Exited(0), "crash", ""),
            (Exited(3), "crash", ""),
            (Exited(1), "crash", "script"),
            (Signaled(9), "crash", "script"),
            (Stopped(Some(0)), "internal", "internal"),
            (Killed, "internal", "internal"),
            (Deadline, "timeout", "timeout"),
            (NotReady(text()), "not-ready", "not-ready"),
            (NotStarted(super::NotStarted::NotFound, text()), "command", "command"),
            (NotStarted(super::NotStarted::Permission, text()), "command", "command"),
            (NotStarted(super::NotStarted::PortTaken, text()), "port-taken", "port-taken"),
            (NotStarted(super::NotStarted::DiskFull, text()), "disk-full", "disk-full"),
            (NotStarted(super::NotStarted::WrongCpus, text()), "wrong-cpus", "wrong-cpus"),
            (NotStarted(super::NotStarted::Other, text()), "internal", "internal"),
            (AgentLost, "agent-lost", "agent-lost"),
        ];
        for (end, service, awaited) in rows {
            assert_eq!(cause(RoleKind::Service, &end, RUNNING), service, "{end:?}");
            assert_eq!(cause(RoleKind::Awaited, &end, RUNNING), awaited, "{end:?}");
        }
    }

    #[test]
    fn expect_no_failure_when_a_service_ends_after_the_work() {
        use EndKind::{Deadline, Exited, Killed, Signaled, Stopped};
        let complete = Standing { complete: true, ..RUNNING };
        for end in [Exited(1), Stopped(None), Killed, Deadline] {
            assert_eq!(cause(RoleKind::Service, &end, complete), "", "{end:?}");
        }
        assert_eq!(cause(RoleKind::Service, &Signaled(11), complete), "crash", "whenever");
        let inherited = Standing { inherited: true, ..RUNNING };
        assert_eq!(cause(RoleKind::Awaited, &Stopped(None), inherited), "cancelled");
        let apart = Standing { apart: true, ..RUNNING };
        assert_eq!(cause(RoleKind::Service, &Deadline, apart), "agent-lost", "it may have waited for us");
        assert_eq!(cause(RoleKind::Awaited, &Deadline, apart), "timeout", "it had all it needs");
    }

    #[test]
    fn expect_the_strongest_finding_when_there_are_several() {
        let doubt = || Doubt { kind: DoubtKind::Network, detail: "7 drops".to_owned() };
        let mut outcome = CollectOutcome {
            failed: Some((ErrorCause::DiskFull, "no space".to_owned())),
            check_failed: Some("failed is 3, must be 0".to_owned()),
            parse_error: Some("no rate".to_owned()),
            wrong_machine: Some(Verdict::Missing { cause: MissingCause::WrongCpus, detail: String::new() }),
            doubts: vec![doubt()],
        };
        let decided = |failure: Option<&Failure>, outcome: &CollectOutcome| {
            decide(failure.map(|failure| failure.verdict.clone()), outcome.clone(), vec![]).cause()
        };
        assert_eq!(decided(Some(&Failure::cancelled()), &outcome), "cancelled");
        assert_eq!(decided(None, &outcome), "wrong-cpus");
        outcome.wrong_machine = None;
        assert_eq!(decided(None, &outcome), "disk-full");
        outcome.failed = None;
        assert_eq!(decided(None, &outcome), "check-failed");
        outcome.check_failed = None;
        assert_eq!(decided(None, &outcome), "parse");
        outcome.parse_error = None;
        assert_eq!(decided(None, &outcome), "network");
        outcome.doubts.clear();
        assert_eq!(decide(None, outcome, vec![]), Verdict::Ok);
        let both = CollectOutcome { doubts: vec![doubt()], ..CollectOutcome::default() };
        let seen: Vec<Doubt> = doubt_of_retry(2).into_iter().collect();
        assert_eq!(decide(None, both, seen).detail(), "it was ng 2 times before; 7 drops");
    }
}
