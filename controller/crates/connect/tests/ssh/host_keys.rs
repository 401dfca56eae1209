//! Known, unknown and changed host keys.

use std::process::Command;

use crate::lab::{Host, keygen, mode, reach, refused};

fn fingerprint(host: &Host, kind: &str) -> String {
    let output = Command::new("ssh-keygen").arg("-lf").arg(host.path(&format!("host_{kind}.pub"))).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    text.split(' ').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn expect_a_refusal_with_the_fingerprint_when_the_key_is_unknown() {
    let host = Host::start();
    std::fs::remove_file(host.path("known_hosts")).unwrap();
    let error = refused(&host.options()).await;
    assert!(
        error.contains(&fingerprint(&host, "ed25519")) || error.contains(&fingerprint(&host, "ecdsa")),
        "{error}"
    );
    assert!(error.contains("is not known"), "{error}");
    assert!(!host.path("known_hosts").exists());
}

#[tokio::test]
async fn expect_the_key_written_down_when_new_ones_are_accepted() {
    let host = Host::start();
    // Without a line break at its end, and for another host.
    let other = std::fs::read_to_string(host.path("host_rsa.pub")).unwrap();
    std::fs::write(host.path("known_hosts"), format!("elsewhere {}", other.trim())).unwrap();
    let mut options = host.options();
    options.accept_new = true;
    drop(reach(&options).await.unwrap());
    let known = std::fs::read_to_string(host.path("known_hosts")).unwrap();
    assert_eq!(known.lines().count(), 2, "{known}");
    options.accept_new = false;
    let connection = reach(&options).await.unwrap();
    host.end_agent(connection).await;
}

#[tokio::test]
async fn expect_a_hashed_entry_in_a_closed_file_when_the_configuration_wants_it() {
    let host = Host::start();
    std::fs::remove_file(host.path("known_hosts")).unwrap();
    std::fs::write(host.path("ssh_config"), "HashKnownHosts yes\nStrictHostKeyChecking accept-new\n")
        .unwrap();
    let connection = host.connect().await;
    let known = std::fs::read_to_string(host.path("known_hosts")).unwrap();
    assert!(known.starts_with("|1|"), "{known}");
    assert_eq!(mode(&host.path("known_hosts")), 0o600);
    std::fs::write(host.path("ssh_config"), "").unwrap();
    drop(host.connect().await);
    host.end_agent(connection).await;
}

#[tokio::test]
async fn expect_a_connection_when_openssh_hashed_the_entry() {
    let host = Host::start();
    let hashed = Command::new("ssh-keygen").args(["-q", "-H", "-f"]).arg(host.path("known_hosts")).output();
    assert!(hashed.unwrap().status.success());
    let known = std::fs::read_to_string(host.path("known_hosts")).unwrap();
    assert!(known.starts_with("|1|"), "{known}");
    let connection = host.connect().await;
    host.end_agent(connection).await;
}

#[tokio::test]
async fn expect_a_loud_refusal_when_the_key_changed_even_if_new_ones_are_accepted() {
    let host = Host::start();
    std::fs::rename(host.path("host_ed25519.pub"), host.path("shown.pub")).unwrap();
    keygen(&host.path("host_former"), "ed25519");
    std::fs::rename(host.path("host_former.pub"), host.path("host_ed25519.pub")).unwrap();
    host.know_as(&format!("# a comment\n[127.0.0.1]:{}", host.port), "ed25519");
    let known = fingerprint(&host, "ed25519");
    std::fs::rename(host.path("shown.pub"), host.path("host_ed25519.pub")).unwrap();
    let shown = fingerprint(&host, "ed25519");
    let before = std::fs::read_to_string(host.path("known_hosts")).unwrap();

    let mut options = host.options();
    options.accept_new = true;
    let error = refused(&options).await;
    let place = format!("{}:2", host.path("known_hosts").display());
    let remedy = format!("-R '[127.0.0.1]:{}'", host.port);
    for part in ["HAS CHANGED", &known, &shown, &place, &remedy] {
        assert!(error.contains(part), "{part} is missing: {error}");
    }
    assert_eq!(std::fs::read_to_string(host.path("known_hosts")).unwrap(), before);
    // The remedy helps.
    let name = format!("[127.0.0.1]:{}", host.port);
    let removed =
        Command::new("ssh-keygen").arg("-f").arg(host.path("known_hosts")).args(["-R", &name]).output();
    assert!(removed.unwrap().status.success());
    let connection = reach(&options).await.unwrap();
    host.end_agent(connection).await;
}

#[tokio::test]
async fn expect_a_refusal_when_the_key_is_revoked() {
    let host = Host::start();
    host.know_as("@revoked *", "ed25519");
    let public = std::fs::read_to_string(host.path("host_ed25519.pub")).unwrap();
    let mut known = std::fs::read_to_string(host.path("known_hosts")).unwrap();
    known.push_str(&format!("[127.0.0.1]:{} {public}", host.port));
    std::fs::write(host.path("known_hosts"), known).unwrap();
    let error = refused(&host.options()).await;
    assert!(error.contains("revoked") && error.contains("known_hosts:1"), "{error}");
}

#[tokio::test]
async fn expect_the_known_key_asked_for_when_the_host_has_several() {
    let host = Host::start();
    for kind in ["ecdsa", "rsa", "ed25519"] {
        host.know_as(&format!("[127.0.0.1]:{}", host.port), kind);
        drop(host.connect().await);
    }
    // An entry without port is good for any port.
    host.know_as("127.0.0.1", "rsa");
    let connection = host.connect().await;
    host.end_agent(connection).await;
}
