//! Tests of whole reports, as callers see them.

#![expect(clippy::unwrap_used, reason = "a test ends where a step fails")]

mod fixture;
mod formats;
mod layout;
mod machines;
mod morning;
mod progress;
mod properties;
mod scaling;
