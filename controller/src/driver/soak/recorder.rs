//! The thread that writes series and timelines, and sums them up at their end. It flushes what was written at least once a
//! second. A disk that takes nothing for a while is tried again; what does not fit into the little that may wait meanwhile
//! fails the attempt.

use std::{
    collections::BTreeMap,
    io,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use drover_matrix::{Matrix, Metric, Soak};
use drover_model::{AttemptId, Name};
use drover_report::soak::{SeriesMetric, SoakSetup, summarise};
use drover_store::{MarkKind, MetricRecord, ResultsDir, SeriesError, SeriesReader, SeriesWriter};

use super::{super::link::chain, course::OnDisk};

/// Longest time until something is durable.
const FLUSH: Duration = Duration::from_secs(1);
/// Orders that wait for a slow disk.
const MOST_ORDERS: usize = 10_000;

/// What the thread has to say.
#[derive(Debug)]
pub enum Recorded {
    /// The series is open; this is in it.
    Opened { attempt: AttemptId, on_disk: OnDisk },
    /// The series is whole and durable; these are the medians of its metrics.
    Closed { attempt: AttemptId, medians: Vec<(Name, f64)> },
    /// It cannot be written or read.
    Failed { attempt: AttemptId, why: String, disk_full: bool },
}

/// What is to be done.
#[derive(Debug)]
enum Order {
    Open(AttemptId),
    Point { attempt: AttemptId, at_unix_us: u64, round: u64, values: Vec<(Name, f64)> },
    Mark { attempt: AttemptId, at_unix_us: u64, kind: MarkKind, text: String },
    Close { attempt: AttemptId, planned: Duration },
}

/// What it takes to sum a series up.
#[derive(Clone, Debug)]
pub struct Shape {
    pub metrics: Vec<SeriesMetric>,
    pub every: Duration,
}

impl Shape {
    /// That of a matrix.
    pub fn of(matrix: &Matrix, soak: &Soak) -> Self {
        let metric = |metric: &Metric| {
            SeriesMetric::of(&MetricRecord {
                name: metric.name.clone(),
                unit: metric.unit.clone(),
                better: metric.better,
                primary: metric.primary,
            })
        };
        Self { metrics: matrix.metrics().iter().map(metric).collect(), every: soak.every }
    }
}

/// Hands over to the thread. Dropping it waits until all is written.
#[derive(Debug)]
pub struct Recorder {
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Starts the thread; `tell` is called on it.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn spawn(
        dir: ResultsDir,
        shape: Shape,
        tell: impl Fn(Recorded) + Send + 'static,
    ) -> io::Result<Self> {
        let (orders, inbox) = sync_channel(MOST_ORDERS);
        let work = move || Desk { dir, shape, tell, open: BTreeMap::new() }.work(&inbox);
        let thread = std::thread::Builder::new().name("series".to_owned()).spawn(work)?;
        Ok(Self { orders: Some(orders), thread: Some(thread) })
    }

    /// Opens the series of an attempt, or goes on with it. Answered by `Opened` or `Failed`.
    pub fn open(&self, attempt: AttemptId) -> Result<(), Full> {
        self.order(Order::Open(attempt))
    }

    /// Adds a point.
    pub fn point(
        &self,
        attempt: AttemptId,
        at_unix_us: u64,
        round: u64,
        values: Vec<(Name, f64)>,
    ) -> Result<(), Full> {
        self.order(Order::Point { attempt, at_unix_us, round, values })
    }

    /// Adds a mark.
    pub fn mark(
        &self,
        attempt: AttemptId,
        at_unix_us: u64,
        kind: MarkKind,
        text: String,
    ) -> Result<(), Full> {
        self.order(Order::Mark { attempt, at_unix_us, kind, text })
    }

    /// Closes a series. Answered by `Closed` or `Failed`.
    pub fn close(&self, attempt: AttemptId, planned: Duration) -> Result<(), Full> {
        self.order(Order::Close { attempt, planned })
    }

    fn order(&self, order: Order) -> Result<(), Full> {
        let Some(orders) = &self.orders else { return Err(Full) };
        orders.try_send(order).map_err(|error| match error {
            TrySendError::Full(_) | TrySendError::Disconnected(_) => Full,
        })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes series did not end well");
        }
    }
}

