//! One round: the plan is carried out on a run, the run is brought to its end, and what is found is compared with the truth.

use std::{
    fs::{self, OpenOptions},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use drover_store::{DirError, OpenError, ResultsDir, RunResults, RunState, SqliteStore, Store};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    disk::Disk,
    ground::{Ground, host_name},
    history::History,
    jobs,
    judge::{Harm, judge},
    matrix::{matrix, planned},
    plan::{Fault, Plan},
    remains::remains,
    wait,
};

/// Longest time for one controller to bring the run to its end, once nothing goes wrong any more.
const TO_THE_END: Duration = Duration::from_secs(120);
/// Times that it is resumed then.
const RESUMES: u32 = 6;
/// Time for a task to appear that is to be killed or stopped.
const TASK_APPEARS: Duration = Duration::from_millis(400);
/// A controller that ended at once is not started again at once.
const BETWEEN_STARTS: Duration = Duration::from_millis(30);

/// A round that held.
pub struct Held {
    pub harm: Harm,
    pub trials: u64,
    pub attempts: usize,
    /// Controllers that were started.
    pub controllers: u32,
    /// Hosts that were released from quarantine.
    pub released: u32,
}

/// A round that did not.
pub struct Broken {
    pub wrong: Vec<String>,
    pub folder: PathBuf,
}

/// Carries a plan out.
pub fn carry_out(plan: &Plan) -> Result<Held, Broken> {
    let ground = match Ground::new(plan) {
        Ok(ground) => ground,
        Err(error) => return Err(Broken { wrong: vec![error], folder: PathBuf::new() }),
    };
    let mut round = Round {
        plan,
        ground,
        store: None,
        agent: None,
        controller: None,
        last_start: Instant::now(),
        controllers: 0,
        released: 0,
        harm: Harm::default(),
    };
    let wrong = match round.live() {
        Ok(held) => return Ok(held),
        Err(wrong) => wrong,
    };
    round.end_controller();
    for host in 0..round.ground.hosts() {
        round.ground.signal_agent(host, "CONT");
        round.ground.signal_agent(host, "KILL");
    }
    for pid in jobs::of_round(&round.ground.mark) {
        jobs::signal(pid, Signal::KILL);
    }
    let Round { ground, store, agent, .. } = round;
    // The disks go with the round; their contents stay.
    let copy = ground.dir().join("disk-contents");
    let _ = Command::new("cp").args(["-a"]).arg(ground.disk()).arg(copy).status();
    let copy = ground.dir().join("agent-contents");
    let _ = Command::new("cp").args(["-a"]).arg(ground.agent_dir(0)).arg(copy).status();
    drop((store, agent));
    Err(Broken { wrong, folder: ground.keep() })
}

/// Dropped in this order: the disks before the folder that they are in.
struct Round<'a> {
    plan: &'a Plan,
    store: Option<Disk>,
    agent: Option<Disk>,
    ground: Ground,
    controller: Option<Child>,
    last_start: Instant,
    controllers: u32,
    released: u32,
    harm: Harm,
}

type Wrong = Vec<String>;

fn broken(error: impl ToString) -> Wrong {
    vec![error.to_string()]
}

