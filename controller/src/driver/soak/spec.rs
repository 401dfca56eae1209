//! What a soak asks of its tasks: how long each may live, and what its agent tells of it on the way. Pure.

use std::time::Duration;

use drover_matrix::{Load, Matrix, Role};
use drover_model::{EndKind, Rounds, TaskEnd, TaskSpec};

/// Time that services stay up behind the end of the load, for a controller that comes back.
const PATIENCE: Duration = Duration::from_secs(600);
/// Between the end of a stream's command and its next start, if it does not last for the whole time.
const PAUSE: Duration = Duration::from_secs(1);
/// Rounds start no closer together than this, so the last one can end by as much before the time is over.
const ROUND_GAP: Duration = Duration::from_millis(100);

/// How long one attempt is to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Time of the load.
    pub load: Duration,
    /// Longest time from the start of the first task to the begin of the load.
    start: Duration,
    /// Longest round.
    round: Duration,
    /// Time without progress that is a hang.
    stall: Duration,
}

impl Times {
    /// Of an attempt of a matrix of which so many cells run; `None` if it is no soak.
    pub fn of(matrix: &Matrix, cells: u64) -> Option<Self> {
        let soak = matrix.soak()?;
        let before = |role: &Role| match (role.is_service(), role.is_load()) {
            (true, _) => role.within,
            (false, true) => Duration::ZERO,
            (false, false) => role.timeout,
        };
        let start = matrix.roles().iter().map(before).fold(Duration::ZERO, Duration::saturating_add);
        let rounds = matrix.roles().iter().filter(|role| role.is_load() && role.load == Load::Rounds);
        let round = rounds.map(|role| role.timeout + role.stop.grace).max().unwrap_or_default();
        Some(Self { load: soak.cell_time(cells), start, round, stall: soak.stall })
    }

    /// Longest life of a task of a role.
    pub fn deadline(&self, role: &Role) -> Duration {
        let whole = self.load.saturating_add(self.round).saturating_add(PATIENCE);
        match (role.is_service(), role.is_load()) {
            (true, _) => whole.saturating_add(self.start),
            (false, true) => whole,
            (false, false) => role.timeout,
        }
    }

    /// Makes a task of a role one of a soak.
    pub fn apply(&self, role: &Role, spec: &mut TaskSpec) {
        spec.deadline = self.deadline(role);
        if role.is_service() || role.is_load() {
            spec.stall = Some(self.stall);
        }
        if role.is_load() {
            let streams = role.load == Load::Stream;
            spec.progress = streams;
            spec.rounds = Some(Rounds {
                for_: self.load,
                pause: if streams { PAUSE } else { Duration::ZERO },
                deadline: if streams { spec.deadline } else { role.timeout },
                keep_going: true,
            });
        }
    }

    /// Whether a task of a role that ended so had worked for as long as it was to.
    pub fn is_spent(&self, role: &Role, end: &TaskEnd) -> bool {
        let by_itself = match end.kind {
            EndKind::Exited(_) | EndKind::Signaled(_) | EndKind::Stopped(_) | EndKind::Deadline => true,
            EndKind::Killed | EndKind::NotReady(_) | EndKind::NotStarted(..) | EndKind::AgentLost => false,
        };
        let gap = if role.load == Load::Stream { PAUSE } else { ROUND_GAP };
        role.is_load() && by_itself && end.wall.saturating_add(gap) >= self.load
    }
}

#[cfg(test)]
mod tests {
    use drover_matrix::{Options, Source, parse};
    use drover_model::{OutputSummary, Usage};

    use super::*;

    const MATRIX: &str = "
version: 1
name: m
axes: { n: [1, 2] }
roles:
  server: { run: [serve], ready: { log: up, within: 30s } }
  fill: { after: server, run: [fill], timeout: 2m }
  client:
    after: [server, fill]
    run: [load]
    measure: lines
    timeout: 1m
    stop: { grace: 5s }
metrics: { rate: { unit: 1/s, better: higher, primary: true } }
soak: { for: 8h, every: 10s, share: true }
";

    fn matrix(text: &str) -> Matrix {
        parse(&Source::new("m.yaml", text), &Options::default()).unwrap_or_else(|found| panic!("{found}"))
    }

    #[test]
    fn expect_services_to_outlast_loads_and_loads_to_outlast_their_last_round() {
        let matrix = matrix(MATRIX);
        let times = Times::of(&matrix, 2).unwrap();
        let deadline = |role: &str| times.deadline(matrix.role(role).unwrap());
        let hours = Duration::from_secs(4 * 3600);
        assert_eq!(times.load, hours);
        assert_eq!(deadline("client"), hours + Duration::from_secs(65) + PATIENCE);
        assert_eq!(deadline("server"), deadline("client") + Duration::from_secs(150));
        assert_eq!(deadline("fill"), Duration::from_secs(120));
        assert_eq!(Times::of(&self::matrix(&MATRIX.replace("soak: {", "#")), 2), None);
    }

    #[test]
    fn expect_a_load_to_be_done_only_when_its_time_is_over() {
        let matrix = matrix(MATRIX);
        let times = Times::of(&matrix, 2).unwrap();
        let spent = |role: &str, kind, wall| {
            let end = TaskEnd {
                kind,
                wall,
                usage: Usage::default(),
                stdout: OutputSummary::default(),
                stderr: OutputSummary::default(),
                cpus: String::new(),
                leftovers: 0,
                counters: None,
            };
            times.is_spent(matrix.role(role).unwrap(), &end)
        };
        let (all, less) = (times.load, times.load - Duration::from_secs(1));
        for kind in [EndKind::Exited(1), EndKind::Stopped(None), EndKind::Signaled(15), EndKind::Deadline] {
            assert!(spent("client", kind.clone(), all) && !spent("client", kind.clone(), less), "{kind:?}");
            assert!(!spent("server", kind, all));
        }
        assert!(spent("client", EndKind::Exited(0), all - ROUND_GAP));
        assert!(!spent("client", EndKind::Killed, all) && !spent("client", EndKind::AgentLost, all));
    }
}
