//! Opening: who may write, and everything that a results folder can be instead of one.

use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::Stdio,
};

use drover_store::{
    DirError, LockError, OpenError, ResultsDir, SCHEMA_VERSION, SqliteStore, Store, StoreError,
};
use rusqlite::Connection;

use crate::{
    sample::{attempt, attempt_id, cells, ng, run, run_id},
    scratch::{Scratch, again, again_with_mounts, expect_success, folder_for_child, mount_tmpfs, say},
};

/// A closed store with one run.
fn filled() -> Scratch {
    let scratch = Scratch::new();
    scratch.open().create_run(&run(1), &mut cells(4).into_iter()).unwrap();
    scratch
}

fn edit(scratch: &Scratch, sql: &str) {
    Connection::open(scratch.dir.db_path()).unwrap().execute_batch(sql).unwrap();
}

fn both_errors(dir: &ResultsDir) -> [OpenError; 2] {
    [SqliteStore::open(dir).unwrap_err(), SqliteStore::open_read_only(dir).unwrap_err()]
}

#[test]
fn child_holds_the_lock() {
    let Some(folder) = folder_for_child() else { return };
    let dir = ResultsDir::create(folder).unwrap();
    let _store = SqliteStore::open(&dir).unwrap();
    say("locked");
    // Until the parent closes the pipe, or kills this process.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn expect_the_holder_named_when_a_second_writer_comes() {
    let scratch = filled();
    assert_eq!(scratch.dir.holder().unwrap(), None);
    let mut child = again(&[], "open::child_holds_the_lock", scratch.dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("locked")));
    let error = SqliteStore::open(&scratch.dir).unwrap_err();
    let OpenError::Lock(LockError::Held { holder, .. }) = &error else { panic!("{error:?}") };
    assert_eq!(holder.pid, child.id());
    let text = error.to_string();
    assert!(text.contains(&format!("process {}", child.id())), "{text}");
    assert!(text.contains(&scratch.dir.path().display().to_string()) && text.contains("since 20"), "{text}");
    assert_eq!(scratch.dir.holder().unwrap().unwrap(), *holder);
    let reader = SqliteStore::open_read_only(&scratch.dir).unwrap();
    assert_eq!(reader.runs().unwrap().len(), 1);
    // However it ends, the lock is free.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(scratch.dir.holder().unwrap(), None);
    assert!(SqliteStore::open(&scratch.dir).unwrap().is_writable());
}

#[test]
fn expect_the_lock_free_when_its_store_is_dropped() {
    let scratch = Scratch::new();
    let store = scratch.open();
    assert!(matches!(SqliteStore::open(&scratch.dir).unwrap_err(), OpenError::Lock(LockError::Held { .. })));
    drop(store);
    assert_eq!(scratch.dir.holder().unwrap(), None);
    scratch.open();
}

#[test]
fn expect_new_results_in_an_open_reader_when_a_writer_goes_on() {
    let scratch = Scratch::new();
    let mut writer = scratch.open();
    let reader = SqliteStore::open_read_only(&scratch.dir).unwrap();
    assert!(!reader.is_writable() && reader.runs().unwrap().is_empty());
    writer.create_run(&run(1), &mut cells(4).into_iter()).unwrap();
    writer.finish_attempt(&attempt(attempt_id(run_id(1), 0, 1, 1))).unwrap();
    assert_eq!(reader.load(run_id(1)).unwrap().attempts.len(), 1);
}

#[test]
fn expect_a_refusal_when_a_reader_writes() {
    let scratch = filled();
    let mut reader = SqliteStore::open_read_only(&scratch.dir).unwrap();
    let error = reader.finish_attempt(&attempt(attempt_id(run_id(1), 0, 1, 1))).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly));
    let error = reader.create_run(&run(2), &mut cells(4).into_iter()).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly));
}

#[test]
fn expect_both_versions_named_when_the_store_is_newer() {
    let scratch = filled();
    edit(&scratch, "PRAGMA user_version = 99");
    for error in both_errors(&scratch.dir) {
        assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error:?}");
        let wanted = format!("written by a newer Drover (schema 99, this one knows {SCHEMA_VERSION})");
        assert!(error.to_string().contains(&wanted), "{error}");
    }
}

