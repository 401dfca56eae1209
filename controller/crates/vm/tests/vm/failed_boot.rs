//! Kernels that do not come to run their program: told within the limit, with what the console says.

use std::{fs, time::Duration};

use drover_vm::{BootError, StartError, Vm, VmSpec};

use crate::harness::{LIMIT, Lab, NEW};

#[tokio::test]
async fn expect_the_kernels_complaint_when_its_root_is_nonsense() {
    let lab = Lab::new(NEW);
    let cmdline = "root=/dev/nonsense panic=-1".to_owned();
    let vm = Vm::start(&VmSpec { cmdline, ..lab.bare() }).await.unwrap();
    let error = vm.booted(LIMIT).await.unwrap_err();
    assert!(matches!(error, BootError::Ended { .. }), "{error}");
    assert!(error.console().contains("Unable to mount root fs"), "{}", error.console());
}

#[tokio::test]
async fn expect_the_programs_end_told_when_it_does_not_serve() {
    let lab = Lab::new(NEW);
    let vm = Vm::start(&lab.spec_with(&[])).await.unwrap();
    let error = vm.booted(LIMIT).await.unwrap_err();
    assert!(error.to_string().contains("guest-shutdown"), "{error}");
    assert!(error.console().contains("`/bin/drover-agent` ended: exit code 2"), "{}", error.console());
}

#[tokio::test]
async fn expect_the_limit_kept_when_the_image_is_cut_off() {
    let lab = Lab::new(NEW);
    let image = lab.dir.path().join("torn");
    let bytes = fs::read(&lab.kernel.image).unwrap();
    fs::write(&image, &bytes[..bytes.len() / 2]).unwrap();
    let spec = VmSpec { kernel: image, ..lab.spec(1) };
    // QEMU may refuse it, or the kernel's own loader may give up.
    match Vm::start(&spec).await {
        Ok(vm) => {
            let limit = Duration::from_secs(8);
            let error = vm.booted(limit).await.unwrap_err();
            println!("{error}: {}", error.console());
            assert!(matches!(error, BootError::Ended { .. } | BootError::TimedOut { .. }), "{error}");
            let console = vm.console().tail(1 << 20);
            assert!(!console.contains("Linux version"), "{console}");
        }
        Err(error) => println!("{error}"),
    }
}

#[tokio::test]
async fn expect_the_limit_kept_when_the_kernel_does_nothing() {
    let lab = Lab::new(NEW);
    let vm = Vm::start(&VmSpec { more_args: vec!["-S".to_owned()], ..lab.bare() }).await.unwrap();
    let limit = Duration::from_millis(300);
    let error = vm.booted(limit).await.unwrap_err();
    assert!(matches!(error, BootError::TimedOut { .. }) && error.console().is_empty(), "{error}");
}

#[tokio::test]
async fn expect_qemus_complaint_when_the_image_is_for_another_machine() {
    let lab = Lab::new(NEW);
    let image = lab.dir.path().join("other");
    fs::write(&image, "MZ\0\0ARMd".repeat(2000)).unwrap();
    let error = Vm::start(&VmSpec { kernel: image, ..lab.bare() }).await.map(|_| ()).unwrap_err();
    assert!(matches!(&error, StartError::Ended { said, .. } if said.contains("kernel")), "{error}");
}
