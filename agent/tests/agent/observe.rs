//! Observation of the machine while tasks run. Needs root, as the agent does for the kernel's log.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use drover_machine::sensors::{Block, Damage, Decoder};
use drover_model::{
    AgentEvent, DoubtKind, EndKind, HostEvent, HostEventKind, KernelHint, TaskEventKind, TaskSpec,
};

use crate::harness::{Agent, Session, next_of_all, within};

const SOFT_LOCKUP: &str = "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [test:1]";

fn decode(bytes: &[u8]) -> Vec<Block> {
    let mut decoder = Decoder::new(bytes);
    let blocks: Vec<Block> = decoder.by_ref().collect();
    assert_eq!(decoder.damage(), Damage::default());
    blocks
}

/// Starts a task that runs `script` in a shell once its attempt is observed.
async fn start_observed(session: &mut Session, agent: &Agent, role: &str, script: &str) -> TaskSpec {
    let go = agent.dir.join(format!("go-{role}"));
    let wait = format!("until test -e {}; do sleep 0.02; done", go.display());
    let mut spec = session.shell(0, &format!("{wait}; {script}"));
    spec.id = session.task(0, role);
    session.start(&spec).await;
    let HostEventKind::Observing { interval, without } = session.host_event().await else { panic!() };
    assert_eq!((interval, without), (Duration::from_millis(100), Vec::<String>::new()));
    std::fs::write(go, "").unwrap();
    spec
}

/// Runs it to its end.
async fn run_observed(session: &mut Session, agent: &Agent, role: &str, script: &str) -> TaskSpec {
    let spec = start_observed(session, agent, role, script).await;
    assert_eq!(session.end_of(&spec.id).await.kind, EndKind::Exited(0));
    spec
}

#[tokio::test]
async fn expect_samples_with_the_task_in_them_when_the_lease_asks_for_observation() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.observing_session(1).await;
    let script = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; sleep 0.5";
    let spec = run_observed(&mut session, &agent, "server", script).await;
    let bytes = session.observed(spec.id.attempt, 0).await;
    let blocks = decode(&bytes);
    let samples: Vec<_> = blocks.iter().flat_map(|block| &block.samples).collect();
    assert!(samples.len() >= 5, "{}", samples.len());
    assert!(samples.is_sorted_by(|a, b| a.monotonic_ns < b.monotonic_ns));
    let schema = &blocks.last().unwrap().schema;
    let most = |name: &str| {
        let id = schema.find(name).unwrap_or_else(|| panic!("no series {name}"));
        samples.iter().filter_map(|sample| sample.get(id)).map(|value| value.as_f64()).fold(0.0, f64::max)
    };
    assert!(most("task.server.0.processes") >= 1.0 && most("task.server.0.user_ticks") > 0.0);
    assert!(most("cpu.all.user_ticks") > 0.0);
    // From a byte on, and nothing behind the end.
    let half = bytes.len() / 2;
    let from = u64::try_from(half).unwrap();
    assert!(session.observed(spec.id.attempt, from).await == bytes[half..]);
    assert!(session.observed(spec.id.attempt, u64::MAX).await.is_empty());
    let judged = session.judge(spec.id.attempt).await;
    assert_eq!(usize::try_from(judged.samples).unwrap(), samples.len());

    assert!(agent.dir.join("observed").join(spec.id.attempt.to_string()).exists());
    session.forget(&[spec.id.attempt]).await.unwrap();
    assert_eq!(std::fs::read_dir(agent.dir.join("observed")).unwrap().count(), 0);
}

#[tokio::test]
async fn expect_the_samples_of_both_when_an_attempt_gets_a_task_after_its_last_one_ended() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.observing_session(1).await;
    let spec = run_observed(&mut session, &agent, "server", "sleep 0.3").await;
    let first = decode(&session.observed(spec.id.attempt, 0).await);
    run_observed(&mut session, &agent, "client", "sleep 0.3").await;
    let both = decode(&session.observed(spec.id.attempt, 0).await);
    assert!(both.len() > first.len() && both.starts_with(&first));
    assert!(both.last().unwrap().schema.find("task.client.0.processes").is_some());
}

#[tokio::test]
async fn expect_a_flag_when_connections_meet_a_full_queue() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.observing_session(1).await;
    let script = "import socket, time
s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen(0)
cs = [socket.socket() for _ in range(5)]
for c in cs:
    c.setblocking(False)
    try: c.connect(s.getsockname())
    except BlockingIOError: pass
time.sleep(0.3)";
    // The first sample comes after the attempt is said to be observed.
    let script = format!("sleep 0.5; exec python3 -c '{script}'");
    let spec = run_observed(&mut session, &agent, "server", &script).await;
    let judged = session.judge(spec.id.attempt).await;
    let flag = judged.flags.iter().find(|flag| flag.kind == "listen-queue");
    let text = &flag.unwrap_or_else(|| panic!("{judged:?}")).text;
    assert!(text.contains("netstat.TcpExt.Listen"), "{text}");
}

