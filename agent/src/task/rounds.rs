//! Runs the command of a task again and again, one process tree after the other, until its time is over.

use std::time::{Duration, Instant};

use drover_model::{
    Counters, EndKind, OutputSummary, RoundEnd, Rounds, TaskEnd, TaskEventKind, TaskSpec, Usage,
};
use drover_supervise::CpuSet;
use tokio::{sync::watch, time::sleep_until};

use super::{
    Orders, Stop, Wish,
    run::{Job, Lived, Turn, live, until},
    start::start,
};

/// Shortest time between the starts of two rounds, so that a command that ends at once does not fill the spool.
const SHORTEST: Duration = Duration::from_millis(100);

/// Runs all rounds, and sums them up. The caller adds the outputs.
pub(super) async fn run(job: Job<'_>, wanted: Rounds, orders: &mut Orders) -> TaskEnd {
    let mut series = Series::new(wanted);
    loop {
        let spec = series.spec(job.spec);
        let turn = Turn {
            first: series.number == 0,
            patience: job.spec.deadline,
            time: Some((series.begin, wanted.for_)),
        };
        let lived = match start(job.agent, &spec, &orders.wish) {
            Ok(fresh) => live(Job { spec: &spec, ..job }, turn, orders, fresh).await,
            Err(unstarted) => Lived::never(unstarted.into()),
        };
        if series.number == 0 && matches!(lived.end.kind, EndKind::NotStarted(..)) {
            return lived.end;
        }
        let stop = orders.wish.borrow().stop;
        let (round, decision) = series.add(lived, stop, job.spec.deadline, job.ears.take_round());
        job.agent.record(&job.spec.id, round);
        let wait = match decision {
            Decision::End(kind) => return series.sum_up(kind),
            Decision::Wait(wait) => wait,
        };
        // A tree that could not be killed would run beside the next one.
        if job.agent.registry().is_quarantined() {
            return series.sum_up(EndKind::AgentLost);
        }
        if let Some(stop) = pause(job, &mut orders.wish, wait.until).await {
            return series.sum_up(series.stopped(stop == Stop::Kill));
        }
        if let Some(kind) = wait.then {
            return series.sum_up(kind);
        }
    }
}

/// Waits until an instant; returns at once if the task is to end.
async fn pause(job: Job<'_>, wish: &mut watch::Receiver<Wish>, end: Instant) -> Option<Stop> {
    loop {
        tokio::select! {
            biased;
            Ok(wish) = wish.wait_for(|wish| wish.stop != Stop::No) => return Some(wish.stop),
            () = sleep_until(end.into()) => return None,
            () = until(job.ears.lines_due()) => {
                if let Some(lines) = job.ears.take_lines() {
                    job.agent.record(&job.spec.id, lines);
                }
            }
        }
    }
}

impl Lived {
    /// A round that has no process.
    fn never(end: TaskEnd) -> Self {
        Self { end, started: Instant::now(), started_unix_us: crate::clock::unix_us() }
    }
}

/// What comes after a round.
enum Decision {
    /// The end of the task.
    End(EndKind),
    /// A pause.
    Wait(Wait),
}

/// A pause.
struct Wait {
    until: Instant,
    /// How the task ends after it; `None` for another round.
    then: Option<EndKind>,
}

/// The rounds so far.
struct Series {
    wanted: Rounds,
    /// Rounds that were begun.
    number: u64,
    /// When the time began to count: with the first round.
    begin: Option<Instant>,
    /// End of the last round.
    over: Instant,
    /// How the last complete round ended.
    last: Option<EndKind>,
    usage: Usage,
    cpus: CpuSet,
    leftovers: u32,
    counters: Option<Counters>,
}

impl Series {
    fn new(wanted: Rounds) -> Self {
        Self {
            wanted,
            number: 0,
            begin: None,
            over: Instant::now(),
            last: None,
            usage: Usage::default(),
            cpus: CpuSet::new(),
            leftovers: 0,
            counters: None,
        }
    }

    /// What the next round runs.
    fn spec(&self, spec: &TaskSpec) -> TaskSpec {
        let mut spec = spec.clone();
        let left = self.begin.map_or(spec.deadline, |begin| spec.deadline.saturating_sub(begin.elapsed()));
        spec.deadline = self.wanted.deadline.min(left);
        spec.files.clear();
        if self.number > 0 {
            spec.hold = false;
            spec.ready.clear();
        }
        spec
    }

