//! The streaming answers of the service: events and outputs. Both are read from their files when the connection has room
//! for more, so a slow reader costs no memory.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use drover_proto::{LeaseRef, MAX_CHUNK_BYTES, v1};
use drover_supervise::KeptOutput;
use tokio_stream::{Stream, wrappers::WatchStream};
use tonic::Status;

use crate::{agent::Agent, refused::Refused};

/// Bytes of events taken from the spool at once.
const BATCH_BYTES: usize = 128 << 10;

/// Events of a run, those in the spool first, then new ones. Ends with an error when the lease is no longer the present
/// one, and without when the agent ends.
#[derive(Debug)]
pub struct EventStream {
    agent: Arc<Agent>,
    lease: LeaseRef,
    next_seq: u64,
    batch: VecDeque<v1::TaskEvent>,
    news: WatchStream<u64>,
    over: bool,
}

impl EventStream {
    /// Events from `from_seq` on.
    #[must_use]
    pub fn new(agent: Arc<Agent>, lease: LeaseRef, from_seq: u64) -> Self {
        let news = WatchStream::from_changes(agent.news());
        Self { agent, lease, next_seq: from_seq, batch: VecDeque::new(), news, over: false }
    }

    /// Takes the next events from the spool. `None` when the stream is over.
    fn refill(&mut self) -> Result<Option<()>, Refused> {
        let registry = self.agent.registry();
        registry.check(self.lease)?;
        let (events, next_seq) = registry.read(self.lease.run, self.next_seq, BATCH_BYTES)?;
        let over = events.is_empty() && registry.is_ending() && registry.all_live().next().is_none();
        drop(registry);
        self.batch.extend(events);
        self.next_seq = next_seq;
        Ok((!over).then_some(()))
    }
}

impl Stream for EventStream {
    type Item = Result<v1::TaskEvent, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.batch.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            if self.over {
                return Poll::Ready(None);
            }
            match self.refill() {
                Ok(Some(())) if self.batch.is_empty() => match Pin::new(&mut self.news).poll_next(context) {
                    Poll::Ready(Some(_)) => {}
                    Poll::Ready(None) => self.over = true,
                    Poll::Pending => return Poll::Pending,
                },
                Ok(Some(())) => {}
                Ok(None) => self.over = true,
                Err(refused) => {
                    self.over = true;
                    return Poll::Ready(Some(Err(refused.into())));
                }
            }
        }
    }
}

/// The kept bytes of an output, in chunks.
#[derive(Debug)]
pub struct OutputStream {
    source: Source,
    at: u64,
}

#[derive(Debug)]
enum Source {
    Inline(Vec<u8>),
    File(KeptOutput),
    Over,
}

impl OutputStream {
    /// Bytes that are known already.
    #[must_use]
    pub fn inline(bytes: Vec<u8>) -> Self {
        Self { source: if bytes.is_empty() { Source::Over } else { Source::Inline(bytes) }, at: 0 }
    }

    /// Bytes in a file.
    #[must_use]
    pub fn file(kept: KeptOutput) -> Self {
        Self { source: Source::File(kept), at: 0 }
    }

    fn chunk(&mut self) -> std::io::Result<Vec<u8>> {
        match std::mem::replace(&mut self.source, Source::Over) {
            Source::Over => Ok(Vec::new()),
            Source::Inline(bytes) => Ok(bytes),
            Source::File(kept) => {
                let mut chunk = vec![0; MAX_CHUNK_BYTES];
                let length = kept.read_at(self.at, &mut chunk)?;
                chunk.truncate(length);
                self.at = self.at.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
                self.source = Source::File(kept);
                Ok(chunk)
            }
        }
    }
}

impl Stream for OutputStream {
    type Item = Result<v1::FetchChunk, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(match self.chunk() {
            Ok(chunk) if chunk.is_empty() => None,
            Ok(chunk) => Some(Ok(v1::FetchChunk { data: chunk.into() })),
            Err(error) => {
                let text = format!("the output cannot be read further: {error}");
                Some(Err(drover_proto::Refusal::NoOutput.status(text)))
            }
        })
    }
}
