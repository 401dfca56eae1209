//! UEFI firmware and systemd-boot, asked by the agent to boot another kernel once.

use drover_model::BootOnce;

use crate::{
    host::Host,
    session::Session,
    tree::{GOLDEN, OTHER, kernel},
    uefi::{ENTRY_NAME, ENTRY_WORD},
};

#[tokio::test]
async fn expect_the_other_kernel_once_when_systemd_boot_or_the_firmware_is_told() {
    let host = Host::with_systemd_boot(2);
    let mut session = Session::new(&host).await;
    assert_eq!(session.facts().kernel_release, kernel(GOLDEN).release);
    let by_loader = |entry: &str| BootOnce::SystemdBoot { entry: entry.to_owned() };
    let by_firmware = |entry: &str| BootOnce::EfiBootNext { entry: entry.to_owned() };
    let refused = session.arm(by_loader("none"), "n-0", &[]).await.unwrap_err();
    assert!(refused.message().contains("golden.conf, other.conf"), "{refused}");
    let refused = session.arm(by_firmware("none"), "n-0", &[]).await.unwrap_err();
    assert!(refused.message().contains(&format!("00D0 `{ENTRY_NAME}`")), "{refused}");

    assert!(session.arm(by_loader("other"), "n-1", &["nr_cpus=1"]).await.unwrap());
    let mut session = session.reboot("n-1", &[]).await;
    let facts = session.facts();
    assert_eq!((&facts.kernel_release, facts.cpus.len()), (&kernel(OTHER).release, 1));
    assert!(facts.cmdline.ends_with("drover.nonce=n-1 nr_cpus=1"), "{}", facts.cmdline);

    // What is armed last counts, alone.
    assert!(session.arm(by_loader("other"), "n-2", &["nr_cpus=1"]).await.unwrap());
    assert!(!session.arm(by_firmware(ENTRY_NAME), "n-3", &[]).await.unwrap());
    let session = session.reboot("n-3", &[]).await;
    let facts = session.facts();
    assert_eq!((&facts.kernel_release, facts.cpus.len()), (&kernel(OTHER).release, 2));
    assert!(facts.cmdline.ends_with(ENTRY_WORD), "{}", facts.cmdline);

    let session = session.reboot("", &[]).await;
    let facts = session.facts();
    assert_eq!((&facts.kernel_release, facts.cpus.len()), (&kernel(GOLDEN).release, 2));
    let console = host.console();
    assert!(!console.contains("has left in place"), "{console}");
}