/// A shell command that the kernel kills for want of memory, in a cgroup of its own.
fn out_of_memory() -> (PathBuf, String) {
    let (base, limit) = match Path::new("/sys/fs/cgroup/memory") {
        first if first.exists() => (first, "memory.limit_in_bytes"),
        _ => (Path::new("/sys/fs/cgroup"), "memory.max"),
    };
    let group = base.join(format!("drover-test-{}", std::process::id()));
    std::fs::create_dir(&group).unwrap();
    std::fs::write(group.join(limit), "16777216").unwrap();
    // Without swap it is over at once.
    let _ = std::fs::write(group.join("memory.swappiness"), "0");
    let _ = std::fs::write(group.join("memory.swap.max"), "0");
    let script =
        format!("echo $$ > {}/cgroup.procs; exec python3 -c 'x = bytearray(1 << 28)'", group.display());
    (group, script)
}

#[tokio::test]
async fn expect_the_report_as_an_event_when_the_kernel_kills_for_want_of_memory() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.observing_session(1).await;
    let bystander = start_observed(&mut session, &agent, "server", "exec sleep 1000").await;
    // What a process writes is not the kernel's word.
    let forged = format!("{SOFT_LOCKUP} by test {}", std::process::id());
    std::fs::write("/dev/kmsg", format!("<2>{forged}\n")).unwrap();
    let (group, script) = out_of_memory();
    let mut hungry = session.shell(0, &script);
    hungry.id = session.task(0, "hungry");
    session.start(&hungry).await;
    let excerpt = loop {
        match session.host_event().await {
            HostEventKind::Kernel { class, severity, hint, first_line, excerpt } if class == "OOM" => {
                assert_eq!((severity.as_str(), hint), ("R", KernelHint::Doubt(DoubtKind::Memory)));
                assert!(first_line.contains("oom"), "{first_line}");
                break excerpt;
            }
            HostEventKind::Kernel { class, .. } => assert_ne!(class, "SOFT_LOCKUP"),
            other => panic!("{other:?}"),
        }
    };
    assert!(excerpt.contains("python3"), "{excerpt}");
    let (_, _, text) = session.evidence(bystander.id.attempt, false).await;
    let log = text.split_once("== kernel log since the attempt began").unwrap().1;
    assert!(log.contains(&format!("(a process) {forged}")) && log.contains("oom"), "{log}");
    session.stop(&bystander.id, true).await;
    let mut watch = agent.session(1).await;
    watch.end_of(&hungry.id).await;
    watch.end_of(&bystander.id).await;
    std::fs::remove_dir(group).unwrap();
    let judged = watch.judge(bystander.id.attempt).await;
    assert!(judged.flags.iter().any(|flag| flag.kind == "oom-kill"), "{judged:?}");
}

#[tokio::test]
async fn expect_no_sensors_read_and_the_kernel_heard_when_an_attempt_is_short() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session_observing_every(1, Duration::from_secs(3600)).await;
    let (group, script) = out_of_memory();
    let hungry = session.shell(0, &script);
    session.start(&hungry).await;
    // On a machine that is slow, sensors are read before it is over.
    let (mut killed, mut observed) = (false, false);
    let mut events = session.watch(1).await;
    loop {
        match next_of_all(&mut events).await {
            AgentEvent::Host(HostEvent { kind: HostEventKind::Kernel { class, .. }, .. }) => {
                killed |= class == "OOM"
            }
            AgentEvent::Host(HostEvent { kind: HostEventKind::Observing { .. }, .. }) => observed = true,
            AgentEvent::Task(event) if matches!(event.kind, TaskEventKind::Ended(_)) => break,
            _ => {}
        }
    }
    assert!(killed || observed);
    if !observed {
        assert!(session.observed(hungry.id.attempt, 0).await.is_empty());
    }
    std::fs::remove_dir(group).unwrap();
}

#[tokio::test]
async fn expect_the_number_of_the_newest_event_when_samples_are_judged() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.observing_session(1).await;
    let spec = run_observed(&mut session, &agent, "server", "sleep 0.1").await;
    let last_seq = session.judge(spec.id.attempt).await.last_seq;
    let mut events = session.watch(1).await;
    let mut seq = 0;
    while seq < last_seq {
        seq = next_of_all(&mut events).await.seq();
    }
    assert!(seq == last_seq && last_seq >= 3);
}

#[tokio::test]
async fn expect_nothing_observed_when_the_lease_does_not_ask() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let spec = session.shell(0, "true");
    assert_eq!(session.run(&spec).await.kind, EndKind::Exited(0));
    assert!(session.observed(spec.id.attempt, 0).await.is_empty());
    assert_eq!(session.judge(spec.id.attempt).await.samples, 0);
    let stranger = session.task(9, "server").attempt;
    let request =
        drover_proto::v1::JudgeRequest { lease: Some(session.lease.clone()), attempt: stranger.to_string() };
    let refused = within(session.client.judge(request)).await.unwrap_err();
    assert!(refused.message().contains("is not known here"), "{refused}");
}

#[tokio::test]
async fn expect_samples_kept_when_the_agent_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.observing_session(1).await;
    let spec = start_observed(&mut session, &agent, "server", "exec sleep 1000").await;
    // A block is written when there is something new in it, such as another task, or when it is full.
    let mut other = session.shell(0, "exec sleep 1000");
    other.id = session.task(0, "client");
    session.start(&other).await;
    let path = agent.dir.join("observed").join(spec.id.attempt.to_string());
    within(async {
        while Decoder::new(&std::fs::read(&path).unwrap()).next().is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    agent.crash();
    let agent = Agent::start(&dir);
    let mut session = agent.observing_session(1).await;
    assert_eq!(session.end_of(&spec.id).await.kind, EndKind::AgentLost);
    assert!(!decode(&session.observed(spec.id.attempt, 0).await).is_empty());
}
