//! What can go wrong: processes die, links break, orders to the store are lost on the way.

use std::sync::Arc;

use drover_model::{AttemptId, ErrorCause, NgCause, Seats, Verdict};

use super::{Controller, Event, Outcome, World};

impl World {
    /// Something goes wrong.
    pub(super) fn misfortune(&mut self, controller: &mut Controller) -> Outcome {
        let host = self.rng.below(self.hosts.len());
        let name = self.hosts[host].clone();
        match self.rng.below(15) {
            0..=2 => self.lose_link(controller, host, "the link is cut")?,
            3 | 4 => {
                self.lose_link(controller, host, "the agent is killed")?;
                self.agents[host].crash();
            }
            5 => {
                self.lose_link(controller, host, "the host reboots")?;
                self.rebooted.insert(host);
                self.reboot(controller, host);
            }
            6 if self.rng.chance(300) => self.agents[host].gone ^= true,
            7 if self.rng.chance(200) => self.agents[host].taken ^= true,
            8 if self.rng.chance(300) => {
                controller.interrupts += 1;
                return self.deliver(controller, Event::Interrupted);
            }
            9 => {
                if let Some(deadline) = controller.scheduler.next_deadline() {
                    self.harmed.extend(controller.begun.iter().copied());
                    self.now = self.now.max(deadline);
                    self.ever_slow = true;
                    self.note(|| "everybody is slow".to_owned());
                    return self.deliver(controller, Event::TimerElapsed);
                }
            }
            10 => return self.deliver(controller, Event::TimerElapsed),
            14 => return self.find_a_failure(controller),
            11 => {
                self.note(|| format!("the controller believes {name} lost"));
                return self.lose_link(controller, host, "no heartbeat");
            }
            12 => {
                self.note(|| format!("the kernel of {name} fails"));
                self.agents[host].fail_kernel(&mut self.rng, &[NgCause::Lockup, NgCause::Oops]);
            }
            _ if !controller.delivered.is_empty() => {
                let again = controller.delivered[self.rng.below(controller.delivered.len())].clone();
                return self.deliver(controller, again);
            }
            _ => {}
        }
        Ok(())
    }

    /// The driver sees that an attempt has failed, whatever its tasks do.
    fn find_a_failure(&mut self, controller: &mut Controller) -> Outcome {
        let begun: Vec<AttemptId> = controller.begun.iter().copied().collect();
        if begun.is_empty() {
            return Ok(());
        }
        let attempt = begun[self.rng.below(begun.len())];
        let detail = "of the world".to_owned();
        let verdict = match self.rng.below(3) {
            0 => Verdict::Ng { cause: NgCause::Hang, detail },
            1 => Verdict::Ng { cause: NgCause::CheckFailed, detail },
            _ => Verdict::Error { cause: ErrorCause::DiskFull, detail },
        };
        self.harmed.insert(attempt);
        let had_failed = controller.scheduler.failure(&attempt).is_some();
        self.deliver(controller, Event::AttemptFailed { attempt, verdict })?;
        if !had_failed && controller.scheduler.failure(&attempt).is_some() {
            self.reached.insert("found to have failed");
            controller.failed.insert(attempt);
        }
        Ok(())
    }

    fn reboot(&mut self, controller: &Controller, host: usize) {
        let name = &self.hosts[host];
        self.agents[host].reboot();
        // Attempts whose outputs are gone, or whose orders were under way.
        self.harmed.extend(controller.begun.iter().copied());
        // Or that a former controller began: their other hosts tell of them later.
        let is_there = |(id, seats): &&(AttemptId, Arc<Seats>)| {
            seats.hosts().contains(&name) && self.agents.iter().any(|agent| agent.knows(*id))
        };
        self.harmed.extend(self.journal.iter().filter(is_there).map(|(id, _)| *id));
    }

    /// The power of a host is cycled, which may fail, or not help.
    pub(super) fn power_works(&mut self, controller: &mut Controller) -> bool {
        let Some(host) = controller.cycling.pop_front() else { return false };
        let name = self.hosts[host].clone();
        self.note(|| format!("{name}: its power is cycled"));
        self.ever_lost.insert(host);
        let fails = !self.calm && self.rng.chance(200);
        if !fails {
            self.reboot(controller, host);
            self.agents[host].gone &= !self.calm && self.rng.chance(300);
        }
        self.reached.insert(if fails { "power failed" } else { "power cycled" });
        let problem = fails.then(|| "of the world".to_owned());
        controller.cycled.push_back(Event::PowerCycled { host: name, problem });
        true
    }

    /// The connection ends: what was under way arrives in part, answers do not.
    pub(super) fn cut(&mut self, controller: &mut Controller, host: usize) -> Outcome {
        let arriving = self.rng.below(controller.links[host].to_agent.len() + 1);
        for _ in 0..arriving {
            self.agent_works(controller, host)?;
        }
        let link = &mut controller.links[host];
        link.to_agent.clear();
        link.to_controller.clear();
        (link.epoch, link.granted) = (0, false);
        controller.drop_calls(host);
        Ok(())
    }

    pub(super) fn lose_link(&mut self, controller: &mut Controller, host: usize, why: &str) -> Outcome {
        let name = self.hosts[host].clone();
        if self.boots.contains(&host) && controller.links[host].is_taken() {
            return Ok(());
        }
        self.note(|| format!("{name}: {why}"));
        self.ever_lost.insert(host);
        if controller.links[host].granted && self.agents[host].runs {
            let left = self.rng.below(4);
            let unread = self.agents[host].spool.range(controller.links[host].cursor + 1..).take(left);
            controller.late.extend(unread.map(|(_, report)| report.event(&name)));
        }
        self.cut(controller, host)?;
        controller.links[host].lost = true;
        let event = Event::HostLost { host: self.hosts[host].clone(), why: why.to_owned() };
        controller.links[host].to_controller.push_back(event);
        Ok(())
    }

    pub(super) fn drop_links(&mut self, controller: &mut Controller) -> Outcome {
        (0..self.hosts.len()).try_for_each(|host| self.cut(controller, host))
    }

    pub(super) fn some_store_orders(&mut self, controller: &mut Controller) -> Outcome {
        for _ in 0..self.rng.below(controller.to_store.len() + 1) {
            self.store_works(controller)?;
        }
        Ok(())
    }
}
