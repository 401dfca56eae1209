//! What is to happen in a round: drawn from its seed alone, before anything runs.

use std::fmt;

use crate::rng::Rng;

/// Hosts of a round in the lab: one for the server, two for its clients.
pub const LAB_HOSTS: usize = 3;

/// One round.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub seed: u64,
    /// Hosts in network namespaces, reached by ssh; otherwise the agent of this machine.
    pub lab: bool,
    /// A server and two clients that start together; otherwise one job.
    pub crew: bool,
    pub cells: u64,
    /// How long a job works.
    pub work_ms: u64,
    /// The results are on a disk of their own, which can fail.
    pub store_disk: bool,
    /// The agent's folder is on a small disk of its own.
    pub agent_disk: bool,
    /// By which the clock of a lab's second host is wrong.
    pub clock_s: i64,
    /// Nothing goes wrong before the first job has begun.
    pub warm: bool,
    pub steps: Vec<Step>,
}

/// One misfortune, and the time after the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub after_ms: u64,
    pub fault: Fault,
}

/// What goes wrong. `host` counts from 0, `pick` chooses among the tasks that run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    KillController,
    StopController { ms: u64 },
    Interrupt,
    KillAgent { host: usize },
    StopAgent { host: usize, ms: u64 },
    KillBoth { host: usize },
    KillTask { pick: u64 },
    StopTask { pick: u64, ms: u64 },
    CutLink { host: usize, ms: u64 },
    KillSshd { host: usize, ms: u64 },
    FillStore { ms: u64 },
    BreakStore,
    FillAgent { ms: u64 },
    SetClock { s: i64 },
}

/// What this machine allows.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// Network namespaces and mounts.
    pub root: bool,
    /// File systems in files.
    pub loops: bool,
}

impl Plan {
    pub fn draw(seed: u64, means: Means) -> Self {
        let mut rng = Rng::new(seed);
        // Drawn always, so that the rest is the same whatever the means.
        let (lab, crew) = (rng.chance(20) && means.root, rng.chance(40));
        let store_disk = rng.chance(50) && means.loops && !lab;
        let agent_disk = rng.chance(30) && means.root && !lab;
        let crew = crew || lab;
        let cells = if crew { rng.between(6, 14) } else { rng.between(12, 40) };
        let mut plan = Self {
            seed,
            lab,
            crew,
            cells,
            work_ms: rng.between(5, 60),
            store_disk,
            agent_disk,
            clock_s: if rng.chance(50) { 0 } else { clock(&mut rng) },
            warm: rng.chance(75),
            steps: Vec::new(),
        };
        for _ in 0..rng.between(2, 7) {
            let after_ms = if rng.chance(30) { rng.between(0, 30) } else { rng.between(30, 500) };
            let fault = plan.fault(&mut rng);
            plan.steps.push(Step { after_ms, fault });
        }
        plan
    }

    fn fault(&self, rng: &mut Rng) -> Fault {
        let host = usize::try_from(rng.between(0, 2)).unwrap_or(0);
        let host = if self.lab { host } else { 0 };
        let pick = rng.between(0, 99);
        let (short, long) = (rng.between(50, 600), rng.between(100, 1500));
        let in_lab = if self.lab { 1 } else { 0 };
        let (here, store) = (1 - in_lab, if self.store_disk { 1 } else { 0 });
        let agent = if self.agent_disk { 1 } else { 0 };
        rng.pick(&[
            (7, Fault::KillController),
            (2, Fault::StopController { ms: short }),
            (1, Fault::Interrupt),
            (3, Fault::KillAgent { host }),
            (2, Fault::StopAgent { host, ms: short }),
            (2, Fault::KillBoth { host }),
            (2, Fault::KillTask { pick }),
            (2, Fault::StopTask { pick, ms: short }),
            (6 * in_lab, Fault::CutLink { host, ms: long }),
            (2 * in_lab, Fault::KillSshd { host, ms: short }),
            (3 * store, Fault::FillStore { ms: short }),
            (3 * store, Fault::BreakStore),
            (4 * agent, Fault::FillAgent { ms: short }),
            (2 * here, Fault::SetClock { s: clock(&mut Rng::new(pick)) }),
        ])
    }
}

