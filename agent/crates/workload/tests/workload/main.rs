//! Tests of the built-in workload as real processes on loopback.

mod client;
mod common;
mod lost_workers;
mod server;
