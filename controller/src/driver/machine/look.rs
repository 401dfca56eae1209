//! The proof: what the hosts under test say of themselves before a trial and after it, kept beside its outputs.

use drover_connect::Target;
use drover_matrix::Axis;
use drover_model::{AttemptId, Cell, HostFacts, Name, NgCause, Verdict};
use drover_sched::Event;
use drover_vm::{Expected, Mismatch};

use crate::driver::{drive::Driver, link::Subject};

/// What a host is, by what a cell asks for.
pub enum Look {
    /// It is what was asked for. What it must say of itself goes with it.
    Right(Box<Expected>),
    /// It can be made what was asked for.
    Needed,
    /// It cannot.
    Wrong(Verdict),
}

/// What a machine said after an attempt.
#[derive(Debug)]
pub enum Verified {
    /// It was asked.
    Asked,
    /// What is wrong with it, if something is.
    Said(Option<Verdict>),
}

impl Verified {
    /// What is wrong, as far as is known.
    pub fn problem(&self) -> Option<Verdict> {
        match self {
            Self::Asked => None,
            Self::Said(problem) => problem.clone(),
        }
    }
}

/// What it means for an attempt that its machine is not the one asked for.
pub fn verdict_of(mismatch: &Mismatch, when: &str) -> Verdict {
    let text = mismatch.to_string();
    // It begins with the cause, which has a column of its own.
    let detail = format!("{when}: {}", text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest));
    match mismatch.missing_cause() {
        Some(cause) => Verdict::Missing { cause, detail },
        None => Verdict::Ng { cause: NgCause::UnexpectedReboot, detail },
    }
}

impl Driver {
    /// Whether a host is what the cell asks for.
    pub(in crate::driver) fn look_at(&mut self, cell: &Cell, host: &Name) -> Option<Look> {
        match self.vm(host) {
            Some(vm) => Some(Self::look_at_vm(vm, cell, &self.links.get(host)?.hello().facts)),
            None => self.look_at_real(cell, host),
        }
    }

    /// Whether a host is asked after every trial what it is: where a cell may ask for a machine, or the host can be made another
    /// one. Asking costs a cell without work a fifth of its time; elsewhere, what the host said when it was connected will do, and
    /// its boot id, which every connection tells.
    pub(in crate::driver) fn is_proven(&self, host: &Name) -> bool {
        self.matrix.axes().iter().any(Axis::is_machine)
            || self.hosts.get(host).is_some_and(|setup| {
                matches!(setup.target, Target::Vm(_)) || setup.boot.is_some() || setup.cpus.is_some()
            })
    }

    /// Makes a host the machine that an attempt asks for.
    pub(in crate::driver) fn make_machine(&mut self, host: Name, attempt: AttemptId) -> Option<Event> {
        match self.vm(&host) {
            Some(_) => self.make_vm(host, attempt),
            None => self.make_real(host, attempt),
        }
    }

    /// Asks the machines of an attempt what they are, now that it is over.
    pub(in crate::driver) fn verify_machines(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        for (host, expected) in attempt.machines.clone() {
            let (Some(link), Some(setup)) = (self.links.get(&host), self.hosts.get(&host)) else { continue };
            // One that was asked on this connection has answered, or will.
            if attempt.verified.get(&host).is_some_and(|(asked, _)| *asked == link.generation()) {
                continue;
            }
            let subject = match &setup.target {
                Target::Vm(vm) => Subject::Vm(vm.clone()),
                _ => Subject::Host { kernel: attempt.cell.value("kernel").map(str::to_owned) },
            };
            attempt.verified.insert(host, (link.generation(), Verified::Asked));
            link.verify(id, subject, expected, self.results.attempt_path(&id));
        }
    }

    /// Whether a machine of an attempt was asked what it is, and has not answered.
    pub(in crate::driver) fn waits_for_machines(&self, id: AttemptId) -> bool {
        let Some(attempt) = self.attempts.get(&id) else { return false };
        attempt.verified.iter().any(|(host, (asked, said))| {
            let stands = self.links.get(host).is_some_and(|link| link.generation() == *asked);
            stands && matches!(said, Verified::Asked)
        })
    }

    /// A machine said what it is after an attempt; goes on when all have, if all else is here.
    pub(in crate::driver) fn verified(
        &mut self,
        id: AttemptId,
        host: &Name,
        facts: HostFacts,
        problem: Option<Verdict>,
    ) -> Option<Event> {
        // What runs the instructions of a virtual machine is not for itself to say.
        if self.vm(host).is_none() {
            self.links.get_mut(host).into_iter().for_each(|link| link.learn(facts.clone()));
        }
        let attempt = self.attempts.get_mut(&id)?;
        attempt.verified.get_mut(host)?.1 = Verified::Said(problem);
        if std::mem::take(&mut attempt.waits_for_machines) { self.collected(id) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use drover_vm::Found;

    use super::*;

    #[test]
    fn expect_no_number_whatever_differs() {
        let found =
            || Found { release: "6.1".into(), boot_id: "a".into(), cpus: [0].into(), ..Found::default() };
        let cause = |expected: Expected| {
            verdict_of(&expected.compare(&found()).unwrap_err(), "after the trial").cause()
        };
        assert_eq!(cause(Expected { release: Some("6.2".into()), ..Expected::default() }), "wrong-kernel");
        assert_eq!(cause(Expected { cpu_count: Some(2), ..Expected::default() }), "wrong-cpus");
        let rebooted = Expected { boot_id: Some("b".into()), ..Expected::default() };
        assert_eq!(cause(rebooted), "unexpected-reboot");
    }
}