/// By how much a clock may be set: an hour, as at the end of summer time; a day; decades, as with an empty battery.
fn clock(rng: &mut Rng) -> i64 {
    const HOUR: i64 = 3600;
    rng.pick(&[
        (3, -HOUR),
        (2, HOUR),
        (1, -24 * HOUR),
        (1, 24 * HOUR),
        (1, 30 * 24 * HOUR),
        (1, -30 * 24 * HOUR),
        (1, -31 * 365 * 24 * HOUR),
        (2, 0),
    ])
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.lab { "lab of 3 hosts" } else { "this machine" };
        let job = if self.crew { "a server and 2 clients" } else { "one job" };
        write!(f, "seed {}: {place}, {} cells of {job}, {} ms each", self.seed, self.cells, self.work_ms)?;
        if self.store_disk {
            write!(f, ", results on a disk of their own")?;
        }
        if self.agent_disk {
            write!(f, ", agent on a small disk")?;
        }
        if self.lab && self.clock_s != 0 {
            write!(f, ", clock of h2 wrong by {} s", self.clock_s)?;
        }
        if self.warm {
            write!(f, "; once the first job has begun")?;
        }
        for step in &self.steps {
            write!(f, "\n    {:>4} ms later: {}", step.after_ms, step.fault)?;
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KillController => write!(f, "SIGKILL to the controller"),
            Self::StopController { ms } => write!(f, "SIGSTOP to the controller for {ms} ms"),
            Self::Interrupt => write!(f, "SIGTERM to the controller"),
            Self::KillAgent { host } => write!(f, "SIGKILL to the agent of host {host}"),
            Self::StopAgent { host, ms } => write!(f, "SIGSTOP to the agent of host {host} for {ms} ms"),
            Self::KillBoth { host } => write!(f, "SIGKILL to the controller and the agent of host {host}"),
            Self::KillTask { pick } => write!(f, "SIGKILL to a task ({pick})"),
            Self::StopTask { pick, ms } => write!(f, "SIGSTOP to a task ({pick}) for {ms} ms"),
            Self::CutLink { host, ms } => write!(f, "the link of host {host} is cut for {ms} ms"),
            Self::KillSshd { host, ms } => {
                write!(f, "SIGKILL to the sshd of host {host}, back after {ms} ms")
            }
            Self::FillStore { ms } => write!(f, "the disk of the results is full for {ms} ms"),
            Self::BreakStore => {
                write!(f, "the disk of the results fails; what was not synced is lost; it is replaced")
            }
            Self::FillAgent { ms } => write!(f, "the disk of the agent is full for {ms} ms"),
            Self::SetClock { s } => write!(f, "the clock is set to {s} s from the true time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const ALL: Means = Means { root: true, loops: true };

    #[test]
    fn expect_the_same_plan_when_the_seed_is_the_same() {
        for seed in 0..200 {
            assert_eq!(Plan::draw(seed, ALL), Plan::draw(seed, ALL));
        }
        assert_ne!(Plan::draw(1, ALL), Plan::draw(2, ALL));
    }

    #[test]
    fn expect_every_kind_of_fault_when_many_seeds_are_drawn() {
        let word = |fault: &Fault| format!("{fault:?}").split(' ').next().map(str::to_owned);
        let faults = |means| {
            let plans = (0..200).map(move |seed| Plan::draw(seed, means));
            plans.flat_map(|plan| plan.steps).filter_map(|step| word(&step.fault)).collect::<BTreeSet<_>>()
        };
        assert_eq!(faults(ALL).len(), 14, "{:?}", faults(ALL));
        // Nothing is asked for that a user who is not root cannot have.
        assert_eq!(faults(Means { root: false, loops: false }).len(), 9);
    }
}
