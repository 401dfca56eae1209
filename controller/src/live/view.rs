//! A run as it is seen: a bar at a terminal, plain lines elsewhere. The same for the controller and for those who watch it.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Standing, TrialLine};
use crate::screen::Screen;

/// Lines are printed at most this often, unless something went wrong.
const LINE_GAP: Duration = Duration::from_millis(500);

/// Shows how far a run is.
pub struct View {
    screen: Screen,
    bar: Option<ProgressBar>,
    last_line: Option<Instant>,
    unsaid: u64,
}

impl View {
    /// Of a run with so many trials, so many of which are over.
    pub fn new(screen: Screen, total: u64, finished: u64) -> Self {
        let bar = screen.has_bars().then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(8));
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.set_position(finished);
            screen.set_bar(bar.clone());
            bar
        });
        Self { screen, bar, last_line: None, unsaid: 0 }
    }

    /// Whether anybody can see what is going on between two lines.
    pub fn is_live(&self) -> bool {
        self.bar.is_some()
    }

    /// Shows how far it is.
    pub fn stands(&self, standing: &Standing) {
        if let Some(bar) = &self.bar {
            bar.set_position(standing.finished);
            let current = standing.current.as_deref().unwrap_or_default();
            bar.set_message(format!("{}  {current}", standing.summary()));
        }
    }

    /// Shows how far it is with a trial that takes long: by the bar, or by a line if it is time for one.
    pub fn goes(&self, standing: &Standing, is_line: bool) {
        self.stands(standing);
        if let Some(current) = standing.current.as_ref().filter(|_| is_line && self.bar.is_none()) {
            self.screen.say(current);
        }
    }

    /// Prints a line about an attempt, unless lines come too fast and it is not worth it.
    pub fn line(&mut self, line: &TrialLine, finished: u64, total: u64) {
        if line.fine && (self.bar.is_some() || self.screen.quiet()) {
            return;
        }
        let recent = self.last_line.is_some_and(|at| at.elapsed() < LINE_GAP);
        if line.fine && recent && finished < total {
            self.unsaid += 1;
            return;
        }
        let more = if self.unsaid > 0 { format!("  (+{} more)", self.unsaid) } else { String::new() };
        self.screen.say(&format!("[{finished}/{total}] {}: {}{more}", line.trial, line.what));
        self.last_line = Some(Instant::now());
        self.unsaid = 0;
    }

    /// A notice above the bar.
    pub fn notice(&self, text: &str) {
        self.screen.say(text);
    }

    /// Lines that were not shown.
    pub fn missed(&mut self, count: u64) {
        self.unsaid = self.unsaid.saturating_add(count);
    }

    /// There is nothing more to see.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
            self.screen.clear_bar();
        }
    }
}
