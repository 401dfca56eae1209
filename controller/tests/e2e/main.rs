//! The program as its users meet it: real controllers and agents, real processes, real signals.

#![expect(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attach;
mod bisect;
mod commands;
mod cpus;
mod disturbed;
mod durable;
mod harness;
mod interrupts;
mod observed;
mod real_software;
mod soaks;
mod wrong_input;
mod wrong_world;
