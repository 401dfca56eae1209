//! Observes the machine while tasks of an attempt run, if the lease asks for it: samples of all sensors, the kernel's log and
//! its taint.
//!
//! Attempts that last get a thread each ([`observer`]) until the end of their last task; in shorter ones the kernel is looked at
//! when a task ends ([`observatory`]). Samples go to the file
//! `observed/ATTEMPT` of the state directory, findings as events to the spool. Used by the service and by evidence.

mod file;
mod judge;
mod kernel;
mod observatory;
mod observer;

pub use file::{ObservedStream, open};
pub use judge::judge_file;
pub use observatory::Observatory;
