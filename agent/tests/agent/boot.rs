//! Kernels armed and disarmed, and reboots asked for, on recorded trees: never those of this machine, which nothing here can reboot.
//! Boot loaders that obey are tried in virtual machines, by the tests of `drover`.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use drover_model::BootOnce;
use drover_proto::{Refusal, v1};
use rustix::process::Signal;
use tempfile::TempDir;
use tonic::{Code, Status};

use crate::harness::{Agent, Session, acquire, says_up, until, within};

const LAB_ROOT: &str = "DROVER_LAB_BOOT_ROOT";
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";
const CONFIG: &str = include_str!("../../crates/machine/tests/testdata/boot/debian-12.cfg");
const EMPTY: &[u8] = include_bytes!("../../crates/machine/tests/testdata/boot/grubenv.empty");

/// A host that GRUB boots, and an agent's place beside it.
struct Lab {
    dir: TempDir,
}

impl Lab {
    fn new() -> Self {
        let lab = Self { dir: tempfile::tempdir().unwrap() };
        lab.write(BOOT_ID, b"b-1\n");
        lab.write("boot/grub/grub.cfg", CONFIG.as_bytes());
        lab.write("boot/grub/grubenv", EMPTY);
        lab.write("proc/self/mountinfo", b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
        lab.write("sys/devices/sda/sda1/partition", b"1");
        fs::create_dir_all(lab.path("sys/dev/block")).unwrap();
        symlink(lab.path("sys/devices/sda/sda1"), lab.path("sys/dev/block/8:1")).unwrap();
        lab
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("tree").join(path)
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        fs::File::open(&path).unwrap().sync_all().unwrap();
    }

    fn agent(&self) -> Agent {
        Agent::start_in(&self.dir, LAB_ROOT, self.path("").to_str().unwrap())
    }

    fn journal(&self) -> PathBuf {
        self.dir.path().join("agent/boot")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("agent/agent.log")).unwrap()
    }

    fn block(&self) -> Vec<u8> {
        fs::read(self.path("boot/grub/grubenv")).unwrap()
    }

    /// Whether GRUB would boot another entry.
    fn is_armed(&self) -> bool {
        String::from_utf8_lossy(&self.block()).contains("\nnext_entry=gnulinux-")
    }
}

fn simple() -> BootOnce {
    BootOnce::Grub { entry: "Debian GNU/Linux".to_owned(), folder: None }
}

fn command(argv: &[&str]) -> BootOnce {
    BootOnce::Command { argv: argv.iter().map(|word| (*word).to_owned()).collect() }
}

async fn arm(session: &mut Session, boot: BootOnce, nonce: &str) -> Result<bool, Status> {
    let request = v1::ArmKernelRequest {
        lease: Some(session.lease.clone()),
        boot: Some(boot.into()),
        nonce: nonce.to_owned(),
        words: vec!["nr_cpus=2".to_owned()],
    };
    within(session.client.arm_kernel(request)).await.map(|reply| reply.into_inner().words_taken)
}

