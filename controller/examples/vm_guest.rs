//! What tests run in virtual machines: `vm_guest load MODULE` loads a module, `vm_guest reboot` resets the machine without asking
//! anybody.

use std::{fs::File, io, process::ExitCode};

use rustix::system::{RebootCommand, finit_module, reboot};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match *args {
        ["load", module] => File::open(module).and_then(|file| Ok(finit_module(file, c"", 0)?)),
        ["reboot"] => reboot(RebootCommand::Restart).map_err(io::Error::from),
        _ => return ExitCode::from(2),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vm_guest: {error}");
            ExitCode::FAILURE
        }
    }
}
