//! Logs: warnings to standard error (more with `-v`), what matters to the run's folder while a run is on.

use std::{
    fs::File,
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tracing_subscriber::{EnvFilter, Layer, fmt::MakeWriter, layer::SubscriberExt, util::SubscriberInitExt};

use crate::screen::Screen;

/// Hands the run's log file to the logger once there is one.
#[derive(Clone, Default)]
pub struct RunLog(Arc<Mutex<Option<File>>>);

impl RunLog {
    /// From now on, logs go to this file too.
    pub fn set(&self, file: File) {
        *self.lock() = Some(file);
    }

    fn lock(&self) -> MutexGuard<'_, Option<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for &RunLog {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self.lock().as_mut() {
            Some(file) => file.write(buf),
            None => Ok(buf.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for RunLog {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// Starts logging. `verbose` counts the `-v`s; `DROVER_LOG` overrides it with a tracing filter.
pub fn start(verbose: u8, screen: &Screen) -> RunLog {
    let level = match verbose {
        0 => "warn",
        1 => "warn,drover=info",
        2 => "warn,drover=debug",
        _ => "warn,drover=trace",
    };
    let filter = EnvFilter::new(std::env::var("DROVER_LOG").unwrap_or_else(|_| level.to_owned()));
    let run_log = RunLog::default();
    let to_screen = tracing_subscriber::fmt::layer()
        .with_writer(screen.clone())
        .with_ansi(screen.colours())
        .with_target(false)
        .without_time()
        .with_filter(filter);
    let to_run = tracing_subscriber::fmt::layer()
        .with_writer(run_log.clone())
        .with_ansi(false)
        .with_filter(EnvFilter::new("info"));
    // A second start in one process (tests) keeps the first logger.
    let _ = tracing_subscriber::registry().with(to_screen).with(to_run).try_init();
    run_log
}
