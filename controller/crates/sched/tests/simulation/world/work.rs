//! What agents and the store do with the orders that have reached them.

use drover_model::{MissingCause, Verdict};
use drover_sched::RoleKind;

use super::{Controller, Effect, Event, Stored, World, invariants};

impl World {
    /// The agent carries out the oldest order that has reached it.
    pub(super) fn agent_works(&mut self, controller: &mut Controller, host: usize) -> Result<bool, String> {
        let Some((order, call)) = controller.links[host].to_agent.pop_front() else { return Ok(false) };
        let faults = if self.calm { 0 } else { self.faults };
        let name = self.hosts[host].clone();
        let agent = &mut self.agents[host];
        let link = &mut controller.links[host];
        if link.lost {
            return Ok(true);
        }
        let fenced = link.epoch != agent.epoch || !agent.runs;
        let answer = match order {
            Effect::ConnectHost { .. } if agent.gone || self.rng.chance(faults) => {
                self.ever_lost.insert(host);
                Some(Event::HostLost { host: name, why: "no answer".to_owned() })
            }
            Effect::ConnectHost { .. } if agent.next.is_some() => {
                // Down, still up, hanging for good, up again.
                match self.rng.below(if self.calm { 2 } else { 4 }) {
                    0 => {
                        self.ever_lost.insert(host);
                        Some(Event::HostLost { host: name, why: "it boots".to_owned() })
                    }
                    2 => {
                        agent.restart();
                        Some(Event::HostConnected { host: name, boot_id: agent.boot.to_string() })
                    }
                    3 if self.rng.chance(faults) => {
                        self.ever_lost.insert(host);
                        self.tried.extend(agent.next.flatten().map(|machine| (host, machine)));
                        agent.gone = true;
                        Some(Event::HostLost { host: name, why: "it hangs".to_owned() })
                    }
                    _ => {
                        let (asked, wrong) = (agent.next.flatten(), self.rng.chance(faults));
                        agent.come_up(wrong);
                        self.astray.insert(host, None);
                        self.tried.extend(asked.filter(|_| wrong).map(|machine| (host, machine)));
                        self.reached.insert("booted");
                        Some(Event::HostConnected { host: name, boot_id: agent.boot.to_string() })
                    }
                }
            }
            Effect::ConnectHost { .. } => {
                agent.restart();
                Some(Event::HostConnected { host: name, boot_id: agent.boot.to_string() })
            }
            Effect::MakeMachine { .. } if agent.gone || self.rng.chance(faults) => {
                self.ever_lost.insert(host);
                Some(Event::HostLost { host: name, why: "it does not come up".to_owned() })
            }
            Effect::MakeMachine { .. } if self.boots.contains(&host) && !agent.runs => {
                self.ever_lost.insert(host);
                Some(Event::HostLost { host: name, why: "it was told to, and did not answer".to_owned() })
            }
            Effect::MakeMachine { attempt, .. } if self.boots.contains(&host) => {
                if self.rng.chance(faults) {
                    self.harmed.insert(attempt);
                    let verdict =
                        Verdict::Missing { cause: MissingCause::WrongKernel, detail: String::new() };
                    Some(Event::MachineRefused { host: name, attempt, verdict })
                } else {
                    self.astray.insert(host, Some(agent.boot.to_string()));
                    agent.next = Some(Some(World::machine_of(attempt)));
                    Some(Event::HostRebooting { host: name })
                }
            }
            Effect::MakeMachine { attempt, .. } if self.rng.chance(faults) => {
                self.harmed.insert(attempt);
                agent.boot(None);
                let verdict = Verdict::Missing { cause: MissingCause::WrongKernel, detail: String::new() };
                Some(Event::MachineRefused { host: name, attempt, verdict })
            }
            Effect::MakeMachine { attempt, .. } => {
                agent.boot(Some(World::machine_of(attempt)));
                agent.restart();
                Some(Event::HostConnected { host: name, boot_id: agent.boot.to_string() })
            }
            Effect::AcquireLease { .. } if agent.taken => {
                self.ever_lost.insert(host);
                Some(Event::LeaseRefused { host: name, why: "another run holds it".to_owned() })
            }
            Effect::AcquireLease { .. } if agent.runs => {
                agent.epoch += 1;
                link.epoch = agent.epoch;
                // Some events come again after a reconnection.
                link.cursor = link.cursor.saturating_sub(u64::try_from(self.rng.below(4)).unwrap());
                Some(Event::LeaseGranted { host: name, known: agent.known() })
            }
            Effect::RestoreMachine { .. } if fenced => {
                self.ever_lost.insert(host);
                Some(Event::HostLost { host: name, why: "it was told to, and did not answer".to_owned() })
            }
            _ if fenced => None,
            order if call.is_some() => {
                self.part_of_call(controller, host, &order, call.unwrap());
                None
            }
            Effect::StartTask { task, .. } if self.rng.chance(faults / 4) && !agent.knows_task(&task) => {
                self.harmed.insert(task.attempt);
                Some(Event::TaskRefused { task, why: "of the world".to_owned() })
            }
            Effect::StartTask { task, hold, .. } => {
                let role = self.roles.iter().find(|role| role.name == task.role).unwrap();
                let service = role.kind == RoleKind::Service;
                agent.start(&mut self.rng, &task, service, hold, faults)?;
                None
            }
            Effect::StopTask { task, kill, .. } => {
                agent.stop(&task, kill);
                None
            }
            Effect::ForgetAttempts { attempts, .. } => {
                for attempt in &attempts {
                    agent.forget(*attempt)?;
                }
                Some(Event::AttemptsForgotten { host: name, attempts })
            }
            Effect::RestoreMachine { .. } if self.rng.chance(faults) => {
                let problem = Some("of the world".to_owned());
                Some(Event::MachineRestored { host: name, problem })
            }
            Effect::RestoreMachine { .. } if agent.machine.is_some() => {
                self.astray.insert(host, Some(agent.boot.to_string()));
                agent.next = Some(None);
                Some(Event::HostRebooting { host: name })
            }
            Effect::RestoreMachine { .. } => {
                self.astray.remove(&host);
                self.reached.insert("restored");
                Some(Event::MachineRestored { host: name, problem: None })
            }
            Effect::ReleaseLease { .. } => {
                link.epoch = 0;
                self.released.insert(host);
                Some(Event::LeaseReleased { host: name })
            }
            other => return Err(format!("{other:?} is no order for an agent")),
        };
        if let Some(answer) = answer {
            controller.links[host].to_controller.push_back(answer);
        }
        Ok(true)
    }

