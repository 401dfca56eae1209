//! Keys of the user.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use rustix::process::Signal;

use crate::lab::{Host, keygen, refused, signal};

/// A real ssh-agent, with the host's key in it.
struct SshAgent(Child);

impl SshAgent {
    fn start(host: &Host) -> Self {
        let mut command = Command::new("ssh-agent");
        command.arg("-D").arg("-a").arg(host.path("ssh-agent")).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It names its socket when it listens there.
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self(child)
    }

    fn add(&self, host: &Host, key: &str) {
        let mut command = Command::new("ssh-add");
        command.arg("-q").arg(host.path(key)).env("SSH_AUTH_SOCK", host.path("ssh-agent"));
        assert!(command.status().unwrap().success());
    }
}

impl Drop for SshAgent {
    fn drop(&mut self) {
        signal(self.0.id(), Signal::TERM);
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn expect_a_connection_when_the_ssh_agent_has_the_key() {
    let host = Host::start();
    let agent = SshAgent::start(&host);
    keygen(&host.path("wrong"), "rsa");
    agent.add(&host, "wrong");
    agent.add(&host, "id");
    let config = format!("IdentityAgent {}\n", host.path("ssh-agent").display());
    std::fs::write(host.path("ssh_config"), config).unwrap();
    std::fs::rename(host.path("id"), host.path("away")).unwrap();
    let mut options = host.options();
    // The key that is named is missing, so the ssh-agent's is taken.
    let connection = crate::lab::reach(&options).await.unwrap();
    host.end_agent(connection).await;

    // It may use only keys that were named.
    let config = format!("IdentitiesOnly yes\nIdentityAgent {}\n", host.path("ssh-agent").display());
    std::fs::write(host.path("ssh_config"), config).unwrap();
    drop(crate::lab::reach(&options).await.unwrap());
    std::fs::remove_file(host.path("id.pub")).unwrap();
    let error = refused(&options).await;
    assert!(error.contains("none of the keys that may be used"), "{error}");

    options.identity = Some(host.path("wrong"));
    let error = refused(&options).await;
    assert!(error.contains("ssh-agent's key"), "{error}");
}

#[rstest::rstest]
#[case("ecdsa")]
#[case("rsa")]
#[tokio::test]
async fn expect_a_connection_when_the_key_is_of_any_usual_type(#[case] kind: &str) {
    let host = Host::start();
    keygen(&host.path("other"), kind);
    std::fs::copy(host.path("other.pub"), host.path("authorized_keys")).unwrap();
    let mut options = host.options();
    options.identity = Some(host.path("other"));
    let connection = crate::lab::reach(&options).await.unwrap();
    host.end_agent(connection).await;
}

#[tokio::test]
async fn expect_host_user_and_key_from_the_configuration_when_it_names_them() {
    let host = Host::start();
    let config = format!(
        "Host db?\nHostName 127.0.0.1\nPort {}\nUser {}\nIdentityFile {}\nUserKnownHostsFile {}\nHostKeyAlias the-db\n",
        host.port,
        crate::lab::user(),
        host.path("id").display(),
        host.path("known_hosts").display(),
    );
    std::fs::write(host.path("ssh_config"), config).unwrap();
    host.know_as("the-db", "ed25519");
    let mut options = host.options();
    options.host = "db1".to_owned();
    (options.user, options.port, options.identity, options.known_hosts) = (None, None, None, None);
    let connection = crate::lab::reach(&options).await.unwrap();
    assert_eq!(connection.peer, Some("127.0.0.1".parse().unwrap()));
    host.end_agent(connection).await;
}

#[tokio::test]
async fn expect_every_key_and_its_fault_named_when_none_is_accepted() {
    let host = Host::start();
    keygen(&host.path("wrong"), "ed25519");
    let encrypted = host.path("encrypted");
    let made =
        Command::new("ssh-keygen").args(["-q", "-t", "rsa", "-N", "secret", "-f"]).arg(&encrypted).status();
    assert!(made.unwrap().success());
    let config = format!(
        "IdentityAgent none\nIdentityFile {}\nIdentityFile {}\n",
        encrypted.display(),
        host.path("missing").display()
    );
    std::fs::write(host.path("ssh_config"), config).unwrap();
    let mut options = host.options();
    options.identity = Some(host.path("wrong"));
    let error = refused(&options).await;
    let user = format!("user `{}`", crate::lab::user());
    for part in [
        &user,
        "publickey",
        "wrong`: the host does not accept it",
        "encrypted`: is encrypted; add it to an ssh-agent",
        "missing`: there is no such file",
    ] {
        assert!(error.contains(part), "{part} is missing: {error}");
    }
}

#[tokio::test]
async fn expect_the_user_named_when_the_host_does_not_have_it() {
    let host = Host::start();
    std::fs::write(host.path("ssh_config"), "IdentityAgent none\n").unwrap();
    let mut options = host.options();
    options.user = Some("nobody-of-this-name".to_owned());
    let error = refused(&options).await;
    assert!(error.contains("`nobody-of-this-name` is not let in"), "{error}");
    assert!(error.contains("check that this user exists"), "{error}");
}
