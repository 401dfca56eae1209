//! The writer's thread, and the handle to it.
//!
//! While a commit waits for the disk, commands queue up; the next commit takes all of them at once. So an idle writer
//! stores at once (results of attempts that follow each other within milliseconds share a commit), a busy one with few syncs, and at most [`QUEUE_LENGTH`] + [`MAX_BATCH`] commands are at risk.

use std::{
    collections::BTreeSet,
    io,
    sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::command::{CloseError, Command, CommandError, Failure, StoreEvent, SubmitError, Token};
use crate::{Change, ResultsDir, Store, outputs::OutputBatch};

/// Commands that wait while a commit goes on.
pub const QUEUE_LENGTH: usize = 256;
/// Shortest time from one commit to the next, when only results of attempts wait.
const PACE: Duration = Duration::from_millis(5);
/// Results that wait for it; with more, the commit is made at once.
const PACED: usize = 4;
/// Commands stored by one commit.
pub const MAX_BATCH: usize = 256;

type Queued = (Token, Command);

/// Handle to the thread that owns a store. Dropping it stores what is queued, as [`Writer::close`] does, but tells
/// nobody whether that went well.
#[derive(Debug)]
pub struct Writer<S: Store + 'static> {
    /// `None` once closing has begun.
    queue: Option<SyncSender<Queued>>,
    thread: Option<JoinHandle<Ended<S>>>,
}

/// What the thread leaves behind.
struct Ended<S> {
    store: S,
    unstored: BTreeSet<Token>,
}

impl<S: Store + 'static> Writer<S> {
    /// Starts the thread. `on_event` is called on it, for every command once, and must not wait for anything: while it
    /// runs, nothing is stored.
    ///
    /// # Errors
    /// The system has no room for another thread.
    pub fn spawn(
        store: S,
        dir: ResultsDir,
        on_event: impl Fn(StoreEvent) + Send + 'static,
    ) -> Result<Self, io::Error> {
        let (queue, commands) = sync_channel(QUEUE_LENGTH);
        let worker = Worker { commands, store, dir, on_event, unstored: BTreeSet::new(), last_commit: None };
        let thread = thread::Builder::new().name("drover-store".into()).spawn(move || worker.run())?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Hands over a command; waits while the queue is full.
    ///
    /// # Errors
    /// [`SubmitError::Closed`].
    pub fn submit(&self, token: Token, command: Command) -> Result<(), SubmitError> {
        match &self.queue {
            Some(queue) => queue.send((token, command)).map_err(|error| SubmitError::Closed(closed(error.0))),
            None => Err(SubmitError::Closed(command)),
        }
    }

    /// Hands over a command, if there is room in the queue.
    ///
    /// # Errors
    /// [`SubmitError::Full`] or [`SubmitError::Closed`].
    pub fn try_submit(&self, token: Token, command: Command) -> Result<(), SubmitError> {
        let Some(queue) = &self.queue else { return Err(SubmitError::Closed(command)) };
        queue.try_send((token, command)).map_err(|error| match error {
            TrySendError::Full((_, command)) => SubmitError::Full(command),
            TrySendError::Disconnected((_, command)) => SubmitError::Closed(command),
        })
    }

    /// Stores everything submitted, ends the thread and gives the store back.
    ///
    /// # Errors
    /// Commands failed and were not stored by a later try, or the thread had ended early. The store is then closed.
    pub fn close(mut self) -> Result<S, CloseError> {
        match self.end() {
            Some(Ok(ended)) if ended.unstored.is_empty() => Ok(ended.store),
            Some(Ok(ended)) => Err(CloseError::Unstored(ended.unstored.into_iter().collect())),
            Some(Err(_)) | None => Err(CloseError::Panicked),
        }
    }

    fn end(&mut self) -> Option<thread::Result<Ended<S>>> {
        self.queue = None;
        self.thread.take().map(JoinHandle::join)
    }
}

impl<S: Store + 'static> Drop for Writer<S> {
    fn drop(&mut self) {
        if let Some(Err(_)) = self.end() {
            tracing::error!("the thread that writes the store has ended early");
        }
    }
}

fn closed((_, command): Queued) -> Command {
    command
}

