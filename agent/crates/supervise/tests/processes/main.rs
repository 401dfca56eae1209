//! Real process trees in every containment that the host has.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod kill;
mod lab;
mod life;
mod orphans;
