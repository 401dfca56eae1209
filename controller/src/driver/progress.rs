//! Live progress: a bar at a terminal, plain lines elsewhere, and an estimate of the time left that knows which cells
//! remain.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use drover_model::{Cell, Outcome, TrialId, Verdict};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::attempt::Summary;
use crate::{screen::Screen, time::brief};

/// Lines are printed at most this often, unless something went wrong.
const LINE_GAP: Duration = Duration::from_millis(500);

/// What is left, in time. Cells that were tried tell how long their other trials take; the mean of all stands in for
/// the rest.
#[derive(Debug, Default)]
pub struct Estimate {
    /// Cells with trials left: how many, and how long one took.
    cells: HashMap<u32, (u32, Option<Duration>)>,
    /// Sum over the trials left whose cell was tried.
    known: Duration,
    /// Trials left whose cell was not.
    unknown: u32,
    /// All trials finished.
    done: u32,
    spent: Duration,
}

impl Estimate {
    /// A trial that is to be run.
    pub fn add(&mut self, trial: TrialId) {
        self.cells.entry(trial.cell).or_default().0 += 1;
        self.unknown += 1;
    }

    /// A trial is over, and took this long.
    pub fn finish(&mut self, trial: TrialId, took: Duration) {
        self.done += 1;
        self.spent += took;
        let Some((left, duration)) = self.cells.get_mut(&trial.cell) else { return };
        match *duration {
            Some(old) => self.known = self.known.saturating_sub(old * *left),
            None => self.unknown -= *left,
        }
        *left = left.saturating_sub(1);
        *duration = Some(took);
        self.known += took * *left;
    }

    /// Time left, if anything is known; and how many trials of cells never tried are in it.
    pub fn left(&self) -> Option<(Duration, u32)> {
        let mean = self.spent.checked_div(self.done)?;
        Some((self.known + mean * self.unknown, self.unknown))
    }
}

/// Tells the user how far the run is.
pub struct Progress {
    screen: Screen,
    estimate: Estimate,
    total: u64,
    finished: u64,
    counts: [u64; 5],
    bar: Option<ProgressBar>,
    begun: Instant,
    session: u64,
    last_line: Option<Instant>,
    unsaid: u64,
}

impl Progress {
    /// `total` trials, of which `finished` are over since earlier.
    pub fn new(screen: Screen, total: u64, finished: u64) -> Self {
        let bar = (screen.interactive() && !screen.quiet()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(8));
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.set_position(finished);
            screen.set_bar(bar.clone());
            bar
        });
        Self {
            screen,
            estimate: Estimate::default(),
            total,
            finished,
            counts: [0; 5],
            bar,
            begun: Instant::now(),
            session: 0,
            last_line: None,
            unsaid: 0,
        }
    }

    /// A trial that this run has still to do.
    pub fn expect(&mut self, trial: TrialId) {
        self.estimate.add(trial);
    }

    /// A trial was begun.
    pub fn begun(&mut self, trial: TrialId, cell: &Cell) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}  {cell} #{}", self.summary(), trial.repetition));
        }
    }

    /// An attempt is stored.
    pub fn stored(&mut self, trial: TrialId, cell: &Cell, summary: Summary) {
        let Summary { verdict, value, took, is_final } = summary;
        if is_final {
            self.finished += 1;
            self.session += 1;
            self.estimate.finish(trial, took);
            self.counts[place(verdict.outcome())] += 1;
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.finished);
            bar.set_message(format!("{}  {cell} #{}", self.summary(), trial.repetition));
        }
        self.line(trial, cell, &verdict, value, is_final);
    }

    /// Prints a line about a trial, unless lines come too fast and it is not worth it.
    fn line(
        &mut self,
        trial: TrialId,
        cell: &Cell,
        verdict: &Verdict,
        value: Option<String>,
        is_final: bool,
    ) {
        let fine = verdict.outcome().has_number() && is_final;
        if fine && (self.bar.is_some() || self.screen.quiet()) {
            return;
        }
        let recent = self.last_line.is_some_and(|at| at.elapsed() < LINE_GAP);
        if fine && recent && self.finished < self.total {
            self.unsaid += 1;
            return;
        }
        let what = match verdict {
            Verdict::Ok => value.unwrap_or_else(|| "ok".to_owned()),
            Verdict::Suspect { .. } => {
                format!("{}** {}", value.unwrap_or_else(|| "ok".to_owned()), verdict.cause())
            }
            other => {
                let again = if is_final { "" } else { " (will be tried again)" };
                let detail = other.detail();
                let first = detail.lines().next().unwrap_or_default();
                format!("{} {}: {first}{again}", label(other.outcome()), other.cause())
            }
        };
        let more = if self.unsaid > 0 { format!("  (+{} more)", self.unsaid) } else { String::new() };
        let (finished, total) = (self.finished, self.total);
        self.screen.say(&format!("[{finished}/{total}] {cell} #{}: {what}{more}", trial.repetition));
        self.last_line = Some(Instant::now());
        self.unsaid = 0;
    }

    /// A notice above the bar.
    pub fn notice(&self, text: &str) {
        self.screen.say(text);
    }

    /// The run is over.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
            self.screen.clear_bar();
        }
    }

    /// Counts, rate and time left.
    fn summary(&self) -> String {
        let mut parts = Vec::new();
        for outcome in [Outcome::Suspect, Outcome::Ng, Outcome::Error, Outcome::Missing] {
            let count = self.counts[place(outcome)];
            if count > 0 {
                parts.push(format!("{count} {}", outcome.as_str()));
            }
        }
        let seconds = self.begun.elapsed().as_secs_f64();
        if self.session > 0 && seconds > 0.0 {
            let rate = f64::from(u32::try_from(self.session).unwrap_or(u32::MAX)) / seconds;
            parts.push(if rate >= 1.0 { format!("{rate:.0}/s") } else { format!("{:.1}/min", rate * 60.0) });
        }
        if let Some((left, unknown)) = self.estimate.left() {
            let untried = if unknown > 0 { format!(" ({unknown} untried)") } else { String::new() };
            parts.push(format!("ETA {}{untried}", brief(left)));
        }
        parts.join("  ")
    }
}

fn place(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Ok => 0,
        Outcome::Suspect => 1,
        Outcome::Ng => 2,
        Outcome::Error => 3,
        Outcome::Missing => 4,
    }
}

fn label(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok | Outcome::Suspect => "ok",
        Outcome::Ng => "NG",
        Outcome::Error => "ERR",
        Outcome::Missing => "---",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(cell: u32, repetition: u32) -> TrialId {
        TrialId { cell, repetition }
    }

    #[test]
    fn expect_the_estimate_to_use_each_cells_own_time_when_it_was_tried() {
        let mut estimate = Estimate::default();
        for cell in 0..2 {
            for repetition in 1..=2 {
                estimate.add(trial(cell, repetition));
            }
        }
        assert_eq!(estimate.left(), None);
        estimate.finish(trial(0, 1), Duration::from_secs(1));
        // One more of cell 0 at its own 1 s, two of cell 1 at the mean of 1 s.
        assert_eq!(estimate.left(), Some((Duration::from_secs(3), 2)));
        estimate.finish(trial(1, 1), Duration::from_secs(9));
        assert_eq!(estimate.left(), Some((Duration::from_secs(10), 0)));
        estimate.finish(trial(0, 2), Duration::from_secs(1));
        estimate.finish(trial(1, 2), Duration::from_secs(9));
        assert_eq!(estimate.left(), Some((Duration::ZERO, 0)));
    }
}
