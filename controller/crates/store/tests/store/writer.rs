//! The writer's thread: groups, order, outputs, failures.

use std::{
    fs,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::Duration,
};

use drover_model::AttemptId;
use drover_store::{
    CloseError, Command, CommandError, Failure, RawOutput, ResultsDir, RunState, SqliteStore, Store,
    StoreError, StoreEvent, Stream, SubmitError, Token, Writer,
};

use crate::{
    sample::{attempt, attempt_id, cells, facts, intent, name, ng, output, run, run_id},
    scratch::Scratch,
};

/// Ends a test whose writer has fallen silent.
const PATIENCE: Duration = Duration::from_secs(60);

struct Rig {
    scratch: Scratch,
    writer: Writer<SqliteStore>,
    events: Receiver<StoreEvent>,
}

impl Rig {
    fn new() -> Self {
        let scratch = Scratch::new();
        let mut store = scratch.open();
        store.create_run(&run(1), &mut cells(400).into_iter()).unwrap();
        let (tell, events): (Sender<StoreEvent>, _) = channel();
        let writer =
            Writer::spawn(store, scratch.dir.clone(), move |event| tell.send(event).unwrap()).unwrap();
        Self { scratch, writer, events }
    }

    fn submit(&self, token: u64, command: Command) {
        self.writer.submit(Token(token), command).unwrap();
    }

    /// The next event, which must be about one command.
    fn answer(&self) -> Result<u64, Box<Failure>> {
        match self.events.recv_timeout(PATIENCE).unwrap() {
            StoreEvent::Stored(tokens) => {
                assert_eq!(tokens.len(), 1);
                Ok(tokens[0].0)
            }
            StoreEvent::Failed(failure) => Err(failure),
        }
    }
}

fn id(cell: u32) -> AttemptId {
    attempt_id(run_id(1), cell, 1, 1)
}

fn finish(cell: u32, outputs: Vec<RawOutput>) -> Command {
    Command::Finish { record: Box::new(attempt(id(cell))), outputs }
}

fn read(dir: &ResultsDir, cell: u32) -> Option<Vec<u8>> {
    dir.read_output(&id(cell), &name("client"), 0, Stream::Stdout).unwrap()
}

#[test]
fn expect_every_command_stored_once_and_in_order_when_many_are_submitted() {
    let rig = Rig::new();
    for cell in 0..399 {
        rig.submit(u64::from(cell), finish(cell, vec![]));
    }
    let store = rig.writer.close().unwrap();
    let mut tokens = Vec::new();
    for event in rig.events {
        let StoreEvent::Stored(batch) = event else { panic!("{event:?}") };
        tokens.extend(batch.into_iter().map(|token| token.0));
    }
    assert_eq!(tokens, (0..399).collect::<Vec<_>>());
    assert_eq!(store.load_table(run_id(1)).unwrap().attempts.len(), 399);
    assert!(!rig.scratch.dir.runs_path().exists(), "no folder without output");
}

#[test]
fn expect_each_kind_of_command_in_the_store_when_stored() {
    let rig = Rig::new();
    rig.submit(1, Command::Host { run: run_id(1), name: name("local"), facts: Box::new(facts("6.1")) });
    rig.submit(2, Command::Journal(vec![intent(id(0)), intent(id(1))]));
    rig.submit(3, Command::Finish { record: Box::new(ng(id(0))), outputs: vec![] });
    rig.submit(4, Command::Replace(Box::new(attempt(id(0)))));
    rig.submit(5, Command::State { run: run_id(1), state: RunState::Interrupted, ended_unix_ms: Some(7) });
    let store = rig.writer.close().unwrap();
    let results = store.load(run_id(1)).unwrap();
    assert_eq!(results.hosts, [(name("local"), facts("6.1"))]);
    assert_eq!(results.attempts, [attempt(id(0))]);
    assert_eq!((results.state, results.ended_unix_ms), (RunState::Interrupted, Some(7)));
    let journalled = store.journalled(run_id(1)).unwrap();
    assert!(journalled.contains(&intent(id(1))), "{journalled:?}");
    assert_eq!(store.revisions(&id(0)).unwrap(), [ng(id(0))]);
}

#[test]
fn expect_files_only_for_outputs_that_are_not_empty() {
    let rig = Rig::new();
    let stderr = RawOutput { stream: Stream::Stderr, ..output(b"") };
    rig.submit(1, finish(3, vec![output(b"Requests per second: 7\n"), stderr.clone()]));
    rig.submit(2, finish(4, vec![output(b""), stderr]));
    rig.writer.close().unwrap();
    assert_eq!(read(&rig.scratch.dir, 3).unwrap(), b"Requests per second: 7\n");
    assert_eq!(read(&rig.scratch.dir, 4), None);
    let path = rig.scratch.dir.run_path(run_id(1)).join("c3r1a1/client.0.stdout");
    assert!(path.is_file());
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    assert!(!rig.scratch.dir.attempt_path(&id(4)).exists());
}

#[test]
fn expect_the_first_outputs_kept_when_an_attempt_is_finished_twice() {
    let rig = Rig::new();
    rig.submit(1, finish(3, vec![output(b"first")]));
    assert_eq!(rig.answer().unwrap(), 1);
    rig.submit(2, Command::Finish { record: Box::new(ng(id(3))), outputs: vec![output(b"second")] });
    let failure = rig.answer().unwrap_err();
    assert!(
        matches!(failure.error, CommandError::Store(StoreError::AlreadyFinished(known)) if known == id(3))
    );
    assert!(!failure.error.is_retriable());
    rig.submit(3, finish(3, vec![output(b"third")]));
    assert_eq!(rig.answer().unwrap(), 3);
    assert_eq!(read(&rig.scratch.dir, 3).unwrap(), b"first");
}

