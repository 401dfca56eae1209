//! Virtual machines in a run: which one a cell asks for, whether a host is it, and what became of one that died.

use std::collections::BTreeMap;

use drover_connect::{Machine, Target, VmHost};
use drover_matrix::Matrix;
use drover_model::{AttemptId, Cell, HostFacts, MissingCause, Name, NgCause, TaskId, Verdict};
use drover_sched::Event;
use drover_vm::{Expected, Found, Mismatch};

use super::{drive::Driver, prepare, setup::HostSetup};

/// The machine that a host is being made, and for what.
pub struct Making {
    attempt: AttemptId,
    machine: Machine,
}

/// What a host is, by what a cell asks for.
pub enum Look {
    /// It is what was asked for. What a virtual machine must say of itself goes with it.
    Right(Option<Expected>),
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

/// The machine that a cell asks for, where `usual` holds for what it does not name.
fn machine_of(cell: &Cell, usual: &Machine) -> Result<Machine, Verdict> {
    let kernel = cell.value("kernel").filter(|kernel| *kernel != "running");
    let cpus = match cell.value("cpus") {
        None => usual.cpus,
        Some(text) => text.parse().ok().filter(|count| *count > 0).ok_or_else(|| Verdict::Missing {
            cause: MissingCause::WrongCpus,
            detail: format!("no machine can have `{text}` CPUs"),
        })?,
    };
    Ok(Machine { kernel: kernel.map_or_else(|| usual.kernel.clone(), str::to_owned), cpus })
}

/// Tells virtual machines which cell comes first, so that they are not booted as something else before.
pub fn wish_for(matrix: &Matrix, cell: u32, hosts: &BTreeMap<Name, HostSetup>) {
    let Some(planned) = matrix.cell(cell) else { return };
    for setup in hosts.values() {
        if let Target::Vm(vm) = &setup.target
            && let Ok(machine) = machine_of(&planned.cell, &vm.options().usual)
        {
            vm.wish(machine);
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
    fn vm(&self, host: &Name) -> Option<&VmHost> {
        match &self.hosts.get(host)?.target {
            Target::Vm(vm) => Some(vm),
            _ => None,
        }
    }

    /// Whether a host is what the cell asks for. Other hosts than virtual machines are taken as they are.
    pub(super) fn look_at(&self, cell: &Cell, host: &Name, facts: &HostFacts) -> Look {
        let Some(vm) = self.vm(host) else {
            return prepare::machine_mismatch(cell, host, facts).map_or(Look::Right(None), Look::Wrong);
        };
        let machine = match machine_of(cell, &vm.options().usual) {
            Ok(machine) => machine,
            Err(verdict) => return Look::Wrong(verdict),
        };
        if let Some((cause, detail)) = vm.refusal(&machine) {
            return Look::Wrong(Verdict::Missing { cause, detail });
        }
        match vm.now().filter(|now| now.machine == machine) {
            None => Look::Needed,
            Some(now) => match now.expected.compare(&Found::of_facts(facts)) {
                Ok(()) => Look::Right(Some(now.expected)),
                Err(mismatch) => Look::Wrong(verdict_of(&mismatch, "before the trial")),
            },
        }
    }

    /// Boots a host as the machine that an attempt asks for, and connects to it.
    pub(super) fn make_machine(&mut self, host: Name, attempt: AttemptId) -> Option<Event> {
        let planned = self.matrix.cell(attempt.trial.cell)?;
        let vm = self.vm(&host)?;
        match machine_of(&planned.cell, &vm.options().usual) {
            Ok(machine) => {
                vm.wish(machine.clone());
                let Machine { kernel, cpus } = &machine;
                let count = if *cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") };
                self.progress.notice(&format!("host {host} boots kernel {kernel} with {count}"));
                self.making.insert(host.clone(), Making { attempt, machine });
                self.connect(host);
                None
            }
            Err(verdict) => Some(Event::MachineRefused { host, attempt, verdict }),
        }
    }

    /// A host is connected that was to be made another machine: the refusal, if it is not.
    pub(super) fn made(&mut self, host: &Name) -> Option<Event> {
        let Making { attempt, machine } = self.making.remove(host)?;
        let vm = self.vm(host)?;
        if vm.now().is_some_and(|now| now.machine == machine) {
            return None;
        }
        let (cause, detail) = vm.refusal(&machine)?;
        let verdict = Verdict::Missing { cause, detail };
        Some(Event::MachineRefused { host: host.clone(), attempt, verdict })
    }

    /// Tells of a machine that has died since the last time, and keeps what its console said with the attempts there.
    pub(super) fn tell_death(&mut self, host: &Name) {
        let Some(death) = self.vm(host).and_then(VmHost::take_death) else { return };
        let verdict = death.verdict;
        self.progress.notice(&format!("host {host} died: {}: {}", verdict.cause(), verdict.detail()));
        let is_there = |seats: &drover_model::Seats| seats.hosts().contains(&host);
        let there = self.attempts.iter().filter(|(_, attempt)| {
            attempt.summary.is_none()
                && !attempt.tasks.is_empty()
                && attempt.seats.as_deref().is_some_and(is_there)
        });
        for (id, _) in there {
            let folder = self.results.attempt_path(id);
            let (name, text) = (format!("evidence.{host}.txt"), death.evidence.clone());
            tokio::task::spawn_blocking(move || {
                let kept =
                    std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join(name), text));
                if let Err(error) = kept {
                    tracing::warn!("a console is not kept in {}: {error}", folder.display());
                }
            });
        }
        self.feed(Event::HostDied { host: host.clone(), verdict });
    }

    /// Asks the machines of an attempt what they are, now that it is over. Whether there is something to wait for.
    pub(super) fn verify_machines(&mut self, id: AttemptId, tasks: &[(Name, TaskId)]) -> bool {
        let Some(attempt) = self.attempts.get_mut(&id) else { return false };
        let mut waits = false;
        for (host, expected) in attempt.machines.clone() {
            let (Some(link), Some(setup)) = (self.links.get(&host), self.hosts.get(&host)) else { continue };
            let Target::Vm(vm) = &setup.target else { continue };
            match attempt.verified.get(&host) {
                Some((generation, said)) if *generation == link.generation() => {
                    waits |= matches!(said, Verified::Asked);
                }
                _ => {
                    attempt.verified.insert(host, (link.generation(), Verified::Asked));
                    link.verify(id, vm.clone(), expected, self.results.attempt_path(&id));
                    waits = true;
                }
            }
        }
        attempt.to_collect = tasks.to_vec();
        waits
    }

    /// A machine said what it is after an attempt; collects when all have.
    pub(super) fn verified(&mut self, id: AttemptId, host: &Name, problem: Option<Verdict>) -> Option<Event> {
        let attempt = self.attempts.get_mut(&id)?;
        attempt.verified.get_mut(host)?.1 = Verified::Said(problem);
        let tasks = std::mem::take(&mut attempt.to_collect);
        self.collect(id, &tasks)
    }
}

#[cfg(test)]
mod tests {
    use drover_model::CellKey;

    use super::*;

    fn cell(values: &[(&str, &str)]) -> Cell {
        let values = values.iter().map(|(axis, value)| (axis.parse().unwrap(), (*value).into()));
        Cell { index: 0, key: CellKey::of([]), values: values.collect() }
    }

    #[test]
    fn expect_the_usual_machine_where_a_cell_does_not_say() {
        let usual = Machine { kernel: "6.1".into(), cpus: 2 };
        assert_eq!(machine_of(&cell(&[]), &usual).unwrap(), usual);
        assert_eq!(machine_of(&cell(&[("kernel", "running")]), &usual).unwrap(), usual);
        let asked = machine_of(&cell(&[("kernel", "a b"), ("cpus", "4")]), &usual).unwrap();
        assert_eq!(asked, Machine { kernel: "a b".into(), cpus: 4 });
        for bad in ["0", "two", "-1"] {
            assert_eq!(machine_of(&cell(&[("cpus", bad)]), &usual).unwrap_err().cause(), "wrong-cpus");
        }
    }

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