async fn reboot(session: &mut Session, nonce: &str, command: &[&str]) -> Result<(), Status> {
    let request = v1::RebootRequest {
        lease: Some(session.lease.clone()),
        nonce: nonce.to_owned(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
    };
    within(session.client.reboot(request)).await.map(drop)
}

async fn release(session: &mut Session) -> Result<(), Status> {
    within(session.client.release_lease(session.lease.clone())).await.map(drop)
}

#[tokio::test]
async fn expect_the_loader_told_and_all_taken_back_when_the_host_is_given_back_or_taken() {
    let lab = Lab::new();
    let agent = lab.agent();
    let mut session = agent.session(1).await;
    assert!(arm(&mut session, simple(), "n-1").await.unwrap());
    let block = String::from_utf8(lab.block()).unwrap();
    assert!(lab.is_armed() && block.contains("\ndrover=drover.nonce=n-1 nr_cpus=2\n"), "{block}");
    assert!(lab.journal().exists());
    // The same run goes on with it, also by another controller.
    let mut session = Session::new(agent.connect().await, session.run).await;
    assert!(lab.is_armed());
    release(&mut session).await.unwrap();
    assert_eq!(lab.block(), EMPTY);
    assert!(!lab.journal().exists());

    // A run whose time is over leaves nothing to the next one.
    let mut client = agent.connect().await;
    let short = acquire(session.run, Duration::from_secs(1));
    let lease = within(client.acquire_lease(short)).await.unwrap().into_inner();
    session.lease.epoch = lease.epoch;
    arm(&mut session, simple(), "n-2").await.unwrap();
    assert!(lab.is_armed());
    let next = drover_model::RunId(uuid::Uuid::from_u128(2));
    let take = async {
        while client.acquire_lease(acquire(next, Duration::from_secs(60))).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(take).await;
    assert_eq!(lab.block(), EMPTY);
}

#[tokio::test]
async fn expect_nothing_armed_when_a_request_is_refused() {
    let lab = Lab::new();
    let agent = lab.agent();
    let mut old = agent.session(1).await;
    let mut session = agent.session(1).await;
    let refused = arm(&mut old, simple(), "n-1").await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::StaleLease));
    let refused = reboot(&mut old, "", &["true"]).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::StaleLease));
    let mut spec = session.shell(0, "echo up; sleep 1000");
    spec.ready = says_up();
    session.run_until_ready(&spec).await;
    for refused in [
        arm(&mut session, simple(), "n-1").await.unwrap_err(),
        reboot(&mut session, "", &["true"]).await.unwrap_err(),
    ] {
        assert_eq!(Refusal::of(&refused), Some(Refusal::TasksRunning));
    }
    session.stop(&spec.id, true).await;
    session.end_of(&spec.id).await;
    let refused = arm(&mut session, simple(), "n 1").await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);

    // What was armed before is armed no more, whatever comes of the next request.
    for (refuse, why) in [
        (BootOnce::Grub { entry: "Debian".to_owned(), folder: None }, "there are: Debian GNU/Linux; "),
        (BootOnce::EfiBootNext { entry: "0001".to_owned() }, "there are no EFI variables"),
        (command(&["sh", "-c", "echo not here; exit 9"]), "exit status 9; it said: not here"),
        (BootOnce::Kexec { image: "/boot/x".to_owned(), initrd: None, cmdline: None }, "without kexec"),
    ] {
        arm(&mut session, simple(), "n-1").await.unwrap();
        assert!(lab.is_armed());
        let refused = arm(&mut session, refuse, "n-2").await.unwrap_err();
        assert_eq!((refused.code(), Refusal::of(&refused)), (Code::FailedPrecondition, Some(Refusal::Boot)));
        assert!(refused.message().contains(why), "{refused}");
        assert_eq!(lab.block(), EMPTY);
    }
    assert!(!lab.journal().exists());
    lab.write("proc/self/mountinfo", b"21 1 0:30 / / rw - btrfs /dev/sda1 rw\n");
    let refused = arm(&mut session, simple(), "n-1").await.unwrap_err();
    assert!(refused.message().contains("GRUB cannot write to btrfs"), "{refused}");
    assert_eq!(lab.block(), EMPTY);
}

#[tokio::test]
async fn expect_the_usual_kernel_at_the_next_boot_when_the_agent_dies_or_the_loader_does_not_clear() {
    let lab = Lab::new();
    let agent = lab.agent();
    let mut session = agent.session(1).await;
    arm(&mut session, simple(), "n-1").await.unwrap();
    agent.crash();
    assert!(lab.is_armed());
    let agent = lab.agent();
    assert_eq!(lab.block(), EMPTY);
    assert!(lab.log().contains("is armed no more"), "{}", lab.log());

    let mut session = agent.session(1).await;
    arm(&mut session, simple(), "n-2").await.unwrap();
    agent.signal(Signal::TERM);
    agent.wait();
    assert_eq!(lab.block(), EMPTY, "an agent that ends takes it back itself");

    let agent = lab.agent();
    let mut session = agent.session(1).await;
    arm(&mut session, simple(), "n-3").await.unwrap();
    agent.crash();
    lab.write(BOOT_ID, b"b-2\n");
    let agent = lab.agent();
    assert_eq!(lab.block(), EMPTY);
    assert!(lab.log().contains("has left in place what was set for one boot"), "{}", lab.log());

    // What cannot be taken back is said, and no trial runs.
    let mut session = agent.session(1).await;
    arm(&mut session, simple(), "n-4").await.unwrap();
    lab.write("boot/grub/grubenv", b"torn");
    let refused = release(&mut session).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::Quarantined));
    assert!(refused.message().contains("may boot another kernel"), "{refused}");
    let mut session = agent.session(2).await;
    let refused = session.try_start(&session.shell(0, "true")).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::Quarantined));
    agent.crash();
    lab.write("boot/grub/grubenv", EMPTY);
    let agent = lab.agent();
    assert!(!lab.journal().exists());
    let mut session = agent.session(2).await;
    session.run(&session.shell(0, "true")).await;
}