struct Worker<S, F> {
    /// First, so that whoever learns of the thread's end by what the callback owned finds the queue closed.
    commands: Receiver<Queued>,
    store: S,
    dir: ResultsDir,
    on_event: F,
    /// Commands that failed and were not yet stored by a later try.
    unstored: BTreeSet<Token>,
    last_commit: Option<Instant>,
}

impl<S: Store, F: Fn(StoreEvent)> Worker<S, F> {
    fn run(mut self) -> Ended<S> {
        // Fails once all senders are gone and the queue is empty.
        while let Ok(first) = self.commands.recv() {
            let mut batch = Vec::with_capacity(MAX_BATCH);
            batch.push(first);
            self.pace(&mut batch);
            batch.extend(self.commands.try_iter().take(MAX_BATCH - PACED));
            self.store_batch(batch);
            self.last_commit = Some(Instant::now());
        }
        Ended { store: self.store, unstored: self.unstored }
    }

    /// Results of very short trials share a commit: a few of them wait for the next, for a moment. Anything else is
    /// stored at once.
    fn pace(&self, batch: &mut Vec<Queued>) {
        let Some(next) = self.last_commit.map(|last| last + PACE) else { return };
        while batch.len() < PACED
            && batch.iter().all(|(_, command)| matches!(command, Command::Finish { .. }))
        {
            let wait = next.saturating_duration_since(Instant::now());
            match self.commands.recv_timeout(wait) {
                Ok(queued) => batch.push(queued),
                Err(_) => return,
            }
        }
    }

    fn store_batch(&mut self, batch: Vec<Queued>) {
        let batch = self.write_outputs(batch);
        let changes: Vec<Change<'_>> = batch.iter().map(|(_, command)| command.change()).collect();
        if changes.is_empty() {
            return;
        }
        match self.store.apply(&changes) {
            Ok(()) => self.stored(batch.iter().map(|(token, _)| *token).collect()),
            // One of them is refused, or there is no room for all: each for itself, so that only the guilty fail.
            Err(error) if batch.len() > 1 => {
                tracing::debug!(%error, commands = batch.len(), "storing commands one by one");
                batch.into_iter().for_each(|queued| self.store_alone(queued));
            }
            Err(error) => {
                if let Some(queued) = batch.into_iter().next() {
                    self.failed(queued, error);
                }
            }
        }
    }

    fn store_alone(&mut self, (token, command): Queued) {
        match self.store.apply(&[command.change()]) {
            Ok(()) => self.stored(vec![token]),
            Err(error) => self.failed((token, command), error),
        }
    }

    /// Makes the outputs of finished attempts durable, and returns the commands that can be committed.
    fn write_outputs(&mut self, batch: Vec<Queued>) -> Vec<Queued> {
        let dir = self.dir.clone();
        let mut files = OutputBatch::new(&dir);
        let mut seen = BTreeSet::new();
        let mut ready = Vec::with_capacity(batch.len());
        for queued in batch {
            let written = match &queued.1 {
                // The outputs of an attempt that is already stored are not touched; the store judges the record.
                Command::Finish { record, outputs } if !outputs.is_empty() && seen.insert(record.id) => {
                    match self.store.is_finished(&record.id) {
                        Ok(false) => files.write(&record.id, outputs).map_err(CommandError::from),
                        Ok(true) => Ok(()),
                        Err(error) => Err(error.into()),
                    }
                }
                _ => Ok(()),
            };
            match written {
                Ok(()) => ready.push(queued),
                Err(error) => self.failed(queued, error),
            }
        }
        let mut durable = Vec::with_capacity(ready.len());
        for queued in ready {
            let synced = match &queued.1 {
                Command::Finish { record, .. } => files.sync(record.id.run),
                _ => Ok(()),
            };
            match synced {
                Ok(()) => durable.push(queued),
                Err(error) => self.failed(queued, error),
            }
        }
        durable
    }

    fn stored(&mut self, tokens: Vec<Token>) {
        for token in &tokens {
            self.unstored.remove(token);
        }
        (self.on_event)(StoreEvent::Stored(tokens));
    }

    fn failed(&mut self, (token, command): Queued, error: impl Into<CommandError>) {
        self.unstored.insert(token);
        let failure = Failure { token, command, error: error.into() };
        (self.on_event)(StoreEvent::Failed(Box::new(failure)));
    }
}
