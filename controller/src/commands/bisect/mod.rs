//! `drover bisect`: finds the first bad value of an axis, or the smallest set of toggles that changes the outcome. Every try is a run of
//! its own, written into a journal before it begins.

mod args;
mod journal;
mod judge;
mod search;
mod target;

pub use args::BisectArgs;
pub use search::bisect;