    /// The store carries out its oldest order: from then on it is durable.
    pub(super) fn store_works(&mut self, controller: &mut Controller) -> Result<bool, String> {
        let Some(order) = controller.to_store.pop_front() else { return Ok(false) };
        let fails = !self.calm && self.rng.chance(self.faults / 6);
        let (why, disk_full) = ("of the world".to_owned(), self.rng.chance(800));
        let answer = match order {
            Effect::JournalAttempts { attempts } if fails && self.rng.chance(200) => {
                drop(attempts);
                Event::JournalFailed { why, disk_full }
            }
            Effect::JournalAttempts { attempts } => {
                for (attempt, seats) in &attempts {
                    self.journal.retain(|(journalled, _)| journalled != attempt);
                    self.journal.push((*attempt, seats.clone()));
                }
                Event::AttemptsJournalled { attempts }
            }
            Effect::StoreAttempt { attempt, .. } if fails => {
                self.harmed.insert(attempt);
                Event::StoreFailed { attempt, why, disk_full }
            }
            Effect::StoreAttempt { attempt, seats, verdict, is_final, .. } => {
                invariants::of_store(self, attempt, seats.as_deref(), &verdict, is_final)?;
                self.reached.insert(verdict.outcome().as_str());
                self.reached.insert(verdict.cause());
                self.store.insert(attempt, Stored { seats, verdict, is_final });
                Event::AttemptStored { attempt }
            }
            other => return Err(format!("{other:?} is no order for the store")),
        };
        controller.from_store.push_back(answer);
        Ok(true)
    }
}
