//! The beginning of an attempt: its hosts are asked for ports, its tasks rendered, its services reached, its barrier opened.

use std::{net::IpAddr, sync::Arc, time::Duration};

use drover_matrix::RenderedRole;
use drover_model::{AttemptId, ErrorCause, Name, ReadyCheck, Seats, TaskId, Verdict};
use drover_sched::Event;

use super::{barrier, drive::Driver, internal_event::InternalEvent, machine::Look, prepare};

/// Longest time that another host has to reach a service that is ready.
const MAX_REACH: Duration = Duration::from_secs(20);

impl Driver {
    /// Opens the books of an attempt and asks its hosts for ports, where it needs any.
    pub(super) fn begin(&mut self, id: AttemptId, seats: Arc<Seats>) -> Option<Event> {
        let refuse = |verdict| Some(Event::AttemptUnprepared { attempt: id, verdict });
        let Some(planned) = self.matrix.cell(id.trial.cell) else {
            return refuse(internal(format!("the matrix has no cell {}", id.trial.cell)));
        };
        let mut machines = Vec::new();
        let mut needed = Vec::new();
        for host in prepare::hosts_under_test(&self.matrix, &seats) {
            match self.look_at(&planned.cell, host)? {
                Look::Right(expected) => {
                    machines.extend(self.is_proven(host).then(|| (host.clone(), *expected)));
                }
                Look::Needed => needed.push(host.clone()),
                Look::Wrong(verdict) => return refuse(verdict),
            }
        }
        if !needed.is_empty() {
            return Some(Event::MachinesNeeded { attempt: id, hosts: needed });
        }
        let mut boots = Vec::new();
        for host in seats.hosts() {
            boots.push((host.clone(), self.links.get(host)?.hello().facts.boot_id.clone()));
        }
        let wanted = prepare::reserved_ports(&self.matrix, &seats);
        for (host, count) in &wanted {
            self.links.get(host)?.reserve_ports(id, *count);
        }
        let attempt = self.attempt_mut(id)?;
        attempt.boots = boots;
        attempt.machines = machines;
        attempt.seats = Some(seats);
        attempt.ports = wanted.into_keys().map(|host| (host, None)).collect();
        let (cell, waits) = (attempt.cell.clone(), !attempt.ports.is_empty());
        self.progress.begun(id.trial, &cell);
        if waits { None } else { Some(self.prepare(id)) }
    }

    /// A host keeps these ports for the attempt; renders it when all hosts have answered.
    pub(super) fn ports_reserved(&mut self, id: AttemptId, host: Name, ports: Vec<u16>) -> Option<Event> {
        let attempt = self.attempts.get_mut(&id)?;
        *attempt.ports.get_mut(&host)? = Some(ports);
        if attempt.ports.values().all(Option::is_some) { Some(self.prepare(id)) } else { None }
    }

    /// Renders an attempt, now that its ports are known.
    fn prepare(&mut self, id: AttemptId) -> Event {
        match self.render(id) {
            Ok(roles) => {
                self.attempts.entry(id).and_modify(|attempt| attempt.roles = roles);
                Event::AttemptPrepared { attempt: id }
            }
            Err(verdict) => Event::AttemptUnprepared { attempt: id, verdict },
        }
    }

    fn render(&self, id: AttemptId) -> Result<Vec<Vec<RenderedRole>>, Verdict> {
        let attempt = self.attempts.get(&id);
        let (attempt, seats) = attempt
            .and_then(|attempt| Some((attempt, attempt.seats.as_ref()?)))
            .ok_or_else(|| internal("the attempt is not known".to_owned()))?;
        let reserved =
            attempt.ports.iter().map(|(host, ports)| (host.clone(), ports.clone().unwrap_or_default()));
        let endpoints =
            prepare::endpoints(&self.matrix, seats, &reserved.collect(), |host| self.address(host))?;
        let rendering = prepare::Rendering {
            renderer: &self.renderer,
            matrix: &self.matrix,
            attempt: &id,
            cell: &attempt.cell,
            seats,
            endpoints: &endpoints,
        };
        let work_dir =
            |host: &Name| self.links.get(host).map_or_else(String::new, |link| link.hello().work_dir.clone());
        let tasks = rendering.render(work_dir)?;
        self.check_files(seats, &tasks)?;
        Ok(tasks)
    }

    /// Address at which other hosts reach a host: what the host file says, or else where it was reached itself.
    fn address(&self, host: &Name) -> Option<IpAddr> {
        let given = self.hosts.get(host).and_then(|setup| setup.address);
        given.or_else(|| self.links.get(host)?.peer())
    }

