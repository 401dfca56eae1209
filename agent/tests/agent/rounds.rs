//! Tasks whose command is run again and again.

use std::{path::Path, time::Duration};

use drover_model::{EndKind, RoundEnd, Rounds, TaskEnd, TaskEventKind, TaskSpec};
use drover_proto::v1;

use crate::harness::{Agent, Session, is_alive, stdout, within};

const HOUR: Duration = Duration::from_secs(3600);

/// A task that runs `script` again and again for an hour, unless that is changed.
fn rounds(session: &Session, script: &str) -> TaskSpec {
    let mut spec = session.shell(0, script);
    spec.deadline = 2 * HOUR;
    spec.rounds = Some(Rounds {
        for_: HOUR,
        pause: Duration::ZERO,
        deadline: Duration::from_secs(50),
        keep_going: false,
    });
    spec
}

/// Its next round; what else comes is skipped.
async fn round(session: &mut Session, spec: &TaskSpec) -> (u64, RoundEnd) {
    loop {
        match session.event_of(&spec.id).await {
            TaskEventKind::Round { number, end } => return (number, end),
            TaskEventKind::Ended(end) => panic!("it ended: {end:?}"),
            _ => {}
        }
    }
}

/// All rounds until the end.
async fn all(session: &mut Session, spec: &TaskSpec) -> (Vec<(u64, RoundEnd)>, TaskEnd) {
    let mut found = Vec::new();
    loop {
        match session.event_of(&spec.id).await {
            TaskEventKind::Round { number, end } => found.push((number, end)),
            TaskEventKind::Ended(end) => return (found, end),
            _ => {}
        }
    }
}

fn text(end: &RoundEnd) -> String {
    String::from_utf8(end.stdout.inline.clone().unwrap()).unwrap()
}

fn count(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn expect_one_round_after_the_other_with_outputs_and_figures_until_the_task_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let script = "echo x >> count; wc -l < count; echo $$ >&2; setsid sleep 1000 & i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let spec = rounds(&session, script);
    assert!(!session.start(&spec).await);
    let TaskEventKind::Started { .. } = session.event_of(&spec.id).await else { panic!() };
    let mut pids = Vec::new();
    for expected in 1..=3 {
        let TaskEventKind::Round { number, end } = session.event_of(&spec.id).await else { panic!() };
        assert_eq!((number, end.kind.clone(), end.cut), (expected, EndKind::Exited(0), false));
        assert_eq!(text(&end).trim(), expected.to_string());
        assert!(end.usage.user > Duration::ZERO && end.wall > Duration::ZERO, "{end:?}");
        assert!(end.started_unix_us > 0);
        let pid = String::from_utf8(end.stderr.inline.unwrap()).unwrap().trim().parse().unwrap();
        assert!(!is_alive(pid) && !pids.contains(&pid));
        pids.push(pid);
    }
    session.stop(&spec.id, false).await;
    let (found, end) = all(&mut session, &spec).await;
    assert!(matches!(end.kind, EndKind::Stopped(_)), "{end:?}");
    let complete = 3 + found.iter().filter(|(_, end)| end.kind == EndKind::Exited(0)).count();
    // Whatever a round left behind was killed before the next one.
    assert!(usize::try_from(end.leftovers).unwrap() >= complete, "{end:?}");
    assert!(end.usage.user > Duration::ZERO);
    let all: String = stdout(&end);
    assert!(all.starts_with("1\n2\n3\n"), "{all}");
}

#[tokio::test]
async fn expect_the_last_round_cut_and_a_good_end_when_the_time_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut spec = rounds(&session, "echo x >> count; test $(wc -l < count) -lt 3 || exec sleep 1000");
    spec.rounds.as_mut().unwrap().for_ = Duration::from_secs(2);
    session.start(&spec).await;
    let (found, end) = all(&mut session, &spec).await;
    let kinds: Vec<_> = found.iter().map(|(number, end)| (*number, end.kind.clone())).collect();
    let expected = [EndKind::Exited(0), EndKind::Exited(0), EndKind::Stopped(None)];
    assert_eq!(kinds, (1..).zip(expected).collect::<Vec<_>>());
    assert_eq!(end.kind, EndKind::Exited(0));
    assert!(end.wall >= Duration::from_secs(2), "{end:?}");

    let mut spec = rounds(&session, "true");
    spec.id = session.task(1, "pausing");
    let times = spec.rounds.as_mut().unwrap();
    (times.for_, times.pause) = (Duration::from_millis(300), HOUR);
    session.start(&spec).await;
    let (found, end) = all(&mut session, &spec).await;
    assert_eq!((found.len(), end.kind), (1, EndKind::Exited(0)));
}

#[tokio::test]
async fn expect_the_end_at_the_first_bad_round_unless_the_task_keeps_going() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let script = "echo x >> count; test $(wc -l < count) -ne 2 || exit 7";
    let spec = rounds(&session, script);
    session.start(&spec).await;
    let (found, end) = all(&mut session, &spec).await;
    assert_eq!((found.len(), end.kind), (2, EndKind::Exited(7)));

    let mut spec = rounds(&session, script);
    spec.id = session.task(1, "tough");
    spec.rounds.as_mut().unwrap().keep_going = true;
    session.start(&spec).await;
    for expected in [0, 7, 0] {
        assert_eq!(round(&mut session, &spec).await.1.kind, EndKind::Exited(expected));
    }
    session.stop(&spec.id, true).await;
    assert!(matches!(session.end_of(&spec.id).await.kind, EndKind::Killed | EndKind::Stopped(_)));
}

