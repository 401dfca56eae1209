//! Stands in for a controller in the tests of this crate: `vm_hold KERNEL DIR` starts a machine, says the number of QEMU's
//! process, and waits to be killed.

use std::{path::PathBuf, process::ExitCode};

use drover_vm::{AcceleratorWish, Vm, VmSpec};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut paths = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(kernel), Some(dir)) = (paths.next(), paths.next()) else { return ExitCode::from(2) };
    // It finds no root, panics, and stays for ever: nothing but the controller's end ends it.
    let cmdline = "panic=0".to_owned();
    let spec = VmSpec { accelerator: AcceleratorWish::Tcg, cmdline, ..VmSpec::new(kernel, dir) };
    match Vm::start(&spec).await {
        Ok(vm) => {
            println!("{}", vm.pid());
            vm.ended().await;
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("vm_hold: {error}");
            ExitCode::FAILURE
        }
    }
}
