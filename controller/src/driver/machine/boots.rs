//! Hosts that are no virtual machines are made what cells ask for, and at the end what they were before the run.

use drover_matrix::Boot;
use drover_model::{AttemptId, Cell, HostFacts, MissingCause, Name, Verdict};
use drover_sched::Event;

use super::{
    Change, Look, count_of,
    ledger::{Asked, Standing, Wanted},
    real::{Judged, Real},
};
use crate::{
    driver::{
        drive::Driver,
        link::{BootOrder, BootOutcome},
    },
    time::unix_ms,
};

/// Boots in vain of one kernel, where the cause may pass.
const TRIES: u32 = 2;

/// A boot that was asked for, for an attempt.
pub struct Booting {
    wanted: Wanted,
    /// Its power was cycled meanwhile: it did not come back by itself.
    was_lost: bool,
}

/// Looks at a host with what is known of it.
fn with_real<T>(
    driver: &Driver,
    host: &Name,
    look: impl FnOnce(&Real<'_>) -> T,
) -> Option<(T, Option<Boot>, Standing)> {
    let (link, setup) = (driver.links.get(host)?, driver.hosts.get(host)?);
    let standing = driver.machines.ledger.of(host);
    let facts = &link.hello().facts;
    let real = Real { host, boot: setup.boot.as_ref(), cpus: setup.cpus, standing: &standing, facts };
    let seen = look(&real);
    Some((seen, setup.boot.clone(), standing))
}

impl Driver {
    /// Whether a host is what the cell asks for. What was tried in vain in this run is not tried again for each trial.
    pub(super) fn look_at_real(&mut self, cell: &Cell, host: &Name) -> Option<Look> {
        let seen = with_real(self, host, |real| {
            let judged = real.judge(cell);
            let expected = (judged == Judged::Right).then(|| real.expected());
            let story = real.standing.last.as_ref().map(|asked| real.story(asked));
            (judged, expected, story)
        });
        let ((judged, expected, story), boot, standing) = seen?;
        let booting = self.machines.booting.remove(host);
        let change = match judged {
            Judged::Right => return Some(Look::Right(Box::new(expected?))),
            Judged::Wrong(verdict) => return Some(Look::Wrong(verdict)),
            Judged::Needs(change) => change,
        };
        let key = (host.clone(), change);
        if let Some(booting) = booting.filter(|booting| key.1 == Change::Boot(booting.wanted.clone())) {
            let mut detail = story.unwrap_or_else(|| format!("host {host} did not come up as it should"));
            if booting.was_lost {
                detail.push_str("; it had not come back by itself, and its power was cycled");
            }
            let verdict = Verdict::Missing { cause: MissingCause::WrongKernel, detail };
            let failures = self.machines.failures.entry(key.clone()).or_default();
            *failures += 1;
            if !booting.was_lost || *failures >= TRIES {
                self.machines.refused.insert(key, verdict.clone());
            }
            return Some(Look::Wrong(verdict));
        }
        if let Some(verdict) = self.machines.refused.get(&key) {
            return Some(Look::Wrong(verdict.clone()));
        }
        if let (Change::Boot(_), Some(boot)) = (&key.1, boot)
            && standing.times >= boot.times
        {
            let detail = format!(
                "host {host} was booted {} times in this run, which is all that `times` of its `boot` in the host file allows",
                standing.times
            );
            return Some(Look::Wrong(Verdict::Missing { cause: MissingCause::BudgetSpent, detail }));
        }
        Some(Look::Needed)
    }

    /// Makes a host what an attempt asks for.
    pub(super) fn make_real(&mut self, host: Name, attempt: AttemptId) -> Option<Event> {
        let planned = self.matrix.cell(attempt.trial.cell)?;
        let Some((judged, ..)) = with_real(self, &host, |real| real.judge(&planned.cell)) else {
            self.connect(host);
            return None;
        };
        match judged {
            Judged::Right => self.connect(host),
            Judged::Wrong(verdict) => return Some(Event::MachineRefused { host, attempt, verdict }),
            Judged::Needs(Change::Cpus(count)) => {
                self.progress.notice(&format!("host {host} keeps {} online", count_of(count)));
                self.links.get(&host)?.set_cpus(attempt, count);
            }
            Judged::Needs(Change::Boot(wanted)) => {
                let kernel = match &wanted.kernel {
                    Some(label) => format!("kernel {label}"),
                    None => "the kernel that it ran before the run".to_owned(),
                };
                let count = wanted.cpus.map(|cpus| format!(" with {}", count_of(cpus))).unwrap_or_default();
                self.progress.notice(&format!("host {host} boots {kernel}{count}"));
                self.boot(host, Some(attempt), wanted);
            }
        }
        None
    }

    /// Has a host boot. Its link goes with the order: whatever is still heard on it counts no more.
    fn boot(&mut self, host: Name, attempt: Option<AttemptId>, wanted: Wanted) {
        let (link, setup) = (self.links.remove(&host), self.hosts.get(&host));
        let Some((link, setup, boot)) = link.and_then(|link| Some((link, setup?, setup?.boot.clone()?)))
        else {
            return self.connect(host);
        };
        self.generation += 1;
        self.generations.insert(host.clone(), self.generation);
        let order = BootOrder {
            generation: self.generation,
            run: self.run,
            holder: self.holder.clone(),
            cpus: wanted.cpus.zip(setup.cpus),
            asked: Asked {
                attempt,
                wanted,
                nonce: None,
                leaves: link.hello().facts.boot_id.clone(),
                at_unix_ms: unix_ms(),
            },
            boot,
            pen: self.machines.ledger.pen(),
        };
        link.boot(order);
    }

    /// A host goes down, as it was told to, or does not.
    pub(in crate::driver) fn told_to_boot(
        &mut self,
        host: Name,
        generation: u64,
        attempt: Option<AttemptId>,
        outcome: BootOutcome,
    ) {
        if let BootOutcome::Rebooting(asked) | BootOutcome::Refused { asked: Some(asked), .. } = &outcome {
            self.machines.ledger.asked(&host, asked.clone());
        }
        if self.generations.get(&host) != Some(&generation) {
            return;
        }
        self.generations.remove(&host);
        let event = match outcome {
            BootOutcome::Rebooting(asked) => {
                tracing::info!("host {host} goes down: {:?}", asked.wanted);
                if attempt.is_some() {
                    let booting = Booting { wanted: asked.wanted, was_lost: false };
                    self.machines.booting.insert(host.clone(), booting);
                }
                Event::HostRebooting { host }
            }
            BootOutcome::Refused { asked, wanted, verdict } => {
                if asked.is_some() {
                    self.machines.ledger.stays(&host);
                }
                match attempt {
                    Some(attempt) => {
                        if matches!(verdict, Verdict::Missing { .. }) {
                            let key = (host.clone(), Change::Boot(wanted));
                            self.machines.refused.insert(key, verdict.clone());
                        }
                        Event::MachineRefused { host, attempt, verdict }
                    }
                    None => {
                        let why = format!(
                            "host {host} was booted by this run and is not what it was before: {}",
                            verdict.detail()
                        );
                        Event::MachineRestored { host, problem: Some(why) }
                    }
                }
            }
            BootOutcome::Lost(why) => {
                tracing::warn!("host {host} is lost: {why}");
                Event::HostLost { host, why }
            }
        };
        self.feed(event);
    }

    /// CPUs of a host were taken offline or put back, or not.
    pub(in crate::driver) fn cpus_set(
        &mut self,
        host: Name,
        attempt: AttemptId,
        count: u32,
        facts: Result<HostFacts, Verdict>,
    ) {
        let event = match facts {
            Ok(facts) => {
                let boot_id = facts.boot_id.clone();
                self.note_facts(&host, &facts);
                self.links.get_mut(&host).into_iter().for_each(|link| link.learn(facts.clone()));
                Event::HostConnected { host, boot_id }
            }
            Err(verdict) => {
                self.machines.refused.insert((host.clone(), Change::Cpus(count)), verdict.clone());
                Event::MachineRefused { host, attempt, verdict }
            }
        };
        self.feed(event);
    }

    /// A host is ours. What runs there when that is so for the first time, runs there after the run.
    pub(in crate::driver) fn note_golden(&mut self, host: &Name) {
        if self.hosts.get(host).is_some_and(|setup| setup.boot.is_some())
            && let Some(link) = self.links.get(host)
        {
            self.machines.ledger.found(host, &link.hello().facts);
        }
    }

    /// Whether a host was told to boot, and has not been seen since.
    pub(in crate::driver) fn is_booting(&self, host: &Name) -> bool {
        self.machines.ledger.of(host).leaves().is_some()
    }

    /// The power of a host is cycled: what it comes back as is no boot of ours.
    pub(in crate::driver) fn note_cycle(&mut self, host: &Name) {
        if let Some(booting) = self.machines.booting.get_mut(host) {
            booting.was_lost = true;
        }
        self.machines.ledger.cycled(host);
    }

    /// The run is over: sees to it that a host is what it was before.
    pub(in crate::driver) fn restore_machine(&mut self, host: Name) -> Option<Event> {
        self.machines.booting.remove(&host);
        let seen = with_real(self, &host, |real| (real.is_golden(), real.facts.clone()));
        let Some(((is_golden, facts), _, standing)) = seen else {
            return Some(Event::HostLost { host, why: "there is no connection to it".to_owned() });
        };
        if is_golden || !standing.astray {
            if standing.astray {
                self.progress.notice(&format!("host {host} runs {} again", facts.kernel_release));
            }
            self.machines.ledger.restored(&host);
            return Some(Event::MachineRestored { host, problem: None });
        }
        let golden = standing.golden.map(|golden| golden.release).unwrap_or_default();
        let was_told = standing.last.is_some_and(|asked| asked.wanted == Wanted::default());
        if was_told && standing.up.as_ref() == Some(&facts.boot_id) {
            let why = format!(
                "host {host} was rebooted and runs {} by itself; before the run it was {golden}",
                facts.kernel_release
            );
            return Some(Event::MachineRestored { host, problem: Some(why) });
        }
        self.progress.notice(&format!("host {host} is rebooted to what it ran before: {golden}"));
        self.boot(host, None, Wanted::default());
        None
    }

    /// Tells of hosts that are left as other machines than before the run.
    pub(in crate::driver) fn tell_of_astray(&mut self) {
        for host in self.machines.ledger.astray() {
            if self.hosts.contains_key(host) {
                self.progress.notice(&format!(
                    "host {host} may run another kernel than before the run; a reboot puts that right, and so does `drover resume`"
                ));
            }
        }
    }
}
