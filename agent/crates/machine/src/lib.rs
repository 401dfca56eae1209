//! Facts and counters of the machine the agent runs on. Read by the agent: facts at every hello, counters at the start
//! and the end of a task.

mod counters;
mod facts;

pub use counters::{CounterReader, CountersError};
pub use facts::{facts, facts_below};
