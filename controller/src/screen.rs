//! The terminal, or what stands in its place: text to standard output and standard error that a closed pipe or a
//! hung-up terminal cannot turn into a crash, and lines that do not tear a progress bar.

use std::io::{self, IsTerminal, Write};

use indicatif::ProgressBar;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use tracing_subscriber::fmt::MakeWriter;

use crate::args::Color;

/// Where a command prints to.
#[derive(Clone)]
pub struct Screen {
    colours: bool,
    colours_out: bool,
    quiet: bool,
    interactive: bool,
    bars: bool,
    bar: Arc<Mutex<Option<ProgressBar>>>,
    /// Everything goes to the run's log.
    left: Arc<AtomicBool>,
}

impl Screen {
    /// Looks at the terminal and at `NO_COLOR`. `leaving`: it is not going to stay.
    pub fn new(color: Color, quiet: bool, leaving: bool) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let allowed = |is_terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => is_terminal && !no_color && !dumb,
        };
        let interactive = io::stderr().is_terminal() && !dumb;
        Self {
            colours: allowed(io::stderr().is_terminal()),
            colours_out: allowed(io::stdout().is_terminal()),
            quiet,
            interactive,
            bars: interactive && !quiet && !leaving,
            bar: Arc::default(),
            left: Arc::default(),
        }
    }

    /// From now on everything is for the run's log.
    pub fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    /// Whether colours may be used on standard error.
    pub fn colours(&self) -> bool {
        self.colours
    }

    /// Whether colours may be used on standard output.
    pub fn colours_out(&self) -> bool {
        self.colours_out && !self.has_left()
    }

    /// Whether only failures and results are wanted.
    pub fn quiet(&self) -> bool {
        self.quiet
    }

    /// Whether somebody may be watching.
    pub fn interactive(&self) -> bool {
        self.interactive
    }

    /// Whether progress is shown by a bar.
    pub fn has_bars(&self) -> bool {
        self.bars
    }

    /// Keeps lines from tearing this bar, until [`Screen::clear_bar`].
    pub fn set_bar(&self, bar: ProgressBar) {
        *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar);
    }

    /// The bar is gone.
    pub fn clear_bar(&self) {
        *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A result, to standard output. `Err` only if the reader went away, which is no fault of ours.
    pub fn out(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// A line for people, to standard error; nothing when quiet.
    pub fn say(&self, line: &str) {
        if self.has_left() {
            tracing::info!("{}", drover_report::printable_lines(line));
        } else if !self.quiet {
            self.complain(line);
        }
    }

    /// Lines that may hold colours and are ours to the last byte, to standard error.
    pub fn show(&self, text: &str) {
        let _ = self.write_err(format!("{text}\n").as_bytes());
    }

    /// A line that must be seen, to standard error.
    pub fn complain(&self, line: &str) {
        if self.has_left() {
            tracing::warn!("{}", drover_report::printable_lines(line));
            return;
        }
        // Parts of it may come from hosts.
        let _ = self.write_err(drover_report::printable_lines(&format!("{line}\n")).as_bytes());
    }

    fn write_err(&self, bytes: &[u8]) -> io::Result<()> {
        let bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        let write = || io::stderr().lock().write_all(bytes);
        match bar.as_ref() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

/// One log line; written whole, above the bar.
pub struct ScreenLine(Screen, Vec<u8>);

impl Write for ScreenLine {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for ScreenLine {
    fn drop(&mut self) {
        // The run's log has it anyway.
        if !self.0.has_left() {
            let _ = self.0.write_err(&self.1);
        }
    }
}

impl MakeWriter<'_> for Screen {
    type Writer = ScreenLine;

    fn make_writer(&self) -> ScreenLine {
        ScreenLine(self.clone(), Vec::new())
    }
}
