//! Virtual machines in a run: which one a cell asks for, whether a host is it, and what became of one that died.

use std::collections::BTreeMap;

use drover_connect::{Machine, Target, VmHost};
use drover_matrix::Matrix;
use drover_model::{AttemptId, Cell, HostFacts, MissingCause, Name, Verdict};
use drover_sched::Event;
use drover_vm::Found;

use super::look::{Look, verdict_of};
use crate::driver::{drive::Driver, setup::HostSetup};

/// The machine that a host is being made, and for what.
pub struct Making {
    attempt: AttemptId,
    machine: Machine,
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

impl Driver {
    pub(super) fn vm(&self, host: &Name) -> Option<&VmHost> {
        match &self.hosts.get(host)?.target {
            Target::Vm(vm) => Some(vm),
            _ => None,
        }
    }

    /// Whether a virtual machine is what the cell asks for.
    pub(super) fn look_at_vm(vm: &VmHost, cell: &Cell, facts: &HostFacts) -> Look {
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
                Ok(()) => Look::Right(Box::new(now.expected)),
                Err(mismatch) => Look::Wrong(verdict_of(&mismatch, "before the trial")),
            },
        }
    }

    /// Boots a virtual machine as the one that an attempt asks for, and connects to it.
    pub(super) fn make_vm(&mut self, host: Name, attempt: AttemptId) -> Option<Event> {
        let planned = self.matrix.cell(attempt.trial.cell)?;
        let vm = self.vm(&host)?;
        match machine_of(&planned.cell, &vm.options().usual) {
            Ok(machine) => {
                vm.wish(machine.clone());
                let Machine { kernel, cpus } = &machine;
                let count = super::count_of(*cpus);
                self.progress.notice(&format!("host {host} boots kernel {kernel} with {count}"));
                self.machines.making.insert(host.clone(), Making { attempt, machine });
                self.connect(host);
                None
            }
            Err(verdict) => Some(Event::MachineRefused { host, attempt, verdict }),
        }
    }

    /// A host is connected that was to be made another machine: the refusal, if it is not.
    pub(in crate::driver) fn made(&mut self, host: &Name) -> Option<Event> {
        let Making { attempt, machine } = self.machines.making.remove(host)?;
        let vm = self.vm(host)?;
        if vm.now().is_some_and(|now| now.machine == machine) {
            return None;
        }
        let (cause, detail) = vm.refusal(&machine)?;
        let verdict = Verdict::Missing { cause, detail };
        Some(Event::MachineRefused { host: host.clone(), attempt, verdict })
    }

    /// Tells of a machine that has died since the last time, and keeps what its console said with the attempts there.
    pub(in crate::driver) fn tell_death(&mut self, host: &Name) {
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
}
