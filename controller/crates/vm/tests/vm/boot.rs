//! Kernels that boot, what they report, the way to their program, and their orderly end.

use std::time::Duration;

use drover_vm::{Accelerator, End, Expected, OnReboot, Topology, VmSpec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{LIMIT, Lab, NEW, OLD, ask, identity, tell};

#[tokio::test]
async fn expect_the_kernel_proven_and_its_program_reached_when_a_61_boots_on_two_threads() {
    let lab = Lab::new(OLD);
    let topology = Topology { sockets: 1, cores: 1, threads: 2 };
    let vm = lab.boot(&VmSpec { topology, ..lab.spec(1) }).await;
    assert_eq!(vm.accelerator(), Accelerator::Tcg);

    let found = identity(&vm).await;
    let expected = Expected {
        release: Some(lab.kernel.release.clone()),
        version: Some(lab.kernel.version.clone()),
        nonce: Some("n0nce-1".to_owned()),
        boot_id: vm.state().borrow().boot_id.clone(),
        cpus: Some([0, 1].into()),
        smt: Some(true),
        ..Expected::default()
    };
    expected.compare(&found).unwrap();
    assert!(found.build_id.is_some(), "{found:?}");
    let other = Expected { release: Some("6.12".to_owned()), ..Expected::default() };
    assert!(other.compare(&found).unwrap_err().to_string().starts_with("wrong-kernel"));

    let facts = ask(&vm, "facts").await;
    for kind in ["cgroup2", "devpts", "devtmpfs", "proc", "sysfs", "tmpfs"] {
        assert!(facts.contains(kind), "{facts}");
    }
    assert!(facts.ends_with("lo=0x9 loopback=true"), "{facts}");

    // More than all buffers on the way together.
    let sent: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let (mut from, mut to) = tokio::io::split(tell(&vm, "echo").await);
    let mut heard = vec![0; sent.len()];
    let (written, read) = tokio::join!(to.write_all(&sent), from.read_exact(&mut heard));
    written.unwrap();
    read.unwrap();
    assert!(heard == sent);
    // A second stream ends the first.
    assert_eq!(ask(&vm, "hello").await, "no such word: hello");
    assert_eq!(from.read(&mut heard).await.unwrap(), 0);

    let state = vm.power_off(Duration::from_secs(60)).await;
    assert_eq!(state.end, Some(End::Code(0)));
    assert_eq!(state.shutdown.unwrap().reason, "guest-shutdown");
}

#[tokio::test]
async fn expect_another_boot_told_and_the_power_button_obeyed_when_a_guest_reboots() {
    let lab = Lab::new(NEW);
    let vm = lab.boot(&VmSpec { on_reboot: OnReboot::Again, ..lab.spec(1) }).await;
    let before = identity(&vm).await;
    let expected = Expected {
        build_id: lab.kernel.build_id.clone(),
        boot_id: Some(before.boot_id.clone()),
        cpu_count: Some(1),
        ..Expected::default()
    };
    assert!(expected.build_id.is_some(), "the image of {} tells no build id", lab.kernel.release);
    expected.compare(&before).unwrap();

    let _stream = tell(&vm, "reboot").await;
    let mut state = vm.state();
    state.wait_for(|state| state.resets > 0 && state.boot_id.is_none()).await.unwrap();
    let again = vm.booted(LIMIT).await.unwrap();
    let mismatch = expected.compare(&identity(&vm).await).unwrap_err();
    assert!(
        mismatch.to_string().starts_with(&format!("unexpected-reboot: the boot id is `{again}`")),
        "{mismatch}"
    );

    vm.qmp().system_powerdown().await.unwrap();
    assert_eq!(vm.ended().await.shutdown.unwrap().reason, "guest-shutdown");
    assert!(vm.console().tail(4096).contains("the power button was pressed"));
}
