//! Ready checks: are probed one after the other, each again and again until it holds.

mod command;
mod http;
mod probe;
mod wait;

pub(super) use probe::Probes;
pub(super) use wait::ReadyWait;
