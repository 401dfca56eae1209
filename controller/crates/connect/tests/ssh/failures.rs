//! Hosts on which the agent cannot live.

use drover_connect::AgentBinary;

use crate::lab::{Host, reach, refused};

/// A host whose agent directory is on a file system mounted with these options, which only its sshd sees.
fn mounted(options: &str) -> Host {
    let script = format!(
        "dir=${{5%/*}}/agent; mkdir -p -m 711 \"$dir\" && mount -t tmpfs -o mode=711,{options} none \"$dir\" && exec \"$@\""
    );
    Host::start_around("", &["unshare", "-m", "sh", "-c", &script, "sh"])
}

#[tokio::test]
async fn expect_the_remedy_when_the_directory_is_mounted_noexec() {
    let host = mounted("noexec");
    let error = refused(&host.options()).await;
    assert!(error.contains("Permission denied") && error.contains("noexec"), "{error}");
}

#[tokio::test]
async fn expect_the_remedy_when_the_disk_is_full() {
    let host = mounted("size=1m");
    let error = refused(&host.options()).await;
    assert!(error.contains("No space left on device") && error.contains("make room"), "{error}");
}

#[tokio::test]
async fn expect_the_remedy_when_the_directory_is_read_only() {
    let host = mounted("ro");
    let error = refused(&host.options()).await;
    assert!(error.contains("Read-only file system") && error.contains("name another one"), "{error}");
}

#[tokio::test]
async fn expect_a_refusal_when_the_directory_is_open_to_others_or_someone_elses() {
    let host = Host::start();
    let dir = host.agent_dir();
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let error = refused(&host.options()).await;
    assert!(error.contains("open to other users"), "{error}");
    std::fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::rename(&dir, host.path("real")).unwrap();
    std::os::unix::fs::symlink(host.path("real"), &dir).unwrap();
    let error = refused(&host.options()).await;
    assert!(error.contains("symbolic link"), "{error}");
    std::fs::remove_file(&dir).unwrap();
}

#[tokio::test]
async fn expect_both_machines_named_when_the_agent_is_for_another() {
    let host = Host::start();
    let mut options = host.options();
    let mut bytes = std::fs::read(&options.agent.path).unwrap();
    // s390x.
    bytes[18] = 22;
    std::fs::write(host.path("other"), bytes).unwrap();
    options.agent = AgentBinary::read(host.path("other"), Vec::new()).unwrap();
    let error = refused(&options).await;
    let here = rustix::system::uname();
    let here = here.machine().to_str().unwrap();
    assert!(
        error.contains(here) && error.contains("Linux s390x") && error.contains("build-agent"),
        "{error}"
    );
    assert!(!host.agent_dir().exists());
}

#[tokio::test]
async fn expect_what_the_agent_said_when_it_does_not_run_or_start_there() {
    let host = Host::start();
    let mut options = host.options();
    options.agent.args = vec!["no-such-command".to_owned()];
    options.agent.path = std::env::current_exe().unwrap();
    options.agent = AgentBinary::read(options.agent.path, vec!["--no-such-option".to_owned()]).unwrap();
    let error = refused(&options).await;
    assert!(error.contains("does not run there") && error.contains("no-such-option"), "{error}");
    assert_eq!(host.stored(), Vec::<String>::new());

    std::fs::write(host.agent_dir().join("spool"), "something else").unwrap();
    let error = refused(&host.options()).await;
    assert!(error.contains("not a spool that this version can read"), "{error}");
    assert!(error.contains("agent.log"), "{error}");
}

#[tokio::test]
async fn expect_a_connection_when_the_login_shell_is_odd_and_greets() {
    for shell in ["csh", "fish", "dash"] {
        let config = format!(
            "ForceCommand printf 'Welcome!\\nno newline '; exec {shell} -c \"$SSH_ORIGINAL_COMMAND\""
        );
        let host = Host::start_with(&format!("{config}\nAllowStreamLocalForwarding no"));
        let connection = host.connect().await;
        host.end_agent(connection).await;
    }
}

#[tokio::test]
async fn expect_what_the_host_said_when_it_runs_no_commands() {
    let host = Host::start_with("ForceCommand echo This account is not available.; exit 1");
    let error = refused(&host.options()).await;
    assert!(error.contains("This account is not available.") && error.contains("exit code 1"), "{error}");
}

#[tokio::test]
async fn expect_a_directory_below_home_when_it_begins_with_a_tilde() {
    let host = Host::start_with("SetEnv HOME={dir}");
    let mut options = host.options();
    options.dir = Some("~/agent".to_owned());
    let connection = reach(&options).await.unwrap();
    assert!(host.agent_dir().join("agent.sock").exists());
    host.end_agent(connection).await;
}
