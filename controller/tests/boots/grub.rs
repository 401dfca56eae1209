//! GRUB on a disk, asked by the agent to boot another kernel once.

use drover_model::BootOnce;

use crate::{
    disk::BROKEN,
    host::Host,
    session::Session,
    tree::{GOLDEN, OTHER, kernel},
};

const ADVANCED: &str = "Advanced options for Debian GNU/Linux";

fn entry(title: &str) -> BootOnce {
    BootOnce::Grub { entry: format!("{ADVANCED}>Debian GNU/Linux, with Linux {title}"), folder: None }
}

#[tokio::test]
async fn expect_the_other_kernel_once_with_its_words_and_the_golden_one_after_it() {
    let host = Host::with_grub(2, |_| {});
    let mut session = Session::new(&host).await;
    assert_eq!(session.facts().kernel_release, kernel(GOLDEN).release);
    let refused = session.arm(entry("othr"), "n-0", &[]).await.unwrap_err();
    assert!(
        refused.message().contains(&format!("did you mean `{ADVANCED}>Debian GNU/Linux, with Linux other`?")),
        "{refused}"
    );

    // Where GRUB cannot clear what is set for one boot, it would be booted for ever.
    let argv = ["cp", "-r", "/boot/grub", "/run/grub"].map(str::to_owned).to_vec();
    assert!(!session.arm(BootOnce::Command { argv }, "n-0", &[]).await.unwrap());
    let elsewhere =
        BootOnce::Grub { entry: "Debian GNU/Linux".to_owned(), folder: Some("/run/grub".to_owned()) };
    let refused = session.arm(elsewhere, "n-0", &[]).await.unwrap_err();
    assert!(refused.message().contains("GRUB cannot write to tmpfs"), "{refused}");

    assert!(session.arm(entry(OTHER), "n-1", &["nr_cpus=1"]).await.unwrap());
    let refused = session.ask_reboot("n-2", &[]).await.unwrap_err();
    assert!(refused.message().contains("`n-1` is armed"), "{refused}");
    let session = session.reboot("n-1", &[]).await;
    let facts = session.facts();
    assert_eq!(facts.kernel_release, kernel(OTHER).release);
    assert!(facts.cmdline.contains("drover.nonce=n-1 nr_cpus=1"), "{}", facts.cmdline);
    assert_eq!(facts.cpus.len(), 1);

    // By the program that the system has for it.
    let session = session.reboot("", &["reboot"]).await;
    let facts = session.facts();
    assert_eq!((&facts.kernel_release, facts.cpus.len()), (&kernel(GOLDEN).release, 2));
    assert!(!facts.cmdline.contains("drover.nonce"), "{}", facts.cmdline);
    let console = host.console();
    assert!(!console.contains("has left in place"), "{console}");

    // One that does not boot is not tried again: its panic ends with a reset.
    let mut session = session;
    assert!(session.arm(entry(BROKEN), "n-3", &["nr_cpus=1"]).await.unwrap());
    let session = session.reboot("n-3", &[]).await;
    let facts = session.facts();
    assert_eq!((&facts.kernel_release, facts.cpus.len()), (&kernel(GOLDEN).release, 2));
    let console = host.console();
    assert!(console.contains("Kernel panic") && console.contains("drover.nonce=n-3"), "{console}");
}