#[test]
fn expect_only_the_guilty_to_fail_when_a_group_holds_one_that_is_refused() {
    let rig = Rig::new();
    // More than one batch, so that some share theirs with the one that is refused.
    for cell in 0..300 {
        rig.submit(u64::from(cell), finish(if cell == 150 { 9999 } else { cell }, vec![]));
    }
    let error = rig.writer.close().unwrap_err();
    assert!(matches!(error, CloseError::Unstored(tokens) if tokens == [Token(150)]));
    let (mut stored, mut failed) = (Vec::new(), Vec::new());
    for event in rig.events {
        match event {
            StoreEvent::Stored(tokens) => stored.extend(tokens),
            StoreEvent::Failed(failure) => failed.push(failure),
        }
    }
    assert_eq!(stored.len(), 299);
    assert!(stored.is_sorted());
    assert_eq!(failed.len(), 1);
    assert!(matches!(*failed[0], Failure { token: Token(150), command: Command::Finish { .. }, .. }));
    let store = rig.scratch.open();
    assert_eq!(store.history(run_id(1)).unwrap().len(), 299);
}

#[test]
fn expect_success_when_a_failed_command_is_submitted_again_after_the_cause_is_gone() {
    let rig = Rig::new();
    let runs = rig.scratch.dir.runs_path();
    fs::write(&runs, "in the way").unwrap();
    rig.submit(1, finish(0, vec![output(b"out")]));
    let Failure { token, command, error } = *rig.answer().unwrap_err();
    assert!(error.is_retriable());
    assert!(error.to_string().contains("is not a folder"), "{error}");
    fs::remove_file(runs).unwrap();
    rig.submit(token.0, command);
    assert_eq!(rig.answer().unwrap(), 1);
    assert_eq!(read(&rig.scratch.dir, 0).unwrap(), b"out");
    assert!(rig.writer.close().is_ok());
}

#[test]
fn expect_no_output_through_a_link_that_somebody_put_there() {
    let rig = Rig::new();
    let dir = &rig.scratch.dir;
    let target = rig.scratch.root.path().join("precious");
    fs::write(&target, "mine").unwrap();
    fs::create_dir_all(dir.attempt_path(&id(0))).unwrap();
    std::os::unix::fs::symlink(&target, dir.output_path(&id(0), &name("client"), 0, Stream::Stdout)).unwrap();
    rig.submit(1, finish(0, vec![output(b"out")]));
    assert!(matches!(rig.answer().unwrap_err().error, CommandError::Output(_)));
    assert_eq!(fs::read_to_string(target).unwrap(), "mine");
}

#[test]
fn expect_commands_given_back_when_the_thread_has_ended() {
    let scratch = Scratch::new();
    let mut store = scratch.open();
    store.create_run(&run(1), &mut cells(2).into_iter()).unwrap();
    let (tell, events) = channel::<()>();
    // The receiver sees the end of the thread, because the callback owns the sender.
    let writer = Writer::spawn(store, scratch.dir.clone(), move |_| {
        tell.send(()).unwrap();
        panic!("a fault in the callback, on purpose");
    })
    .unwrap();
    writer.submit(Token(1), finish(0, vec![])).unwrap();
    events.recv_timeout(PATIENCE).unwrap();
    assert_eq!(events.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
    let closed = |error| matches!(error, SubmitError::Closed(Command::Finish { .. }));
    assert!(closed(writer.submit(Token(2), finish(1, vec![])).unwrap_err()));
    assert!(closed(writer.try_submit(Token(3), finish(1, vec![])).unwrap_err()));
    assert!(matches!(writer.close().unwrap_err(), CloseError::Panicked));
    assert_eq!(scratch.open().history(run_id(1)).unwrap().len(), 1);
}

#[test]
fn expect_a_full_queue_told_when_the_writer_is_held_up() {
    let scratch = Scratch::new();
    let mut store = scratch.open();
    store.create_run(&run(1), &mut cells(400).into_iter()).unwrap();
    let (hold, held) = channel::<()>();
    let (tell, began) = channel();
    let writer = Writer::spawn(store, scratch.dir.clone(), move |_| {
        tell.send(()).unwrap();
        // Ends when the test drops its end.
        let _ = held.recv();
    })
    .unwrap();
    writer.submit(Token(0), finish(0, vec![])).unwrap();
    began.recv_timeout(PATIENCE).unwrap();
    let refused =
        (1..399).find_map(|cell| writer.try_submit(Token(u64::from(cell)), finish(cell, vec![])).err());
    assert!(matches!(refused, Some(SubmitError::Full(Command::Finish { .. }))));
    drop(hold);
    let stored = writer.close().unwrap().history(run_id(1)).unwrap().len();
    assert_eq!(stored, 1 + drover_store::QUEUE_LENGTH);
}

#[test]
fn expect_everything_stored_when_the_writer_is_dropped() {
    let rig = Rig::new();
    for cell in 0..100 {
        rig.submit(u64::from(cell), finish(cell, vec![]));
    }
    drop(rig.writer);
    assert_eq!(rig.scratch.open().history(run_id(1)).unwrap().len(), 100);
}
