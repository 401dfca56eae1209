//! What the store answers, and what it was asked.

use std::sync::Arc;

use drover_model::{AttemptId, HostFacts, Name, Seats};
use drover_sched::Event;
use drover_store::{Command, StoreEvent, Token};

use super::{drive::Driver, link};

/// What a command to the store was about.
pub(super) enum Submitted {
    /// Intents.
    Journal(Vec<(AttemptId, Arc<Seats>)>),
    /// A finished attempt.
    Attempt(AttemptId),
    /// Something whose failure does not stop the run.
    Note,
}

impl Driver {
    /// Stores what a host says of itself, now that it is that.
    pub(super) fn note_facts(&mut self, host: &Name, facts: &HostFacts) {
        let token = self.token(Submitted::Note);
        let (run, name, facts) = (self.run, host.clone(), Box::new(facts.clone()));
        let command = Command::Host { run, name, facts };
        if let Err(error) = self.writer.submit(token, command) {
            tracing::error!("the facts of {host} could not be stored: {error}");
        }
    }

    /// Tells the scheduler what is stored, and what could not be.
    pub(super) fn store_answered(&mut self, event: StoreEvent) {
        match event {
            StoreEvent::Stored(tokens) => {
                for token in tokens {
                    match self.tokens.remove(&token) {
                        Some(Submitted::Journal(attempts)) => {
                            self.feed(Event::AttemptsJournalled { attempts })
                        }
                        Some(Submitted::Attempt(attempt)) => {
                            if let Some(live) = self.attempts.remove(&attempt)
                                && let Some(summary) = live.summary
                            {
                                self.progress.stored(attempt.trial, &live.cell, summary);
                            }
                            self.feed(Event::AttemptStored { attempt });
                        }
                        Some(Submitted::Note) | None => {}
                    }
                }
            }
            StoreEvent::Failed(failure) => {
                let why = link::chain(&failure.error);
                let disk_full = failure.error.is_disk_full();
                tracing::error!("not stored: {why}");
                match self.tokens.remove(&failure.token) {
                    Some(Submitted::Journal(_)) => self.feed(Event::JournalFailed { why, disk_full }),
                    Some(Submitted::Attempt(attempt)) => {
                        self.feed(Event::StoreFailed { attempt, why, disk_full })
                    }
                    Some(Submitted::Note) | None => {}
                }
            }
        }
    }

    /// A name for a command to the store.
    pub(super) fn token(&mut self, about: Submitted) -> Token {
        self.next_token += 1;
        let token = Token(self.next_token);
        self.tokens.insert(token, about);
        token
    }
}