#[test]
fn expect_a_refusal_and_no_change_when_the_database_is_of_another_program() {
    let scratch = Scratch::new();
    edit(&scratch, "CREATE TABLE t (x); INSERT INTO t VALUES (1)");
    let before = fs::read(scratch.dir.db_path()).unwrap();
    for error in both_errors(&scratch.dir) {
        assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
    }
    assert_eq!(fs::read(scratch.dir.db_path()).unwrap(), before);
}

#[test]
fn expect_a_refusal_and_no_change_when_the_file_is_not_a_database() {
    let scratch = Scratch::new();
    let text = "not a database, but long enough to be one. ".repeat(100);
    fs::write(scratch.dir.db_path(), &text).unwrap();
    for error in both_errors(&scratch.dir) {
        assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
    }
    assert_eq!(fs::read_to_string(scratch.dir.db_path()).unwrap(), text);
    fs::remove_file(scratch.dir.db_path()).unwrap();
    fs::create_dir(scratch.dir.db_path()).unwrap();
    for error in both_errors(&scratch.dir) {
        assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
    }
}

#[test]
fn expect_a_link_not_followed_when_it_stands_for_the_database() {
    let (scratch, other) = (Scratch::new(), filled());
    std::os::unix::fs::symlink(other.dir.db_path(), scratch.dir.db_path()).unwrap();
    for error in both_errors(&scratch.dir) {
        assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
    }
}

#[test]
fn expect_the_store_opened_when_a_link_leads_to_its_folder() {
    let scratch = filled();
    let link = scratch.root.path().join("link");
    std::os::unix::fs::symlink(scratch.dir.path(), &link).unwrap();
    let dir = ResultsDir::create(link).unwrap();
    assert_eq!(SqliteStore::open(&dir).unwrap().runs().unwrap().len(), 1);
    assert_eq!(SqliteStore::open_read_only(&dir).unwrap().runs().unwrap().len(), 1);
}

#[test]
fn expect_damage_named_when_pages_were_overwritten() {
    let scratch = Scratch::new();
    let mut store = scratch.open();
    store.create_run(&run(1), &mut cells(2000).into_iter()).unwrap();
    drop(store);
    let mut bytes = fs::read(scratch.dir.db_path()).unwrap();
    let page = 8192;
    assert!(bytes.len() > 20 * page);
    bytes[page..].fill(0x5a);
    fs::write(scratch.dir.db_path(), &bytes).unwrap();
    let found = |error: &StoreError| {
        matches!(error, StoreError::Corrupt { .. }) && error.to_string().contains(".recover")
    };
    match SqliteStore::open_read_only(&scratch.dir) {
        Err(OpenError::Store(error)) => assert!(found(&error), "{error:?}"),
        Err(error) => panic!("{error:?}"),
        Ok(store) => {
            let error = store.load(run_id(1)).unwrap_err();
            assert!(found(&error), "{error:?}");
            assert!(store.integrity_check().map_or(true, |lines| !lines.is_empty()));
        }
    }
}

#[test]
fn expect_no_tasks_left_over_when_a_measurement_is_replaced() {
    let scratch = filled();
    let mut store = scratch.open();
    let id = attempt_id(run_id(1), 0, 1, 1);
    store.finish_attempt(&ng(id)).unwrap();
    store.replace_measurement(&attempt(id)).unwrap();
    let other = Connection::open(scratch.dir.db_path()).unwrap();
    let rows: u32 = other.query_row("SELECT count(*) FROM attempt_tasks", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1);
}

#[test]
fn expect_nothing_wrong_when_a_sound_store_is_checked() {
    let scratch = filled();
    assert_eq!(scratch.open().integrity_check().unwrap(), [""; 0]);
}

#[test]
fn expect_a_store_when_an_earlier_writer_was_killed_before_its_first_commit() {
    let scratch = Scratch::new();
    fs::write(scratch.dir.db_path(), "").unwrap();
    assert!(matches!(SqliteStore::open_read_only(&scratch.dir).unwrap_err(), OpenError::Absent { .. }));
    assert!(scratch.open().runs().unwrap().is_empty());
}

#[test]
fn expect_a_hint_when_there_are_no_results() {
    let scratch = Scratch::new();
    let error = SqliteStore::open_read_only(&scratch.dir).unwrap_err();
    assert!(matches!(error, OpenError::Absent { .. }), "{error:?}");
    assert!(error.to_string().contains("run a matrix first"));
    let error = ResultsDir::open(scratch.root.path().join("elsewhere")).unwrap_err();
    assert!(matches!(error, DirError::Missing { .. }), "{error:?}");
}