#[tokio::test]
async fn expect_each_round_killed_at_its_own_deadline_and_the_task_at_its() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut spec = rounds(&session, "echo x >> count; test $(wc -l < count) -eq 2 || exec sleep 1000");
    let times = spec.rounds.as_mut().unwrap();
    (times.deadline, times.keep_going) = (Duration::from_millis(200), true);
    spec.deadline = Duration::from_secs(3);
    session.start(&spec).await;
    let (found, end) = all(&mut session, &spec).await;
    let kinds: Vec<_> = found.into_iter().map(|(_, end)| end.kind).collect();
    assert!(kinds.starts_with(&[EndKind::Deadline, EndKind::Exited(0), EndKind::Deadline]), "{kinds:?}");
    assert_eq!(end.kind, EndKind::Deadline);
    assert!(end.wall >= Duration::from_secs(3), "{end:?}");
}

#[tokio::test]
async fn expect_rounds_to_go_on_and_be_told_to_the_next_controller_when_one_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let spec = rounds(&session, "echo x >> count; wc -l < count");
    let counted = agent.dir.join("work").join(spec.id.attempt.to_string()).join("count");
    session.start(&spec).await;
    round(&mut session, &spec).await;
    drop(session);
    let alone = count(&counted) + 3;
    within(async {
        while count(&counted) < alone {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut session = agent.session(1).await;
    for expected in 1..=alone {
        let (number, end) = round(&mut session, &spec).await;
        assert_eq!((usize::try_from(number).unwrap(), text(&end).trim()), (expected, &*expected.to_string()));
    }
    session.stop(&spec.id, false).await;
    assert!(matches!(session.end_of(&spec.id).await.kind, EndKind::Stopped(_)));
}

#[tokio::test]
async fn expect_agent_lost_after_the_rounds_that_were_over_when_the_agent_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let spec = rounds(&session, "echo x >> count; echo $$; test $(wc -l < count) -lt 3 || exec sleep 1000");
    session.start(&spec).await;
    for _ in 0..2 {
        round(&mut session, &spec).await;
    }
    agent.crash();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let (found, end) = all(&mut session, &spec).await;
    assert_eq!(end.kind, EndKind::AgentLost);
    let numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 2]);
    assert!(found.iter().all(|(_, end)| end.kind == EndKind::Exited(0) && !text(end).is_empty()));
}

#[tokio::test]
async fn expect_only_the_first_round_held_when_there_is_a_barrier() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut spec = rounds(&session, "echo x");
    spec.hold = true;
    // Shorter than the wait at the barrier may be.
    spec.rounds.as_mut().unwrap().deadline = Duration::from_secs(20);
    session.start(&spec).await;
    let TaskEventKind::Started { .. } = session.event_of(&spec.id).await else { panic!() };
    assert_eq!(session.event_of(&spec.id).await, TaskEventKind::Armed);
    let request = v1::ReleaseBarrierRequest {
        lease: Some(session.lease.clone()),
        attempt: spec.id.attempt.to_string(),
        at_monotonic_ns: 0,
    };
    assert_eq!(within(session.client.release_barrier(request)).await.unwrap().into_inner().released, 1);
    let TaskEventKind::Released { .. } = session.event_of(&spec.id).await else { panic!() };
    for expected in 1..=3 {
        let TaskEventKind::Round { number, end } = session.event_of(&spec.id).await else { panic!() };
        assert_eq!((number, text(&end).as_str()), (expected, "x\n"));
    }
    session.stop(&spec.id, true).await;
    session.end_of(&spec.id).await;
}

#[tokio::test]
async fn expect_no_round_when_the_command_does_not_exist() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut spec = rounds(&session, "");
    spec.argv = vec!["no-such-command-anywhere".into()];
    session.start(&spec).await;
    let (found, end) = all(&mut session, &spec).await;
    assert!(found.is_empty() && matches!(end.kind, EndKind::NotStarted(..)), "{end:?}");
}

#[tokio::test]
async fn expect_the_first_bytes_of_a_round_that_writes_a_lot() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let spec = rounds(&session, "echo first; head -c 5000000 /dev/zero; echo oops >&2");
    session.start(&spec).await;
    let (_, end) = round(&mut session, &spec).await;
    assert_eq!((end.stdout.written, end.stderr.written), (5_000_006, 5));
    assert_eq!(end.stdout.kept + end.stderr.kept, 64 << 10);
    assert!(end.stdout.inline.unwrap().starts_with(b"first\n"));
    assert_eq!(end.stderr.inline.unwrap(), b"oops\n");
    session.stop(&spec.id, true).await;
    session.end_of(&spec.id).await;
}

#[tokio::test]
async fn expect_figures_without_outputs_when_the_spool_cannot_grow() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start_limited(&dir, 64 << 10);
    let mut session = agent.session(1).await;
    let spec = rounds(&session, "head -c 16000 /dev/zero");
    session.start(&spec).await;
    let mut cut = Vec::new();
    for expected in 1..=8 {
        let (number, end) = round(&mut session, &spec).await;
        assert_eq!((number, end.kind.clone(), end.stdout.written), (expected, EndKind::Exited(0), 16_000));
        assert_eq!(end.cut, end.stdout.inline.is_none());
        cut.push(end.cut);
    }
    assert!(!cut[0] && cut[7] && cut.is_sorted(), "{cut:?}");
    session.stop(&spec.id, true).await;
    assert!(matches!(session.end_of(&spec.id).await.kind, EndKind::Killed | EndKind::Stopped(_)));
}
