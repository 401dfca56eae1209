//! The running kernel, asked by the agent to start another one.

use drover_model::BootOnce;

use crate::{
    host::Host,
    session::Session,
    tree::{GOLDEN, OTHER, kernel},
};

#[tokio::test]
async fn expect_the_other_kernel_when_it_is_started_by_kexec_and_the_golden_one_after_it() {
    let host = Host::with_grub(2, |_| {});
    let mut session = Session::new(&host).await;
    assert_eq!(session.facts().kernel_release, kernel(GOLDEN).release);
    let image = |name: &str| BootOnce::Kexec {
        image: format!("/boot/vmlinuz-{name}"),
        initrd: Some(format!("/boot/initrd.img-{OTHER}")),
        cmdline: None,
    };
    let refused = session.arm(image("none"), "n-0", &[]).await.unwrap_err();
    assert!(refused.message().contains("cannot read `/boot/vmlinuz-none`"), "{refused}");
    let torn = BootOnce::Kexec { image: "/etc/rc".to_owned(), initrd: None, cmdline: None };
    let refused = session.arm(torn, "n-0", &[]).await.unwrap_err();
    assert!(refused.message().contains("`kexec` ended with exit status"), "{refused}");

    assert!(session.arm(image(OTHER), "n-1", &["nr_cpus=1"]).await.unwrap());
    let session = session.reboot("n-1", &[]).await;
    let facts = session.facts();
    assert_eq!((&facts.kernel_release, facts.cpus.len()), (&kernel(OTHER).release, 1));
    assert!(facts.cmdline.ends_with("drover.nonce=n-1 nr_cpus=1"), "{}", facts.cmdline);

    // It is gone with the power.
    let session = session.cut_power().await;
    assert_eq!(session.facts().kernel_release, kernel(GOLDEN).release);
    assert_eq!(session.facts().cpus.len(), 2);
}
