//! The built-in workload as a program of its own, for this crate's tests and for benchmarks. In use it is a subcommand
//! of `drover-agent`.

use std::process::ExitCode;

use clap::Parser;
use drover_workload::Workload;

/// Built-in server and client
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    workload: Workload,
}

fn main() -> ExitCode {
    Cli::parse().workload.run()
}
