//! What the command line says about a search.

use std::path::PathBuf;

use clap::Args;

use super::judge::Condition;
use crate::args::HostArgs;

#[derive(Debug, Args)]
pub struct BisectArgs {
    /// The matrix file; not needed to go on with a search.
    #[arg(required_unless_present = "resume")]
    pub matrix: Option<PathBuf>,
    /// Search along this axis: its first value is good, its last is bad, and one between is the first bad one.
    #[arg(long, value_name = "AXIS", conflicts_with = "toggle", required_unless_present_any = ["toggle", "resume"])]
    pub axis: Option<String>,
    /// Search among these axes of two values each, off and on, for the fewest that change the outcome when they are on.
    #[arg(long, value_name = "AXIS", num_args = 1..)]
    pub toggle: Vec<String>,
    /// What is bad: `ng`, `ng:lockup`, or a bound of a metric such as 'conn_per_s < 900'.
    #[arg(long, value_name = "CONDITION", default_value = "ng")]
    pub bad: Condition,
    /// Tries of each end before the search: the more often the bad end fails in them, the fewer clean tries make a value good.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub ends: u32,
    /// Most clean tries of one candidate.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub most: u32,
    /// As for `run`; each other axis must have one value left.
    #[arg(long, value_name = "AXIS=V1,V2")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub hosts: HostArgs,
    /// Wait for hosts that another run holds.
    #[arg(long)]
    pub wait: bool,
    /// Go on with a search that was interrupted: the last one, or the one named.
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "last",
          conflicts_with_all = ["matrix", "axis", "toggle", "set"])]
    pub resume: Option<String>,
}
