//! Acts as `drover agent` does: for the tests of this crate, which cannot use the binaries of another one.

use std::process::ExitCode;

use drover_agent::OwnCommand;

fn main() -> ExitCode {
    let args = std::env::args_os().skip(2);
    drover_agent::main_with_args(args, OwnCommand { prefix: &["agent"] })
}
