//! What QEMU's process does to this host, and what it must not.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use drover_vm::{Accelerator, AcceleratorWish, KvmVerdict, StartError, Vm, VmSpec, kvm_works};

use crate::harness::{Lab, NEW, example};

#[tokio::test]
async fn expect_kvm_used_exactly_when_a_kernel_boots_with_it() {
    let lab = Lab::new(NEW);
    let wish = |accelerator| VmSpec { accelerator, ..lab.bare() };
    let auto = Vm::start(&wish(AcceleratorWish::Auto)).await.unwrap();
    match kvm_works(Path::new("qemu-system-x86_64"), &lab.kernel.image).await {
        KvmVerdict::Works => assert_eq!(auto.accelerator(), Accelerator::Kvm),
        KvmVerdict::Broken { why } => {
            println!("no kvm: {why}");
            assert_eq!(auto.accelerator(), Accelerator::Tcg);
            drop(auto);
            let error = Vm::start(&wish(AcceleratorWish::Kvm)).await.map(|_| ()).unwrap_err();
            assert!(matches!(error, StartError::NoKvm { .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn expect_qemu_gone_when_its_controller_is_killed() {
    let lab = Lab::new(NEW);
    let mut controller = Command::new(example("vm_hold"))
        .args([&lab.kernel.image, &lab.dir.path().join("vm")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(controller.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let qemu = PathBuf::from(format!("/proc/{}", line.trim()));
    assert!(fs::read_to_string(qemu.join("cmdline")).unwrap().contains("qemu"), "{line}");
    controller.kill().unwrap();
    controller.wait().unwrap();
    // Somebody else collects it; until then it is a zombie.
    while fs::read_to_string(qemu.join("stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn expect_only_the_owner_let_in_and_qemu_gone_when_a_machine_runs_and_is_dropped() {
    let lab = Lab::new(NEW);
    // It would stay for ever.
    let spec = VmSpec { cmdline: "panic=0".to_owned(), ..lab.bare() };
    let vm = Vm::start(&spec).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&spec.dir), 0o700);
    assert_eq!(mode(vm.console().path()), 0o600);
    let qemu = PathBuf::from(format!("/proc/{}", vm.pid()));
    drop(vm);
    while qemu.exists() {
        tokio::task::yield_now().await;
    }
    fs::set_permissions(&spec.dir, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Vm::start(&spec).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, StartError::Open { .. }), "{error}");
}

#[tokio::test]
async fn expect_the_programs_name_when_there_is_no_qemu() {
    let lab = Lab::new(NEW);
    let qemu = PathBuf::from("no-such-qemu");
    let error = Vm::start(&VmSpec { qemu, ..lab.bare() }).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, StartError::Ended { .. }), "{error}");
    assert!(error.to_string().contains("no-such-qemu: not found"), "{error}");
}
