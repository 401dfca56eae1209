//! The thread that owns the store while a run goes on, and groups what it is given into durable commits.

mod command;
mod thread;

pub use command::{CloseError, Command, CommandError, Failure, StoreEvent, SubmitError, Token};
pub use thread::{MAX_BATCH, QUEUE_LENGTH, Writer};
