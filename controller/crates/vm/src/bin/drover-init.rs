//! The first process of drover's virtual machines.

use std::process::ExitCode;

fn main() -> ExitCode {
    drover_vm::init()
}
