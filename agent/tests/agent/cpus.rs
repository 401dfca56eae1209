//! CPUs taken offline and put back, on recorded trees: never those of this machine. A tree does not answer as a kernel does, so what
//! is tried here is what goes wrong; CPUs that obey are tried in a virtual machine, by the tests of `drover`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use drover_proto::{Refusal, v1};
use rustix::process::Signal;
use tempfile::TempDir;
use tonic::{Code, Status};

use crate::harness::{Agent, Session, says_up, until, within};

const LAB_ROOT: &str = "DROVER_LAB_CPUS_ROOT";
const CPUS: &str = "tree/sys/devices/system/cpu";
const BOOT_ID: &str = "tree/proc/sys/kernel/random/boot_id";

/// A machine of two cores with two threads each, and an agent's place beside it.
struct Lab {
    dir: TempDir,
}

impl Lab {
    fn new() -> Self {
        let lab = Self { dir: tempfile::tempdir().unwrap() };
        lab.write(BOOT_ID, "b-1\n");
        lab.write(&format!("{CPUS}/online"), "0-3\n");
        for cpu in 0..4 {
            let siblings = if cpu < 2 { "0-1\n" } else { "2-3\n" };
            lab.write(&format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list"), siblings);
            if cpu > 0 {
                lab.write(&format!("{CPUS}/cpu{cpu}/online"), "1\n");
            }
        }
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn switch(&self, cpu: u32) -> PathBuf {
        self.path(&format!("{CPUS}/cpu{cpu}/online"))
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn agent(&self) -> Agent {
        Agent::start_in(&self.dir, LAB_ROOT, self.path("tree").to_str().unwrap())
    }

    fn journal(&self) -> PathBuf {
        self.path("agent/cpus")
    }

    /// What the switches were told last.
    fn switches(&self) -> [String; 3] {
        [1, 2, 3].map(|cpu| fs::read_to_string(self.switch(cpu)).unwrap().trim().to_owned())
    }
}

async fn set(session: &mut Session, count: u32) -> Result<v1::SetCpusReply, Status> {
    let request = v1::SetCpusRequest { lease: Some(session.lease.clone()), count };
    within(session.client.set_cpus(request)).await.map(tonic::Response::into_inner)
}

async fn refused(session: &mut Session, count: u32) -> (Option<Refusal>, String) {
    let status = set(session, count).await.unwrap_err();
    (Refusal::of(&status), status.message().to_owned())
}

async fn release(session: &mut Session) -> Result<(), Status> {
    within(session.client.release_lease(session.lease.clone())).await.map(drop)
}

#[tokio::test]
async fn expect_no_cpu_touched_when_a_count_is_refused_or_there_already() {
    let lab = Lab::new();
    let agent = lab.agent();
    let mut old = agent.session(1).await;
    let mut session = agent.session(1).await;
    assert_eq!(refused(&mut old, 2).await.0, Some(Refusal::StaleLease));

    let mut spec = session.shell(0, "echo up; sleep 1000");
    spec.ready = says_up();
    session.run_until_ready(&spec).await;
    assert_eq!(refused(&mut session, 2).await.0, Some(Refusal::TasksRunning));
    session.stop(&spec.id, true).await;
    session.end_of(&spec.id).await;

    let (kind, why) = refused(&mut session, 5).await;
    assert_eq!(kind, Some(Refusal::Cpus));
    assert!(why.contains("asks for 5 CPUs, and the host has 4 (0-3)"), "{why}");
    for all in [0, 4] {
        let reply = set(&mut session, all).await.unwrap();
        assert!(!reply.facts.unwrap().cpus.is_empty());
    }
    fs::remove_file(lab.switch(1)).unwrap();
    let status = set(&mut session, 1).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("CPUs 0-1 of this host cannot be taken offline"), "{status}");
    fs::write(lab.switch(1), "1").unwrap();
    assert_eq!(lab.switches(), ["1", "1", "1"]);
    assert!(!lab.journal().exists());
    release(&mut session).await.unwrap();
}

#[tokio::test]
async fn expect_all_back_and_the_cpu_and_reason_when_one_cannot_go_or_does_not_obey() {
    let lab = Lab::new();
    let agent = lab.agent();
    let mut session = agent.session(1).await;
    let (kind, why) = refused(&mut session, 2).await;
    assert_eq!(kind, Some(Refusal::Cpus));
    assert!(why.contains("CPUs 0,2 were to be online, and the kernel says 0-3"), "{why}");
    assert!(why.ends_with("all CPUs are back"), "{why}");
    // Nothing says that they are offline, so nothing is written twice.
    assert_eq!(lab.switches(), ["0", "1", "0"]);
    assert!(!lab.journal().exists());

    fs::remove_file(lab.switch(3)).unwrap();
    fs::create_dir(lab.switch(3)).unwrap();
    let (kind, why) = refused(&mut session, 1).await;
    assert_eq!(kind, Some(Refusal::Cpus));
    assert!(why.starts_with("CPU 3 cannot be taken offline: Is a directory"), "{why}");
    assert!(!lab.journal().exists());
    let spec = session.shell(0, "true");
    session.run(&spec).await;
}

#[tokio::test]
async fn expect_it_written_down_before_the_first_switch_and_taken_up_by_later_agents() {
    let lab = Lab::new();
    // Whoever opens it for writing waits, so the agent is caught at its first switch.
    fs::remove_file(lab.switch(3)).unwrap();
    let made = std::process::Command::new("mkfifo").arg(lab.switch(3)).status().unwrap();
    assert!(made.success());
    let agent = lab.agent();
    let mut session = agent.session(1).await;
    let request = v1::SetCpusRequest { lease: Some(session.lease.clone()), count: 1 };
    let mut client = session.client.clone();
    let waiting = tokio::spawn(async move { client.set_cpus(request).await });
    until(|| lab.journal().exists()).await;
    let written = fs::read(lab.journal()).unwrap();
    let text = String::from_utf8(written.clone()).unwrap();
    assert!(text.contains(r#""boot_id":"b-1""#) && text.contains(r#""number":3"#), "{text}");
    let spec = session.shell(0, "true");
    assert_eq!(Refusal::of(&session.try_start(&spec).await.unwrap_err()), Some(Refusal::Changing));
    agent.crash();
    assert!(within(waiting).await.unwrap().is_err());

    // CPU 3 has gone, and does not come back.
    fs::remove_file(lab.switch(3)).unwrap();
    fs::write(lab.switch(3), "0").unwrap();
    lab.write(&format!("{CPUS}/online"), "0-2\n");
    let agent = lab.agent();
    assert_eq!(lab.switches(), ["1", "1", "1"]);
    let mut session = agent.session(1).await;
    let status = session.try_start(&spec).await.unwrap_err();
    assert_eq!(Refusal::of(&status), Some(Refusal::Quarantined));
    assert!(status.message().contains("CPUs 3 do not come back online"), "{status}");
    assert_eq!(refused(&mut session, 0).await.0, Some(Refusal::Quarantined));
    let status = release(&mut session).await.unwrap_err();
    assert_eq!(Refusal::of(&status), Some(Refusal::Quarantined));
    // It let go even so.
    drop(agent.session(2).await);
    agent.signal(Signal::TERM);
    assert!(agent.wait().success());
    assert_eq!(fs::read(lab.journal()).unwrap(), written);

    // Somebody has looked after it.
    lab.write(&format!("{CPUS}/online"), "0-3\n");
    runs_a_task(&lab, 2).await;

    // After a reboot there is nothing to be put back.
    fs::write(lab.journal(), &written).unwrap();
    lab.write(BOOT_ID, "b-2\n");
    lab.write(&format!("{CPUS}/online"), "0-2\n");
    fs::write(lab.switch(3), "0").unwrap();
    runs_a_task(&lab, 3).await;
    assert_eq!(lab.switches(), ["1", "1", "0"]);

    fs::write(lab.journal(), &written[1..]).unwrap();
    let agent = lab.agent();
    let mut session = agent.session(4).await;
    let status = session.try_start(&session.shell(0, "true")).await.unwrap_err();
    assert!(status.message().contains("is damaged; bring them online by hand"), "{status}");
}

/// Starts an agent that has nothing to put back, or has done so, and ends it.
async fn runs_a_task(lab: &Lab, run: u128) {
    let agent = lab.agent();
    assert!(!Path::exists(&lab.journal()));
    let mut session = agent.session(run).await;
    let spec = session.shell(0, "true");
    session.run(&spec).await;
    release(&mut session).await.unwrap();
    agent.crash();
}