    /// Asks the hosts of those that come after a service whether they reach it.
    pub(super) fn check_reach(&mut self, id: AttemptId, role: &Name, from: Vec<Name>) -> Option<Event> {
        let place = self.matrix.roles().iter().position(|other| other.name == *role)?;
        let within = self.matrix.roles().get(place)?.within.min(MAX_REACH);
        let attempt = self.attempts.get_mut(&id)?;
        let tasks = attempt.roles.get(place)?;
        let probes = |check: &&ReadyCheck| matches!(check, ReadyCheck::Tcp(_) | ReadyCheck::Http(_));
        let checks: Vec<_> =
            tasks.iter().flat_map(|task| task.ready.iter().filter(probes).cloned()).collect();
        if checks.is_empty() {
            return Some(Event::RoleReached { attempt: id, role: role.clone() });
        }
        attempt.reach.insert(place, from.iter().cloned().collect());
        for host in from {
            self.links.get(&host)?.check_reach(id, place, checks.clone(), within);
        }
        None
    }

    /// A host says whether it reaches a service.
    pub(super) fn reached(
        &mut self,
        id: AttemptId,
        place: usize,
        host: &Name,
        problem: Option<String>,
    ) -> Option<Event> {
        let role = self.matrix.roles().get(place)?.name.clone();
        let waiting = self.attempts.get_mut(&id)?.reach.get_mut(&place)?;
        if !waiting.remove(host) {
            return None;
        }
        match problem {
            Some(problem) => {
                waiting.clear();
                let detail = format!("{role} is ready, and host {host} cannot reach it: {problem}");
                let verdict = Verdict::Error { cause: ErrorCause::Unreachable, detail };
                Some(Event::RoleUnreached { attempt: id, role, verdict })
            }
            None if waiting.is_empty() => Some(Event::RoleReached { attempt: id, role }),
            None => None,
        }
    }

    pub(super) fn start(&mut self, host: &Name, task: TaskId, hold: bool) -> Option<Event> {
        let place = self.matrix.roles().iter().position(|role| role.name == task.role)?;
        let role = self.matrix.roles().get(place)?;
        let attempt = self.attempts.get_mut(&task.attempt)?;
        let mut spec = attempt.spec(place, role, &task, hold)?;
        if let Some(times) = self.soak_times {
            times.apply(role, &mut spec);
        }
        if let Some(setup) = self.hosts.get(host) {
            spec.output_limit = spec.output_limit.min(setup.limits.output);
        }
        attempt.tasks.entry(task).or_default().host = Some(host.clone());
        self.links.get(host)?.start(spec);
        None
    }

    /// Opens the barrier: at once on one host, at an agreed instant on several.
    pub(super) fn release_barrier(&mut self, attempt: AttemptId, hosts: &[Name]) -> Option<Event> {
        if let [host] = hosts {
            self.links.get(host)?.open_barrier(attempt);
            return Some(Event::BarrierReleased { attempt, error_us: 0 });
        }
        let members: Option<Vec<_>> =
            hosts.iter().map(|host| Some(self.links.get(host)?.barrier_member())).collect();
        let (members, events, clock) = (members?, self.events.clone(), self.clock);
        let of = members.iter().map(|member| (member.host.clone(), member.generation)).collect();
        tokio::spawn(async move {
            let event = Box::new(barrier::release(attempt, members, clock).await);
            let _ = events.send(InternalEvent::JointAnswer { of, event });
        });
        None
    }

    /// Whether the files of every task may be staged on its host.
    fn check_files(&self, seats: &Seats, tasks: &[Vec<RenderedRole>]) -> Result<(), Verdict> {
        for (place, (role, tasks)) in self.matrix.roles().iter().zip(tasks).enumerate() {
            for (instance, task) in (0..).zip(tasks) {
                let Some(host) = seats.host(place, instance, role.instances) else { continue };
                let Some(setup) = self.hosts.get(host) else { continue };
                let bytes: usize = task.files.iter().map(|file| file.contents.len()).sum();
                if u64::try_from(bytes).is_ok_and(|bytes| bytes > setup.limits.files) {
                    return Err(internal(format!(
                        "the files of {} have {bytes} bytes together, and host {host} takes {}; raise its `limits: {{ files }}`",
                        role.name, setup.limits.files
                    )));
                }
            }
        }
        Ok(())
    }
}

fn internal(detail: String) -> Verdict {
    Verdict::Error { cause: ErrorCause::Internal, detail }
}