impl Round<'_> {
    fn live(&mut self) -> Result<Held, Wrong> {
        fs::write(self.ground.dir().join("matrix.yaml"), matrix(self.plan, &self.ground)).map_err(broken)?;
        if self.plan.store_disk {
            self.store = Some(Disk::ext4(&self.ground.disk()).map_err(broken)?);
        }
        if self.plan.agent_disk {
            self.agent = Some(Disk::tmpfs(&self.ground.agent_dir(0)).map_err(broken)?);
        }
        if self.plan.warm {
            self.await_first_job()?;
        }
        for step in &self.plan.steps {
            self.go_on(Duration::from_millis(step.after_ms))?;
            if self.is_finished() {
                break;
            }
            self.inflict(step.fault)?;
        }
        self.finish()?;
        self.compare()
    }

    fn await_first_job(&mut self) -> Result<(), Wrong> {
        let logs = self.ground.logs();
        let mut result = Ok(());
        wait::until("a job begins", || {
            result = self.tend();
            result.is_err() || logs.iter().any(|log| log.metadata().is_ok_and(|log| log.len() > 0))
        })
        .map_err(broken)?;
        result
    }

    /// Lets time pass; a controller that ended is followed by another.
    fn go_on(&mut self, time: Duration) -> Result<(), Wrong> {
        let begun = Instant::now();
        loop {
            self.tend()?;
            let Some(left) = time.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) else {
                return Ok(());
            };
            std::thread::sleep(left.min(Duration::from_millis(5)));
        }
    }

    fn tend(&mut self) -> Result<(), Wrong> {
        if let Some(controller) = &mut self.controller {
            match controller.try_wait().map_err(broken)? {
                None => return Ok(()),
                Some(status) => self.note(&format!("ended: {status}")),
            }
            self.controller = None;
        }
        if self.last_start.elapsed() >= BETWEEN_STARTS && !self.is_finished() {
            self.start()?;
        }
        Ok(())
    }

    /// Starts the run, or goes on with it; does neither while nobody can tell whether it was begun.
    fn start(&mut self) -> Result<(), Wrong> {
        self.last_start = Instant::now();
        let command = match self.is_begun() {
            Some(true) => self.ground.drover(&["resume", "--no-report"]),
            Some(false) => self.ground.run(),
            None => return Ok(()),
        };
        self.controller = Some(self.spawn(command)?);
        self.controllers += 1;
        Ok(())
    }

    fn spawn(&self, mut command: Command) -> Result<Child, Wrong> {
        let log = OpenOptions::new().append(true).create(true).open(self.ground.said()).map_err(broken)?;
        let other = log.try_clone().map_err(broken)?;
        command.stdout(Stdio::from(log)).stderr(other).spawn().map_err(broken)
    }

    /// Writes into the log of the controllers.
    fn note(&self, text: &str) {
        use std::io::Write;
        let log = OpenOptions::new().append(true).create(true).open(self.ground.said());
        if let Ok(mut log) = log {
            let _ = writeln!(log, "---- {text}");
        }
    }

    fn open(&self) -> Result<SqliteStore, OpenError> {
        SqliteStore::open_read_only(&ResultsDir::open(self.ground.results())?)
    }

    /// Whether the run is in the store; `None` if that cannot be read.
    fn is_begun(&self) -> Option<bool> {
        match self.open() {
            Ok(store) => Some(!store.run_names().ok()?.is_empty()),
            Err(OpenError::Absent { .. } | OpenError::Dir(DirError::Missing { .. })) => Some(false),
            Err(_) => None,
        }
    }

    fn is_finished(&self) -> bool {
        let summary = self.open().ok().and_then(|store| store.runs().ok()?.pop());
        summary.is_some_and(|summary| summary.state == RunState::Finished)
    }

    fn signal_controller(&self, signal: Signal) -> bool {
        let controller = self.controller.as_ref().map(Pid::from_child);
        controller.is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    fn end_controller(&mut self) {
        if let Some(mut controller) = self.controller.take() {
            let _ = controller.kill();
            let _ = controller.wait();
        }
    }

    fn inflict(&mut self, fault: Fault) -> Result<(), Wrong> {
        self.note(&fault.to_string());
        let ms = Duration::from_millis;
        match fault {
            Fault::KillController => self.kill_controller(),
            Fault::StopController { ms: time } => {
                let controller = self.controller.as_ref().map(Pid::from_child);
                if self.signal_controller(Signal::STOP) {
                    self.harm.delays += 1;
                    std::thread::sleep(ms(time));
                }
                controller.map(|pid| kill_process(pid, Signal::CONT));
            }
            Fault::Interrupt => self.harm.interrupts += u64::from(self.signal_controller(Signal::TERM)),
            Fault::KillAgent { host } => self.kill_agent(host),
            Fault::StopAgent { host, ms: time } => {
                self.harm.delays += u64::from(self.ground.signal_agent(host, "STOP"));
                self.go_on(ms(time))?;
                self.ground.signal_agent(host, "CONT");
            }
            Fault::KillBoth { host } => {
                self.kill_controller();
                self.kill_agent(host);
            }
            Fault::KillTask { pick } => {
                if let Some(task) = self.task(pick)? {
                    self.harm.task_kills += u64::from(jobs::signal(task, Signal::KILL));
                }
            }
            Fault::StopTask { pick, ms: time } => {
                if let Some(task) = self.task(pick)? {
                    self.harm.delays += u64::from(jobs::signal(task, Signal::STOP));
                    self.go_on(ms(time))?;
                    jobs::signal(task, Signal::CONT);
                }
            }
            Fault::CutLink { host, ms: time } => {
                self.ground.script(&["cut", &host_name(host)]).map_err(broken)?;
                self.harm.delays += 1;
                self.go_on(ms(time))?;
                self.ground.script(&["heal", &host_name(host)]).map_err(broken)?;
            }
            Fault::KillSshd { host, ms: time } => {
                self.ground.script(&["sshd-kill", &host_name(host)]).map_err(broken)?;
                self.harm.delays += 1;
                self.go_on(ms(time))?;
                self.ground.script(&["sshd-start", &host_name(host)]).map_err(broken)?;
            }
            Fault::FillStore { ms: time } => {
                self.store.iter().for_each(Disk::fill);
                self.harm.store_fills += 1;
                self.go_on(ms(time))?;
                self.store.iter().for_each(Disk::free);
            }
            Fault::BreakStore => self.break_store()?,
            Fault::FillAgent { ms: time } => {
                self.agent.iter().for_each(Disk::fill);
                self.harm.agent_fills += 1;
                self.go_on(ms(time))?;
                self.agent.iter().for_each(Disk::free);
            }
            Fault::SetClock { s } => {
                let fresh = self.ground.clock().with_extension("new");
                fs::write(&fresh, (s * 1000).to_string()).map_err(broken)?;
                fs::rename(&fresh, self.ground.clock()).map_err(broken)?;
                self.harm.clock_sets += 1;
            }
        }
        Ok(())
    }

    fn kill_controller(&mut self) {
        if self
            .controller
            .as_mut()
            .is_some_and(|controller| controller.try_wait().is_ok_and(|end| end.is_none()))
        {
            self.harm.controller_kills += 1;
        }
        self.end_controller();
    }

    fn kill_agent(&mut self, host: usize) {
        self.harm.agent_kills += u64::from(self.ground.signal_agent(host, "KILL"));
    }

    /// A task that runs, if one does soon.
    fn task(&mut self, pick: u64) -> Result<Option<u32>, Wrong> {
        let begun = Instant::now();
        loop {
            let task = jobs::choose(&self.ground.mark, pick);
            if task.is_some() || begun.elapsed() >= TASK_APPEARS {
                return Ok(task);
            }
            self.go_on(Duration::from_millis(2))?;
        }
    }

    /// The results' disk fails under the controller, which must notice, and is replaced.
    fn break_store(&mut self) -> Result<(), Wrong> {
        let Some(disk) = &self.store else { return Ok(()) };
        // Stopped processes are in no system call.
        self.signal_controller(Signal::STOP);
        let pid = self.controller.as_ref().map(Child::id);
        wait::until("the controller stops", || pid.is_none_or(jobs::is_stopped)).map_err(broken)?;
        disk.fail().map_err(broken)?;
        self.signal_controller(Signal::CONT);
        self.harm.store_breaks += 1;
        if let Some(controller) = &mut self.controller {
            let mut status = None;
            wait::until("a controller whose store has failed ends", || {
                status = controller.try_wait().ok().flatten();
                status.is_some()
            })
            .map_err(broken)?;
            // Before it begins the run, it may find nothing to fail on; in the middle it must say that it failed.
            self.note(&format!("ended without its store: {status:?}"));
        }
        self.controller = None;
        disk.replace().map_err(broken)
    }

    /// Nothing goes wrong any more: brings the run to its end.
    fn finish(&mut self) -> Result<(), Wrong> {
        self.note("nothing goes wrong any more");
        for _ in 0..RESUMES {
            self.await_controller()?;
            if self.is_finished() {
                return Ok(());
            }
            self.release_hosts()?;
            self.start()?;
        }
        self.await_controller()?;
        if self.is_finished() {
            return Ok(());
        }
        let said = fs::read_to_string(self.ground.said()).unwrap_or_default();
        let last: Vec<&str> = said.lines().rev().take(12).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        Err(broken(format!(
            "the run does not come to its end; the controllers said last:\n{}",
            last.join("\n")
        )))
    }

    fn await_controller(&mut self) -> Result<(), Wrong> {
        let Some(controller) = &mut self.controller else { return Ok(()) };
        let mut status = None;
        wait::within(TO_THE_END, "a controller ends", || {
            status = controller.try_wait().ok().flatten();
            status.is_some()
        })
        .map_err(broken)?;
        self.controller = None;
        let status = status.ok_or_else(|| broken("a controller has no status"))?;
        self.note(&format!("ended: {status}"));
        match (status.code(), status.signal()) {
            (Some(0 | 1 | 3 | 4 | 130), _) => Ok(()),
            // It had not yet begun to listen.
            (None, Some(15)) if self.harm.interrupts > 0 => Ok(()),
            (code, signal) => {
                Err(broken(format!("a controller ended by itself: status {code:?}, signal {signal:?}")))
            }
        }
    }

    /// As its user does once what was wrong with a host is mended.
    fn release_hosts(&mut self) -> Result<(), Wrong> {
        let hosts = self.open().ok().and_then(|store| store.quarantined().ok()).unwrap_or_default();
        for quarantine in hosts {
            self.note(&format!("released: {}: {}", quarantine.host, quarantine.why));
            let name = quarantine.host.to_string();
            let command = self.ground.drover(&["hosts", "release", &name]);
            let status = self.spawn(command)?.wait().map_err(broken)?;
            if !status.success() {
                return Err(broken(format!("host {name} cannot be released: {status}")));
            }
            self.released += 1;
        }
        Ok(())
    }

    fn compare(&mut self) -> Result<Held, Wrong> {
        let store = self.open().map_err(broken)?;
        let runs = store.run_names().map_err(broken)?;
        let [run] = runs.as_slice() else {
            return Err(broken(format!("the store has {} runs instead of one", runs.len())));
        };
        let found: RunResults = store.load(run.id).map_err(broken)?;
        drop(store);
        let logs = self.ground.logs();
        let history = History::read(logs.iter().map(PathBuf::as_path));
        let planned = planned(self.plan, run.id);
        let mut wrong = judge(&planned, &found.attempts, &history, &self.harm);
        // The next controller of a complete run has nothing to do on a host: an agent that the former one could not tell to end
        // does so by itself, after ten minutes.
        if self.harm.controller_kills > 0 {
            for host in 0..self.ground.hosts() {
                self.ground.signal_agent(host, "TERM");
            }
        }
        let left = remains(&self.ground, run.id, &history, &self.harm);
        wrong.extend(left.into_iter().map(|left| format!("left: {left}")));
        if self.released > 0 && self.harm.agent_fills == 0 {
            wrong.push("a host was quarantined without a reason".to_owned());
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        Ok(Held {
            harm: self.harm,
            trials: self.plan.cells,
            attempts: found.attempts.len(),
            controllers: self.controllers,
            released: self.released,
        })
    }
}
