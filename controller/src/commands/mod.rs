//! One file per command, and what several of them share.

mod attach;
mod bisect;
mod check;
mod completions;
mod controller;
mod detach;
mod doctor;
mod hosts;
mod kernels;
mod list;
mod load;
mod open;
mod pki;
mod plan;
mod reparse;
mod report;
mod requires;
mod run;
mod sensors;
mod show;
mod stop;

pub use attach::attach;
pub use bisect::{BisectArgs, bisect};
pub use check::check;
pub use completions::completions;
pub use doctor::doctor;
pub use hosts::hosts;
pub use kernels::kernels;
pub use list::list;
pub use pki::pki;
pub use plan::plan;
pub use reparse::reparse;
pub use report::report;
pub use run::{resume, run};
pub use show::show;
pub use stop::stop;
