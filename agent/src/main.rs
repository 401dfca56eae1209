//! `drover-agent`: the agent as a program of its own, for hosts other than the controller's.

use std::process::ExitCode;

use drover_agent::OwnCommand;

fn main() -> ExitCode {
    drover_agent::main_with_args(std::env::args_os().skip(1), OwnCommand::default())
}