#[tokio::test]
async fn expect_the_host_of_use_when_it_has_booted_a_kernel_that_shows_no_variables() {
    let lab = Lab::new();
    lab.agent().crash();
    let run = uuid::Uuid::from_u128(1);
    for undo in [r#""efi-boot-next""#, r#"{"systemd-boot":{"once":null}}"#] {
        let armed = format!(r#"{{"nonce":"n-1","undo":{undo}}}"#);
        let written = format!(r#"{{"run":"{run}","boot_id":"b-0","armed":{armed},"reboot":true}}"#);
        fs::write(lab.journal(), written).unwrap();
        let agent = lab.agent();
        assert!(lab.log().contains("it is not known whether"), "{}", lab.log());
        assert!(!lab.journal().exists());
        let mut session = agent.session(1).await;
        session.run(&session.shell(0, "true")).await;
        session.forget(&[session.shell(0, "true").id.attempt]).await.unwrap();
        release(&mut session).await.unwrap();
    }
}

#[tokio::test]
async fn expect_the_command_run_after_the_answer_and_no_task_until_the_host_is_up_again() {
    let lab = Lab::new();
    let agent = lab.agent();
    let mut session = agent.session(1).await;
    let refused = reboot(&mut session, "", &[]).await.unwrap_err();
    assert!(refused.message().contains("may not reboot this host"), "{refused}");
    let refused = reboot(&mut session, "n-1", &["true"]).await.unwrap_err();
    assert!(refused.message().contains("nothing is armed, and `n-1` is to be booted"), "{refused}");
    assert!(arm(&mut session, command(&["true", "drover.nonce=n-1"]), "n-1").await.unwrap());
    for nonce in ["", "n-2"] {
        let refused = reboot(&mut session, nonce, &["true"]).await.unwrap_err();
        assert_eq!(Refusal::of(&refused), Some(Refusal::Boot));
        assert!(refused.message().contains("`n-1` is armed"), "{refused}");
    }
    let down = lab.dir.path().join("down");
    reboot(&mut session, "n-1", &["touch", down.to_str().unwrap()]).await.unwrap();
    assert!(fs::read_to_string(lab.journal()).unwrap().contains(r#""reboot":true"#));
    until(|| Path::exists(&down)).await;
    let refused = session.try_start(&session.shell(0, "true")).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::Changing));
    for refused in
        [arm(&mut session, simple(), "n-3").await.err(), reboot(&mut session, "n-1", &["true"]).await.err()]
    {
        assert_eq!(refused.as_ref().and_then(Refusal::of), Some(Refusal::Changing));
    }
    // It goes down with the host, and leaves the kernel armed.
    agent.signal(Signal::TERM);
    agent.wait();
    assert!(lab.journal().exists());
    lab.write(BOOT_ID, b"b-2\n");
    let agent = lab.agent();
    assert!(!lab.journal().exists());
    let mut session = agent.session(1).await;
    session.run(&session.shell(0, "true")).await;
}

#[tokio::test]
async fn expect_the_host_to_go_on_when_it_does_not_reboot() {
    let lab = Lab::new();
    let agent = lab.agent();
    let mut session = agent.session(1).await;
    arm(&mut session, simple(), "n-1").await.unwrap();
    reboot(&mut session, "n-1", &["sh", "-c", "echo no power; exit 3"]).await.unwrap();
    until(|| lab.log().contains("the host does not reboot")).await;
    assert!(lab.log().contains("no power"), "{}", lab.log());
    let spec = session.shell(0, "true");
    let starts = async {
        while session.try_start(&spec).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(starts).await;
    session.end_of(&spec.id).await;
    assert!(lab.is_armed());
    arm(&mut session, simple(), "n-2").await.unwrap();
    agent.crash();
    let _agent = lab.agent();
    assert_eq!(lab.block(), EMPTY);
}
