//! A controller killed with SIGKILL at random moments: what was said to be stored is there.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use drover_store::{Command, ResultsDir, RunState, SqliteStore, Store, StoreEvent, Stream, Token, Writer};

use crate::{
    sample::{attempt, attempt_id, cells, intent, name, output, run, run_id},
    scratch::{Scratch, again, folder_for_child, say},
};

const CELLS: u32 = 600;
const KILLS: usize = 24;

/// What the client of a cell wrote; only every third wrote anything.
fn written(cell: u32) -> Vec<u8> {
    if cell.is_multiple_of(3) { format!("output of cell {cell}\n").repeat(50).into_bytes() } else { vec![] }
}

/// A run of which everything is journalled, then finished, as fast as the disk allows.
#[test]
fn child_stores_until_it_is_killed() {
    let Some(folder) = folder_for_child() else { return };
    let dir = ResultsDir::create(folder).unwrap();
    let mut store = SqliteStore::open(&dir).unwrap();
    let n = u128::try_from(store.run_names().unwrap().len()).unwrap() + 1;
    store.create_run(&run(n), &mut cells(CELLS).into_iter()).unwrap();
    say("created");
    let writer = Writer::spawn(store, dir, |event| match event {
        StoreEvent::Stored(tokens) => {
            let words: Vec<String> = tokens.iter().map(|token| token.0.to_string()).collect();
            say(&format!("stored {}", words.join(" ")));
        }
        StoreEvent::Failed(failure) => say(&format!("failed {failure:?}")),
    })
    .unwrap();
    for cell in 0..CELLS {
        let id = attempt_id(run_id(n), cell, 1, 1);
        // Journals have even tokens, results odd ones.
        writer.submit(Token(u64::from(cell) * 2), Command::Journal(vec![intent(id)])).unwrap();
        let outputs = vec![output(&written(cell))];
        let finish = Command::Finish { record: Box::new(attempt(id)), outputs };
        writer.submit(Token(u64::from(cell) * 2 + 1), finish).unwrap();
    }
    writer.close().unwrap().set_state(run_id(n), RunState::Finished, Some(1)).unwrap();
}

/// Reads what the child says is stored until that is `limit` commands, kills it, and reads the rest.
fn stored_by(mut child: Child, limit: usize) -> (bool, BTreeSet<u64>) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut created, mut tokens) = (false, BTreeSet::new());
    for line in lines {
        let line = line.unwrap();
        assert!(!line.starts_with("failed"), "{line}");
        // The harness writes the name of the test in front of the first line.
        created |= line.ends_with("created");
        if let Some(words) = line.strip_prefix("stored ") {
            tokens.extend(words.split(' ').map(|word| word.parse::<u64>().unwrap()));
        }
        // Zero: at once, while the run is created.
        if tokens.len() >= limit {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    (created, tokens)
}

#[test]
fn expect_everything_acknowledged_in_the_store_when_the_writer_is_killed() {
    let scratch = Scratch::new();
    let mut expected_runs = 0;
    let mut cut_short = 0;
    for kill in 0..KILLS {
        // A different point each time; the child runs on while the parent decides, which adds chance.
        let limit = if kill % 8 == 0 { 0 } else { kill * 97 % 500 };
        let child = again(&[], "kill::child_stores_until_it_is_killed", scratch.dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (created, tokens) = stored_by(child, limit);

        let store = scratch.open();
        assert_eq!(store.integrity_check().unwrap(), [""; 0]);
        let runs = store.runs().unwrap();
        assert!(runs.len() == expected_runs || runs.len() == expected_runs + 1);
        assert!(!created || runs.len() == expected_runs + 1, "a run that was created is missing");
        if runs.len() == expected_runs {
            continue;
        }
        expected_runs += 1;
        let newest = runs.last().unwrap();
        let results = store.load(newest.id).unwrap();
        assert_eq!(results.cells.len(), usize::try_from(CELLS).unwrap());
        cut_short += u32::from(results.attempts.len() < results.cells.len());
        let finished: BTreeSet<u32> = results.attempts.iter().map(|record| record.id.trial.cell).collect();
        let pending: BTreeSet<u32> =
            store.journalled(newest.id).unwrap().iter().map(|intent| intent.id.trial.cell).collect();
        for token in tokens {
            let cell = u32::try_from(token / 2).unwrap();
            let kept = finished.contains(&cell) || (token % 2 == 0 && pending.contains(&cell));
            assert!(kept, "cell {cell} was acknowledged and is not in the store");
        }
        for record in &results.attempts {
            assert_eq!(*record, attempt(record.id));
            let bytes = scratch.dir.read_output(&record.id, &name("client"), 0, Stream::Stdout).unwrap();
            assert_eq!(bytes.unwrap_or_default(), written(record.id.trial.cell));
        }
    }
    assert!(cut_short >= 12, "only {cut_short} runs were cut short: the kills come too late");
}
