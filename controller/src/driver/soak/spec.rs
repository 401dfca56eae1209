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
