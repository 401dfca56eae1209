//! Live progress: what happened so far, shown by a [`View`] and told to those who watch from elsewhere, with an estimate of the
//! time left that knows which cells remain.

mod estimate;

use std::time::{Duration, Instant};

use drover_model::{Cell, Outcome, TrialId, Verdict};

use super::attempt::Summary;
use crate::{
    live::{Hello, Left, Sight, Standing, TrialLine, View, Watcher, stopping},
    screen::Screen,
    time::brief,
};
use estimate::Estimate;

/// Outcomes whose counts are shown.
const SHOWN: [Outcome; 4] = [Outcome::Suspect, Outcome::Ng, Outcome::Error, Outcome::Missing];

/// Lines about a soak while it goes on, where there is no bar.
const SOAK_LINES: u32 = 24;
/// Shortest time between two looks at it.
const LEAST_SOAK_GAP: Duration = Duration::from_secs(1);

/// Tells the user how far the run is.
pub struct Progress {
    view: View,
    watchers: Vec<Watcher>,
    estimate: Estimate,
    total: u64,
    finished: u64,
    /// Of [`SHOWN`].
    counts: [u64; 4],
    begun: Instant,
    session: u64,
    current: Option<(TrialId, Cell)>,
    stops: u32,
    last_look: Option<Instant>,
    last_soak_line: Option<Instant>,
}

impl Progress {
    /// `total` trials, of which `finished` are over since earlier.
    pub fn new(screen: Screen, total: u64, finished: u64) -> Self {
        Self {
            view: View::new(screen, total, finished),
            watchers: Vec::new(),
            estimate: Estimate::default(),
            total,
            finished,
            counts: [0; 4],
            begun: Instant::now(),
            session: 0,
            current: None,
            stops: 0,
            last_look: None,
            last_soak_line: None,
        }
    }

    /// A trial that this run has still to do.
    pub fn expect(&mut self, trial: TrialId) {
        self.estimate.add(trial);
    }

    /// Somebody watches from now on; `hello` gets how far it is.
    pub fn watch(&mut self, mut watcher: Watcher, hello: Hello) {
        let hello = Hello { standing: self.standing(), stopping: self.stops, ..hello };
        if watcher.tell(Sight::Hello(hello)) {
            self.watchers.push(watcher);
        }
    }

    /// A trial was begun.
    pub fn begun(&mut self, trial: TrialId, cell: &Cell) {
        self.current = Some((trial, cell.clone()));
        if self.is_seen() {
            let standing = self.standing();
            self.view.stands(&standing);
            self.tell(|| Sight::Begun { standing });
        }
    }

    /// A soak has lasted for so long, and its primary metric is this.
    pub fn soak(&mut self, trial: TrialId, cell: &Cell, elapsed: Duration, planned: Duration, value: &str) {
        let gap = (planned / SOAK_LINES).max(LEAST_SOAK_GAP);
        let is_line = self.last_soak_line.is_none_or(|at| at.elapsed() >= gap);
        let is_look = self.is_seen() && self.last_look.is_none_or(|at| at.elapsed() >= LEAST_SOAK_GAP);
        if !is_line && !is_look {
            return;
        }
        let (elapsed, planned) = (brief(elapsed), brief(planned));
        let current = format!("{}: {elapsed} of {planned}: {value}", label(trial, cell));
        let standing = Standing { current: Some(current), ..self.standing() };
        self.last_look = Some(Instant::now());
        if is_line {
            self.last_soak_line = self.last_look;
        }
        self.view.goes(&standing, is_line);
        self.tell(|| Sight::Goes { standing, is_line });
    }

    /// An attempt is stored.
    pub fn stored(&mut self, trial: TrialId, cell: &Cell, summary: Summary) {
        if summary.is_final {
            self.finished += 1;
            self.session += 1;
            self.estimate.finish(trial, summary.took);
            let outcome = summary.verdict.outcome();
            let shown = SHOWN.iter().zip(&mut self.counts);
            shown.filter(|(one, _)| **one == outcome).for_each(|(_, count)| *count += 1);
        }
        self.current = Some((trial, cell.clone()));
        let line = line(trial, cell, summary);
        if self.is_seen() {
            let standing = self.standing();
            self.view.stands(&standing);
            self.tell(|| Sight::Ended { standing, line: line.clone() });
        }
        self.view.line(&line, self.finished, self.total);
    }

    /// A notice above the bar.
    pub fn notice(&mut self, text: &str) {
        self.view.notice(text);
        self.tell(|| Sight::Notice { text: text.to_owned() });
    }

    /// The run was asked to stop, once more.
    pub fn stopping(&mut self) {
        self.stops = self.stops.saturating_add(1);
        let times = self.stops;
        self.view.notice(stopping(times));
        self.tell(|| Sight::Stopping { times });
    }

    /// The run is over for the user of this terminal.
    pub fn finish(&mut self) {
        self.view.finish();
    }

    /// The run is over for those who watch, who are let go; `why` if it ended early.
    pub fn dismiss(&mut self, why: Option<String>) {
        self.tell(|| Sight::Over { why });
        self.watchers.clear();
    }

    fn is_seen(&self) -> bool {
        self.view.is_live() || !self.watchers.is_empty()
    }

    fn tell(&mut self, sight: impl FnOnce() -> Sight) {
        if !self.watchers.is_empty() {
            let sight = sight();
            self.watchers.retain_mut(|watcher| watcher.tell(sight.clone()));
        }
    }

    fn standing(&self) -> Standing {
        let seconds = self.begun.elapsed().as_secs_f64();
        let rate = || f64::from(u32::try_from(self.session).unwrap_or(u32::MAX)) / seconds;
        let left = self
            .estimate
            .left()
            .map(|(left, untried)| Left { ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX), untried });
        let counts = SHOWN.into_iter().zip(self.counts);
        Standing {
            total: self.total,
            finished: self.finished,
            counts: counts.filter(|(_, count)| *count > 0).collect(),
            per_second: (self.session > 0 && seconds > 0.0).then(rate),
            left,
            current: self.current.as_ref().map(|(trial, cell)| label(*trial, cell)),
        }
    }
}

fn label(trial: TrialId, cell: &Cell) -> String {
    format!("{cell} #{}", trial.repetition)
}

fn line(trial: TrialId, cell: &Cell, summary: Summary) -> TrialLine {
    let Summary { verdict, value, is_final, .. } = summary;
    let what = match &verdict {
        Verdict::Ok => value.unwrap_or_else(|| "ok".to_owned()),
        Verdict::Suspect { .. } => {
            format!("{}** {}", value.unwrap_or_else(|| "ok".to_owned()), verdict.cause())
        }
        other => {
            let again = if is_final { "" } else { " (will be tried again)" };
            let detail = other.detail();
            let first = detail.lines().next().unwrap_or_default();
            format!("{} {}: {first}{again}", word(other.outcome()), other.cause())
        }
    };
    TrialLine { trial: label(trial, cell), what, fine: verdict.outcome().has_number() && is_final }
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok | Outcome::Suspect => "ok",
        Outcome::Ng => "NG",
        Outcome::Error => "ERR",
        Outcome::Missing => "---",
    }
}
