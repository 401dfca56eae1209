//! Facts and counters of the machine the agent runs on. Read by the agent: facts at every hello, counters at the start
//! and the end of a task. And what changes the machine: which kernel it boots.

pub mod boot;
pub mod console;
mod counters;
mod facts;
mod features;
pub mod hotplug;
pub mod kernel_log;
mod notes;
pub mod sensors;
mod source;
mod survey;
mod topology;

pub use counters::{CounterReader, CountersError};
pub use facts::{SYSCTLS, agent_facts, facts, facts_below};
pub use notes::gnu_build_id;
pub use survey::survey;
