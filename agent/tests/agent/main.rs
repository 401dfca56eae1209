//! Tests of the agent as controllers see it: real agent processes, real sockets, real tasks.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, helpers too"
)]

mod artifacts;
mod barrier;
mod blobs;
mod boot;
mod clock;
mod cpus;
mod ends;
mod evidence;
mod harness;
mod lease;
mod observe;
mod output;
mod progress;
mod reach;
mod ready;
mod recovery;
mod rounds;
mod serving;
mod stall;
mod start;
mod watch;
mod wrong_world;