    /// Takes in a round that is over.
    fn add(
        &mut self,
        lived: Lived,
        stop: Stop,
        deadline: Duration,
        outputs: [OutputSummary; 2],
    ) -> (TaskEventKind, Decision) {
        let Lived { end, started, started_unix_us } = lived;
        self.number += 1;
        let begin = *self.begin.get_or_insert(started);
        self.over = Instant::now();
        self.usage = sum(self.usage, end.usage);
        // A round that is cut off had no time to clear up.
        if !matches!(end.kind, EndKind::Stopped(_) | EndKind::Killed) {
            self.leftovers = self.leftovers.saturating_add(end.leftovers);
        }
        self.counters = match (self.counters, end.counters) {
            (Some(before), Some(more)) => Some(add(before, more)),
            (before, more) => before.or(more),
        };
        self.cpus = self.cpus.union(&end.cpus.parse().unwrap_or_default());
        let decision = self.decide(&end.kind, stop, begin, begin.checked_add(deadline), started);
        let [stdout, stderr] = outputs;
        let (kind, wall, usage) = (end.kind, end.wall, end.usage);
        let end = RoundEnd { kind, wall, usage, started_unix_us, stdout, stderr, cut: false };
        (TaskEventKind::Round { number: self.number, end }, decision)
    }

    fn decide(
        &mut self,
        kind: &EndKind,
        stop: Stop,
        begin: Instant,
        deadline: Option<Instant>,
        started: Instant,
    ) -> Decision {
        let now = self.over;
        let over_at = begin.checked_add(self.wanted.for_);
        let is_past = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        match kind {
            EndKind::Stopped(_) | EndKind::Killed | EndKind::AgentLost | EndKind::NotReady(_)
                if stop != Stop::No =>
            {
                return Decision::End(kind.clone());
            }
            EndKind::AgentLost | EndKind::NotReady(_) => return Decision::End(kind.clone()),
            EndKind::Deadline if is_past(deadline) => return Decision::End(EndKind::Deadline),
            // Nobody asked for it, so the time was over.
            EndKind::Stopped(_) => {
                return Decision::End(self.last.clone().unwrap_or_else(|| kind.clone()));
            }
            _ => {}
        }
        self.last = Some(kind.clone());
        if stop != Stop::No {
            return Decision::End(self.stopped(stop == Stop::Kill));
        }
        if *kind != EndKind::Exited(0) && !self.wanted.keep_going {
            return Decision::End(kind.clone());
        }
        let next = now.checked_add(self.wanted.pause).max(started.checked_add(SHORTEST));
        let ends = [(over_at, kind.clone()), (deadline, EndKind::Deadline)];
        let first = ends.into_iter().filter_map(|(at, kind)| Some((at?, kind))).min_by_key(|(at, _)| *at);
        Decision::Wait(match (next, first) {
            (Some(next), Some((at, kind))) if at <= next => Wait { until: at, then: Some(kind) },
            (Some(next), _) => Wait { until: next, then: None },
            // A pause that never ends.
            (None, Some((at, kind))) => Wait { until: at, then: Some(kind) },
            (None, None) => Wait { until: now, then: Some(kind.clone()) },
        })
    }

    /// The end of a task that is stopped between two rounds.
    fn stopped(&self, killed: bool) -> EndKind {
        match &self.last {
            _ if killed => EndKind::Killed,
            Some(EndKind::Exited(status)) => EndKind::Stopped(Some(*status)),
            _ => EndKind::Stopped(None),
        }
    }

    fn sum_up(&self, kind: EndKind) -> TaskEnd {
        TaskEnd {
            kind,
            wall: self.begin.map_or(Duration::ZERO, |begin| self.over.saturating_duration_since(begin)),
            usage: self.usage,
            stdout: OutputSummary::default(),
            stderr: OutputSummary::default(),
            cpus: self.cpus.to_string(),
            leftovers: self.leftovers,
            counters: self.counters,
        }
    }
}

fn sum(a: Usage, b: Usage) -> Usage {
    Usage {
        user: a.user.saturating_add(b.user),
        system: a.system.saturating_add(b.system),
        max_rss_bytes: a.max_rss_bytes.max(b.max_rss_bytes),
        voluntary_switches: a.voluntary_switches.saturating_add(b.voluntary_switches),
        involuntary_switches: a.involuntary_switches.saturating_add(b.involuntary_switches),
    }
}

fn add(a: Counters, b: Counters) -> Counters {
    Counters {
        context_switches: a.context_switches.saturating_add(b.context_switches),
        listen_overflows: a.listen_overflows.saturating_add(b.listen_overflows),
        listen_drops: a.listen_drops.saturating_add(b.listen_drops),
        retransmits: a.retransmits.saturating_add(b.retransmits),
        time_wait_overflows: a.time_wait_overflows.saturating_add(b.time_wait_overflows),
        steal_us: a.steal_us.saturating_add(b.steal_us),
    }
}
