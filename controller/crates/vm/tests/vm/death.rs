//! Kernels and machines that die after they have booted.

use std::{io::Read, time::Duration};

use drover_vm::{End, VmEvent, VmSpec};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{LIMIT, Lab, NEW, OLD, ask, identity, tell};

#[tokio::test]
async fn expect_the_panic_told_and_all_of_it_on_the_console_when_a_kernel_crashes() {
    let lab = Lab::new(NEW);
    let vm = lab.boot(&lab.spec(4)).await;
    assert_eq!(identity(&vm).await.cpus, [0, 1, 2, 3].into());
    let mut events = vm.events();
    let _stream = tell(&vm, "crash").await;
    assert_eq!(events.recv().await.unwrap(), VmEvent::Panicked);
    let state = vm.ended().await;
    assert!(state.panicked);
    let shutdown = state.shutdown.unwrap();
    assert_eq!((shutdown.by_guest, shutdown.reason.as_str()), (true, "guest-reset"));
    let console = vm.console().tail(32 << 10);
    // The last is what the kernel says last.
    for words in ["Kernel panic - not syncing: sysrq triggered crash", "Call Trace", "Rebooting in 5 seconds"]
    {
        assert!(console.contains(words), "no `{words}`:\n{console}");
    }
}

#[tokio::test]
async fn expect_control_of_a_standing_guest_and_its_loss_noticed_when_qemu_is_killed() {
    let lab = Lab::new(OLD);
    let spec = VmSpec { console_limit: 100_000, cmdline: "panic=0".to_owned(), ..lab.spec(1) };
    let vm = lab.boot(&spec).await;

    assert_eq!(ask(&vm, "shout").await, "done");
    let mut state = vm.state();
    state.wait_for(|state| state.console_full).await.unwrap();

    vm.qmp().stop().await.unwrap();
    assert_eq!(vm.qmp().status().await.unwrap(), "paused");
    let dump = lab.dir.path().join("memory");
    vm.qmp().dump_guest_memory(&dump, LIMIT).await.unwrap();
    let mut magic = [0; 4];
    std::fs::File::open(&dump).unwrap().read_exact(&mut magic).unwrap();
    assert_eq!(&magic, b"\x7fELF");
    let refused = vm.qmp().execute("no-such-command", serde_json::json!({})).await.unwrap_err();
    assert!(refused.to_string().contains("QEMU refused `no-such-command`"), "{refused}");
    assert!(vm.qmp().registers().await.unwrap().contains("RIP="));
    vm.qmp().cont().await.unwrap();
    assert_eq!(vm.qmp().status().await.unwrap(), "running");
    assert_eq!(ask(&vm, "hello").await, "no such word: hello");
    // It says where it was, and ends over it; with this command line it stays as it is.
    vm.qmp().inject_nmi().await.unwrap();
    state.wait_for(|state| state.panicked).await.unwrap();

    let pid = Pid::from_raw(vm.pid().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let state = vm.ended().await;
    assert_eq!((state.end, state.shutdown), (Some(End::Signal(9)), None));
    // With the machine its streams end, and its control.
    assert_eq!(ask_in_vain(&vm).await, 0);
    assert!(vm.qmp().status().await.is_err());
}

async fn ask_in_vain(vm: &drover_vm::Vm) -> usize {
    let mut stream = vm.connect();
    tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 8]).await.unwrap()
}

#[tokio::test]
async fn expect_the_limit_kept_when_a_standing_guest_is_to_power_off() {
    let lab = Lab::new(NEW);
    let vm = lab.boot(&lab.spec(2)).await;
    assert_eq!(identity(&vm).await.cpus.len(), 2);
    vm.qmp().stop().await.unwrap();
    let state = vm.power_off(Duration::from_millis(200)).await;
    assert_eq!((state.end, state.shutdown), (Some(End::Signal(9)), None));
}
