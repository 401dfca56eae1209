//! Tests of the built-in workload as real processes on loopback.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod client;
mod common;
mod lost_workers;
mod server;
