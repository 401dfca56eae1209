//! A disk that fills up while results arrive.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::Path,
    sync::mpsc::channel,
};

use drover_store::{
    Command, CommandError, DirError, OpenError, ResultsDir, SqliteStore, Store, StoreError, StoreEvent,
    Stream, Token, Writer,
};

use crate::{
    sample::{attempt, attempt_id, cells, name, output, run, run_id},
    scratch::{again_with_mounts, expect_success, folder_for_child, mount_tmpfs},
};

/// Takes all space that is left.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    let mut size = 64 * 1024;
    while size > 0 {
        match file.write_all(&vec![b'x'; size]) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => size /= 2,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn child_fills_its_disk() {
    let Some(folder) = folder_for_child() else { return };
    mount_tmpfs(&folder, "size=2m");
    let filler = folder.join("filler");

    fill(&filler);
    let error = ResultsDir::create(folder.join("results")).map_err(OpenError::from);
    let error = error.and_then(|dir| SqliteStore::open(&dir)).unwrap_err();
    let full = matches!(
        &error,
        OpenError::Store(StoreError::DiskFull { .. })
            | OpenError::Dir(DirError::DiskFull { .. })
            | OpenError::Lock(drover_store::LockError::Dir(DirError::DiskFull { .. }))
    );
    assert!(full, "{error:?}");
    assert!(error.to_string().contains("no space left"), "{error}");
    fs::remove_file(&filler).unwrap();

    let dir = ResultsDir::create(folder.join("results")).unwrap();
    let mut store = SqliteStore::open(&dir).unwrap();
    store.create_run(&run(1), &mut cells(200).into_iter()).unwrap();
    let (tell, events) = channel();
    let writer = Writer::spawn(store, dir.clone(), move |event| tell.send(event).unwrap()).unwrap();
    let id = |cell| attempt_id(run_id(1), cell, 1, 1);
    let finish = |cell: u32| {
        // Half of them have output, so that both the files and the database meet the end of the disk.
        let outputs = if cell.is_multiple_of(2) { vec![output(&[b'o'; 5000])] } else { vec![] };
        Command::Finish { record: Box::new(attempt(id(cell))), outputs }
    };
    writer.submit(Token(0), finish(0)).unwrap();
    assert!(matches!(
        events.recv_timeout(std::time::Duration::from_secs(60)).unwrap(),
        StoreEvent::Stored(_)
    ));

    fill(&filler);
    let mut failures = Vec::new();
    let (mut in_files, mut in_database) = (0, 0);
    for cell in 1..60 {
        writer.submit(Token(u64::from(cell)), finish(cell)).unwrap();
        if let StoreEvent::Failed(failure) = events.recv_timeout(std::time::Duration::from_secs(60)).unwrap()
        {
            assert!(failure.error.is_disk_full() && failure.error.is_retriable(), "{:?}", failure.error);
            match &failure.error {
                CommandError::Output(_) => in_files += 1,
                CommandError::Store(_) => in_database += 1,
            }
            failures.push(failure);
        }
    }
    assert!(in_files > 10 && in_database > 10, "{in_files} {in_database}");
    // A reader still sees what there is.
    assert!(!SqliteStore::open_read_only(&dir).unwrap().history(run_id(1)).unwrap().is_empty());

    fs::remove_file(&filler).unwrap();
    for failure in failures {
        writer.submit(failure.token, failure.command).unwrap();
    }
    let store = writer.close().unwrap();
    drop(store);
    let store = SqliteStore::open(&dir).unwrap();
    assert_eq!(store.integrity_check().unwrap(), [""; 0]);
    assert_eq!(
        store.load(run_id(1)).unwrap().attempts,
        (0..60).map(|cell| attempt(id(cell))).collect::<Vec<_>>()
    );
    for cell in (0..60).step_by(2) {
        let bytes = dir.read_output(&id(cell), &name("client"), 0, Stream::Stdout).unwrap();
        assert_eq!(bytes.unwrap().len(), 5000);
    }
}

#[test]
fn expect_failures_told_and_nothing_lost_when_the_disk_is_full_for_a_while() {
    let root = tempfile::tempdir().unwrap();
    expect_success(again_with_mounts("disk::child_fills_its_disk", root.path()));
}