#[test]
fn expect_a_refusal_when_the_folder_is_a_file() {
    let scratch = Scratch::new();
    let file = scratch.root.path().join("file");
    fs::write(&file, "x").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = ResultsDir::create(&path).unwrap_err();
        assert!(matches!(error, DirError::NotADirectory { .. }), "{error:?}");
    }
    assert!(matches!(ResultsDir::open(&file).unwrap_err(), DirError::NotADirectory { .. }));
}

#[test]
fn expect_all_parents_made_when_the_folder_is_new() {
    let scratch = Scratch::new();
    let dir = ResultsDir::create(scratch.root.path().join("a/b/c")).unwrap();
    SqliteStore::open(&dir).unwrap();
    assert!(dir.db_path().is_file());
}

#[test]
fn child_reads_what_it_may_not_write() {
    let Some(folder) = folder_for_child() else { return };
    let dir = ResultsDir::create(folder).unwrap();
    let error = SqliteStore::open(&dir).unwrap_err();
    assert!(matches!(error, OpenError::Lock(LockError::Dir(DirError::Denied { .. }))), "{error:?}");
    assert!(error.to_string().contains("name another results folder"));
    let store = SqliteStore::open_read_only(&dir).unwrap();
    assert_eq!(store.load(run_id(1)).unwrap().cells.len(), 4);
    let error = ResultsDir::create(dir.path().join("below")).unwrap_err();
    assert!(matches!(error, DirError::Denied { .. }), "{error:?}");
}

#[test]
fn expect_results_read_and_writing_refused_when_the_folder_belongs_to_another() {
    const NOBODY: u32 = 65534;
    let scratch = filled();
    fs::set_permissions(scratch.root.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(scratch.dir.path(), Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(scratch.dir.lock_path(), Permissions::from_mode(0o444)).unwrap();
    let mut child = again(&[], "open::child_reads_what_it_may_not_write", scratch.dir.path());
    if rustix::process::geteuid().is_root() {
        // Root may do everything.
        child.uid(NOBODY).gid(NOBODY);
    }
    expect_success(child);
    fs::set_permissions(scratch.dir.path(), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn child_uses_a_read_only_file_system() {
    let Some(folder) = folder_for_child() else { return };
    mount_tmpfs(&folder, "size=4m");
    let path = folder.join("results with ? and #");
    let dir = ResultsDir::create(&path).unwrap();
    SqliteStore::open(&dir).unwrap().create_run(&run(1), &mut cells(4).into_iter()).unwrap();
    // A copy made while a writer had not closed it.
    let unclosed = ResultsDir::create(folder.join("unclosed")).unwrap();
    let mut writer = SqliteStore::open(&dir).unwrap();
    writer.create_run(&run(2), &mut cells(4).into_iter()).unwrap();
    for name in ["drover.db", "drover.db-wal"] {
        fs::copy(dir.path().join(name), unclosed.path().join(name)).unwrap();
    }
    drop(writer);
    let remount =
        std::process::Command::new("mount").args(["-o", "remount,ro"]).arg(&folder).status().unwrap();
    assert!(remount.success());

    let error = SqliteStore::open(&dir).unwrap_err();
    assert!(matches!(error, OpenError::Lock(LockError::Dir(DirError::ReadOnly { .. }))), "{error:?}");
    assert_eq!(SqliteStore::open_read_only(&dir).unwrap().runs().unwrap().len(), 2);
    assert_eq!(dir.holder().unwrap(), None);
    let error = ResultsDir::create(folder.join("new")).unwrap_err();
    assert!(matches!(error, DirError::ReadOnly { .. }), "{error:?}");
    // Never a state without what the log holds.
    let error = SqliteStore::open_read_only(&unclosed).unwrap_err();
    assert!(matches!(error, OpenError::NeedsRecovery { .. }), "{error:?}");
}

#[test]
fn expect_results_read_and_writing_refused_when_the_file_system_is_read_only() {
    let root = tempfile::tempdir().unwrap();
    expect_success(again_with_mounts("open::child_uses_a_read_only_file_system", root.path()));
}

#[test]
fn expect_the_lock_of_an_unknown_holder_refused_when_its_file_says_nothing() {
    let scratch = Scratch::new();
    let mut file = fs::File::create(scratch.dir.lock_path()).unwrap();
    file.write_all(b"\xff not json").unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let error = scratch.dir.lock().unwrap_err();
    assert!(matches!(error, LockError::HeldByUnknown { .. }), "{error:?}");
}
