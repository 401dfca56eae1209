//! Carries out what the scheduler decided. Each effect is a call that does not wait, or is answered at once.

use std::sync::Arc;

use drover_model::{AttemptId, Name, Seats};
use drover_sched::{Effect, Event};
use drover_store::{Command, Intent, Quarantine};

use super::{drive::Driver, finish::Ending, internal_event::InternalEvent, link, stored::Submitted};
use crate::time::{unix_ms, unix_us};

impl Driver {
    /// Carries out one effect; gives the answer if there is one already.
    pub(super) fn perform(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::ConnectHost { host } => {
                self.connect(host);
                None
            }
            Effect::CyclePower { host, why } => {
                self.cycle_power(host, &why);
                None
            }
            Effect::MakeMachine { host, attempt } => self.make_machine(host, attempt),
            Effect::RestoreMachine { host } => self.restore_machine(host),
            Effect::AcquireLease { host } => {
                let observe = self.matrix.policy().observe;
                self.links.get_mut(&host)?.acquire(self.run, self.holder.clone(), observe);
                None
            }
            Effect::ReleaseLease { host } => match self.links.get_mut(&host) {
                Some(link) => {
                    link.release();
                    None
                }
                None => Some(Event::LeaseReleased { host }),
            },
            Effect::QuarantineHost { host, why } => {
                self.quarantine(host, why);
                None
            }
            Effect::JournalAttempts { attempts } => self.journal(attempts),
            Effect::PrepareAttempt { attempt, seats } => self.begin(attempt, seats),
            Effect::CheckReach { attempt, role, from } => self.check_reach(attempt, &role, from),
            Effect::StartTask { host, task, hold } => self.start(&host, task, hold),
            Effect::ReleaseBarrier { attempt, hosts } => self.release_barrier(attempt, &hosts),
            Effect::StopTask { host, task, kill } if self.holds_stop(&host, &task, kill) => None,
            Effect::StopTask { host, task, kill } => {
                self.links.get(&host)?.stop(&task, kill);
                None
            }
            Effect::Collect { attempt, tasks } => self.collect(attempt, &tasks),
            Effect::StoreAttempt {
                attempt,
                seats,
                verdict,
                is_final,
                begun,
                ended,
                start_skew_us,
                with_outputs,
            } => {
                let elapsed = ended.saturating_sub(begun);
                let begun_us = u64::try_from(begun.as_micros()).unwrap_or(u64::MAX);
                let started_unix_us = self.clock_unix_us.saturating_add(begun_us);
                self.store(Ending {
                    attempt,
                    seats,
                    verdict,
                    is_final,
                    started_unix_us,
                    elapsed,
                    start_skew_us,
                    with_outputs,
                })
            }
            Effect::ForgetAttempts { host, attempts } => {
                self.links.get(&host)?.forget(attempts);
                None
            }
            Effect::Finish { ended, progress } => {
                self.finished = Some((ended, progress));
                None
            }
        }
    }

    /// Connects to a host anew; what is still said on the former connection counts no more.
    pub(super) fn connect(&mut self, host: Name) {
        self.links.remove(&host);
        self.generation += 1;
        let generation = self.generation;
        self.generations.insert(host.clone(), generation);
        match self.hosts.get(&host) {
            Some(setup) => link::connect(host, generation, setup.target.clone(), self.events.clone()),
            None => {
                let why = self.barred.get(&host).cloned();
                let why = why.unwrap_or_else(|| "it is not in the host file".to_owned());
                let _ = self.events.send(InternalEvent::Unusable { host, generation, why });
            }
        }
    }

    /// A connection broke, or could not be made; then the host may be of no use at all.
    pub(super) fn gone(&mut self, host: Name, generation: u64, why: String, is_unusable: bool) {
        if self.generations.get(&host) != Some(&generation) {
            return;
        }
        if self.is_booting(&host) {
            // That it does not answer is no news then.
            tracing::debug!("host {host} boots: {why}");
        } else {
            let what = if is_unusable { "cannot be used" } else { "is lost" };
            tracing::warn!("host {host} {what}: {why}");
        }
        self.machines.making.remove(&host);
        self.tell_death(&host);
        self.links.remove(&host);
        self.generations.remove(&host);
        self.soak_host_lost(&host, &why);
        self.feed(if is_unusable {
            Event::HostUnusable { host, why }
        } else {
            Event::HostLost { host, why }
        });
    }

    /// Takes note that a host is not to be used until somebody has looked at it.
    fn quarantine(&mut self, host: Name, why: String) {
        self.progress.notice(&format!("host {host} is quarantined: {why}"));
        let token = self.token(Submitted::Note);
        let quarantine = Quarantine { host, why, since_unix_ms: unix_ms() };
        if let Err(error) = self.writer.submit(token, Command::Quarantine(quarantine)) {
            tracing::error!("a quarantine could not be stored: {error}");
        }
    }

    fn journal(&mut self, attempts: Vec<(AttemptId, Arc<Seats>)>) -> Option<Event> {
        let at_unix_us = unix_us();
        let intent = |(id, seats): &(AttemptId, Arc<Seats>)| Intent {
            id: *id,
            seats: Seats::clone(seats),
            at_unix_us,
        };
        let intents = attempts.iter().map(intent).collect();
        let token = self.token(Submitted::Journal(attempts));
        let error = self.writer.submit(token, Command::Journal(intents)).err()?;
        self.tokens.remove(&token);
        Some(Event::JournalFailed { why: link::chain(&error), disk_full: false })
    }
}
