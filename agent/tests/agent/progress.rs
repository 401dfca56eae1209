//! Lines of output while a task runs.

use drover_model::{EndKind, TaskEventKind};

use crate::harness::{Agent, stdout};

#[tokio::test]
async fn expect_lines_while_the_task_runs_and_the_rest_before_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let fifo = dir.path().join("fifo");
    let script =
        format!("mkfifo {0}; echo one; echo not this >&2; printf two; cat {0}; printf rest", fifo.display());
    let mut spec = session.shell(0, &script);
    spec.progress = true;
    session.start(&spec).await;
    let TaskEventKind::Started { .. } = session.event_of(&spec.id).await else { panic!() };
    let TaskEventKind::Lines { at_unix_us, text, dropped } = session.event_of(&spec.id).await else {
        panic!()
    };
    assert!(at_unix_us > 0);
    assert_eq!((text.as_str(), dropped), ("one\n", 0));
    std::fs::write(&fifo, " and a half\nthree\n").unwrap();
    let mut told = String::new();
    let end = loop {
        match session.event_of(&spec.id).await {
            TaskEventKind::Lines { text, .. } => told += &text,
            TaskEventKind::Ended(end) => break end,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(told, "two and a half\nthree\nrest\n");
    assert_eq!(stdout(&end), "one\ntwo and a half\nthree\nrest");
}

#[tokio::test]
async fn expect_few_events_and_all_bytes_reported_or_counted_when_a_task_writes_without_pause() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.session(1).await;
    let mut spec = session.shell(0, "yes 0123456789 | head -n 1000000");
    spec.progress = true;
    session.start(&spec).await;
    let (mut events, mut reported) = (0, 0);
    let end = loop {
        match session.event_of(&spec.id).await {
            TaskEventKind::Lines { text, dropped, .. } => {
                assert!(text.len() <= 64 << 10);
                events += 1;
                reported += u64::try_from(text.len()).unwrap() + dropped;
            }
            TaskEventKind::Ended(end) => break end,
            _ => {}
        }
    };
    assert_eq!((end.kind, reported), (EndKind::Exited(0), 11_000_000));
    assert!(events <= 3 + end.wall.as_secs(), "{events} in {:?}", end.wall);
}
