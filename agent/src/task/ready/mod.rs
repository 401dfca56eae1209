//! Ready checks: are probed one after the other, each again and again until it holds.

mod command;
mod http;
mod probe;
mod reach;
mod wait;

pub(super) use probe::Probes;
pub use reach::{Target, reach};
pub(super) use wait::ReadyWait;
