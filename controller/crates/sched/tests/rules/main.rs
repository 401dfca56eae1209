//! The rules of the scheduler, one by one: what it orders when something happens.

#![expect(clippy::unwrap_used, reason = "a test: what is unexpected fails it")]

mod boots;
mod desk;
mod endings;
mod hosts;
mod kernel;
mod life;
mod machines;
mod power;
mod retries;
mod seats;
mod soaks;