/// The disk is so slow that no more may wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the disk does not take what is measured fast enough: {MOST_ORDERS} points wait for it")]
pub struct Full;

struct Desk<F> {
    dir: ResultsDir,
    shape: Shape,
    tell: F,
    open: BTreeMap<AttemptId, SeriesWriter>,
}

impl<F: Fn(Recorded)> Desk<F> {
    fn work(mut self, inbox: &Receiver<Order>) {
        let mut due = Instant::now() + FLUSH;
        loop {
            match inbox.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(order) => self.carry_out(order),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if Instant::now() >= due {
                self.flush();
                due = Instant::now() + FLUSH;
            }
        }
        self.flush();
    }

    fn flush(&mut self) {
        for (attempt, writer) in &mut self.open {
            if let Err(error) = writer.flush() {
                tracing::warn!(%attempt, "the series cannot be written at the moment: {}", chain(&error));
            }
        }
    }

    fn carry_out(&mut self, order: Order) {
        let (attempt, done) = match order {
            Order::Open(attempt) => (attempt, self.open(attempt)),
            Order::Point { attempt, at_unix_us, round, values } => {
                let mut done = Ok(());
                if let Some(writer) = self.open.get_mut(&attempt) {
                    for (metric, value) in &values {
                        done = done.and(writer.point(at_unix_us, round, metric, *value));
                    }
                }
                (attempt, done)
            }
            Order::Mark { attempt, at_unix_us, kind, text } => {
                let writer = self.open.get_mut(&attempt);
                (attempt, writer.map_or(Ok(()), |writer| writer.mark(at_unix_us, kind, &text)))
            }
            Order::Close { attempt, planned } => (attempt, self.close(attempt, planned)),
        };
        if let Err(error) = done {
            let disk_full = error.is_disk_full();
            (self.tell)(Recorded::Failed { attempt, why: chain(&error), disk_full });
        }
    }

    fn open(&mut self, attempt: AttemptId) -> Result<(), SeriesError> {
        let writer = SeriesWriter::append(&self.dir, &attempt)?;
        let found = writer.reopened();
        let mut on_disk =
            OnDisk { last_point: found.last_round.zip(found.last_point_unix_us), ..OnDisk::default() };
        if found.begun_before
            && let Some(reader) = SeriesReader::open(&self.dir, &attempt)?
        {
            for mark in reader.marks()? {
                let mark = mark?;
                if mark.kind == MarkKind::Begun {
                    on_disk.begun_unix_us.get_or_insert(mark.at_unix_us);
                }
                let last = on_disk.last_marks.entry(mark.kind).or_default();
                *last = mark.at_unix_us.max(*last);
            }
        }
        self.open.insert(attempt, writer);
        (self.tell)(Recorded::Opened { attempt, on_disk });
        Ok(())
    }

    fn close(&mut self, attempt: AttemptId, planned: Duration) -> Result<(), SeriesError> {
        if let Some(mut writer) = self.open.remove(&attempt) {
            writer.flush()?;
        }
        let mut medians = Vec::new();
        if let Some(reader) = SeriesReader::open(&self.dir, &attempt)? {
            let setup = SoakSetup {
                started_unix_us: 0,
                ended_unix_us: None,
                planned,
                every: self.shape.every,
                warm_up: None,
                verdict: None,
                metrics: &self.shape.metrics,
                sensors: &[],
            };
            let found = summarise(&reader, &setup)?.metrics;
            let metrics = self.shape.metrics.iter().zip(found);
            medians.extend(metrics.filter_map(|(metric, found)| Some((metric.name.clone(), found.median?))));
        }
        (self.tell)(Recorded::Closed { attempt, medians });
        Ok(())
    }
}
