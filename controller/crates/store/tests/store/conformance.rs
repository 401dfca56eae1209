//! The contract of [`Store`], on every implementation.

use std::time::Duration;

use drover_model::{CpuCore, Doubt, DoubtKind, HostFacts, Outcome, Verdict};
use drover_store::{
    AttemptHistory, AttemptRecord, Change, FindError, HostState, MAX_ARGV_BYTES, MAX_DETAIL_BYTES,
    MAX_DOUBTS, MAX_SAMPLES, MAX_TAIL_BYTES, MemoryStore, OutcomeCounts, Quarantine, RunState, SqliteStore,
    Store, StoreError, bounded,
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use crate::{
    sample::{any_attempt, any_run, attempt, attempt_id, cells, facts, intent, name, ng, run, run_id, task},
    scratch::Scratch,
};

/// A store under test.
pub trait Subject {
    fn store(&mut self) -> &mut dyn Store;

    /// Closes and opens it, where that means something.
    fn reopen(&mut self) {}
}

impl Subject for MemoryStore {
    fn store(&mut self) -> &mut dyn Store {
        self
    }
}

pub struct OnDisk {
    scratch: Scratch,
    store: Option<SqliteStore>,
}

impl OnDisk {
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let store = Some(scratch.open());
        Self { scratch, store }
    }
}

impl Subject for OnDisk {
    fn store(&mut self) -> &mut dyn Store {
        self.store.as_mut().unwrap()
    }

    fn reopen(&mut self) {
        self.store = None;
        self.store = Some(self.scratch.open());
    }
}

macro_rules! conformance {
    ($($case:ident),* $(,)?) => {
        mod memory {
            $(#[test] fn $case() { super::$case(&mut drover_store::MemoryStore::new()); })*
        }
        mod sqlite {
            $(#[test] fn $case() { super::$case(&mut super::OnDisk::new()); })*
        }
    };
}

conformance! {
    expect_all_cells_when_a_run_was_just_created,
    expect_the_old_run_untouched_when_one_is_created_twice,
    expect_no_run_when_two_of_its_cells_share_a_position,
    expect_state_and_end_when_a_run_ended,
    expect_the_latest_facts_in_order_of_arrival_when_a_host_is_recorded_again,
    expect_every_state_of_a_host_in_its_order_when_a_host_is_recorded_again,
    expect_every_intent_in_the_order_of_its_last_word,
    expect_the_latest_seats_when_an_attempt_is_journalled_again_elsewhere,
    expect_the_latest_reason_when_a_host_is_quarantined_again_and_none_when_it_is_released,
    expect_attempts_in_order_when_they_arrive_in_disorder,
    expect_no_tasks_when_loaded_for_a_table,
    expect_the_first_record_when_an_attempt_is_finished_twice,
    expect_the_old_record_as_revision_when_a_measurement_is_replaced,
    expect_nothing_stored_when_one_change_of_a_group_is_refused,
    expect_a_refusal_when_run_cell_or_attempt_is_unknown,
    expect_a_refusal_when_a_number_is_not_finite,
    expect_a_refusal_when_a_time_does_not_fit,
    expect_evidence_cut_when_it_is_too_long,
    expect_trials_counted_by_their_last_final_attempt,
    expect_the_run_when_found_by_prefix_or_as_last,
    expect_the_same_records_when_any_are_stored,
}

fn with_run(subject: &mut dyn Subject) -> &mut dyn Store {
    subject.store().create_run(&run(1), &mut cells(4).into_iter()).unwrap();
    subject.store()
}

fn expect_all_cells_when_a_run_was_just_created(subject: &mut dyn Subject) {
    with_run(subject);
    subject.reopen();
    let store = subject.store();
    let results = store.load(run_id(1)).unwrap();
    assert_eq!(results.run, run(1));
    assert_eq!(results.cells, cells(4));
    assert_eq!((results.state, results.ended_unix_ms), (RunState::Open, None));
    assert!(results.attempts.is_empty() && results.hosts.is_empty());
    assert_eq!(store.load_run(run_id(1)).unwrap(), run(1));
    let summary = store.runs().unwrap().remove(0);
    assert_eq!((summary.planned_trials, summary.excluded_cells), (9, 1));
    assert_eq!(summary.counts, OutcomeCounts::default());
}

fn expect_the_old_run_untouched_when_one_is_created_twice(subject: &mut dyn Subject) {
    let store = with_run(subject);
    let error = store.create_run(&run(1), &mut cells(2).into_iter()).unwrap_err();
    assert!(matches!(error, StoreError::RunExists(id) if id == run_id(1)));
    assert_eq!(store.load(run_id(1)).unwrap().cells.len(), 4);
}

fn expect_no_run_when_two_of_its_cells_share_a_position(subject: &mut dyn Subject) {
    let store = subject.store();
    let error = store.create_run(&run(1), &mut cells(3).into_iter().chain(cells(1))).unwrap_err();
    assert!(matches!(error, StoreError::CellExists { index: 0, .. }));
    assert!(store.runs().unwrap().is_empty());
}

fn expect_state_and_end_when_a_run_ended(subject: &mut dyn Subject) {
    with_run(subject).set_state(run_id(1), RunState::Interrupted, Some(99)).unwrap();
    subject.reopen();
    let store = subject.store();
    let results = store.load_table(run_id(1)).unwrap();
    assert_eq!((results.state, results.ended_unix_ms), (RunState::Interrupted, Some(99)));
    store.set_state(run_id(1), RunState::Open, None).unwrap();
    assert_eq!(store.run_names().unwrap().remove(0).state, RunState::Open);
    store.set_state(run_id(1), RunState::Finished, Some(100)).unwrap();
    assert_eq!(store.run_names().unwrap().remove(0).state, RunState::Finished);
    store.set_state(run_id(1), RunState::Open, None).unwrap();
    let summary = store.runs().unwrap().remove(0);
    assert_eq!((summary.state, summary.ended_unix_ms), (RunState::Open, None));
}

fn expect_the_latest_facts_in_order_of_arrival_when_a_host_is_recorded_again(subject: &mut dyn Subject) {
    let store = with_run(subject);
    for (host, kernel) in [("zeta", "6.1"), ("alpha", "6.2"), ("zeta", "6.3")] {
        store.record_host(run_id(1), &name(host), &facts(kernel)).unwrap();
    }
    let hosts = store.load(run_id(1)).unwrap().hosts;
    assert_eq!(hosts, [(name("zeta"), facts("6.3")), (name("alpha"), facts("6.2"))]);
}

fn expect_every_state_of_a_host_in_its_order_when_a_host_is_recorded_again(subject: &mut dyn Subject) {
    let store = with_run(subject);
    let is = |kernel: &str, boot_id: &str, cpus: u32| {
        let cpu = |cpu| CpuCore { cpu, core: cpu, package: 0, node: 0 };
        HostFacts { boot_id: boot_id.to_owned(), cpus: (0..cpus).map(cpu).collect(), ..facts(kernel) }
    };
    let recorded = [
        ("zeta", is("6.1", "a", 1)),
        ("alpha", is("6.1", "b", 1)),
        // Connected again, as what it was.
        ("zeta", is("6.1", "a", 1)),
        // Another boot, other CPUs, and back again.
        ("zeta", is("6.1", "c", 1)),
        ("zeta", is("6.1", "c", 2)),
        ("zeta", is("6.1", "c", 1)),
        ("alpha", is("6.2", "b", 1)),
    ];
    for (host, facts) in &recorded {
        store.record_host(run_id(1), &name(host), facts).unwrap();
    }
    let kept = store.load_table(run_id(1)).unwrap().host_states;
    let expected: Vec<HostState> =
        [0, 1, 3, 4, 5, 6].map(|at: usize| HostState::of(&name(recorded[at].0), &recorded[at].1)).to_vec();
    assert_eq!(kept, expected);
    assert_eq!((kept[3].cpus, kept[3].boot_id.as_str(), kept[5].kernel_release.as_str()), (2, "c", "6.2"));
    assert_eq!(store.load(run_id(1)).unwrap().host_states, expected);
}

fn expect_every_intent_in_the_order_of_its_last_word(subject: &mut dyn Subject) {
    let store = with_run(subject);
    let (a, b) = (attempt_id(run_id(1), 2, 1, 1), attempt_id(run_id(1), 0, 2, 1));
    store.journal(&[intent(a), intent(b)]).unwrap();
    store.journal(&[intent(a)]).unwrap();
    assert_eq!(store.journalled(run_id(1)).unwrap(), [intent(b), intent(a)], "the last word counts");
    store.finish_attempt(&attempt(b)).unwrap();
    // The clock was set back meanwhile.
    let early = drover_store::Intent { at_unix_us: 1, ..intent(attempt_id(run_id(1), 1, 2, 1)) };
    store.journal(std::slice::from_ref(&early)).unwrap();
    subject.reopen();
    assert_eq!(subject.store().journalled(run_id(1)).unwrap(), [intent(b), intent(a), early]);
}

fn expect_the_latest_seats_when_an_attempt_is_journalled_again_elsewhere(subject: &mut dyn Subject) {
    let store = with_run(subject);
    let first = intent(attempt_id(run_id(1), 0, 1, 1));
    store.journal(std::slice::from_ref(&first)).unwrap();
    let elsewhere = drover_store::Intent {
        seats: "beta/gamma,delta".parse().unwrap(),
        at_unix_us: first.at_unix_us + 1,
        ..first
    };
    store.journal(std::slice::from_ref(&elsewhere)).unwrap();
    subject.reopen();
    assert_eq!(subject.store().journalled(run_id(1)).unwrap(), [elsewhere]);
}

fn expect_the_latest_reason_when_a_host_is_quarantined_again_and_none_when_it_is_released(
    subject: &mut dyn Subject,
) {
    let bad =
        |host, why: &str, since_unix_ms| Quarantine { host: name(host), why: why.into(), since_unix_ms };
    let store = subject.store();
    let first = [bad("zeta", "lost", 1), bad("beta", "does not end a task", 2), bad("zeta", "lost again", 3)];
    store.apply(&first.iter().map(Change::Quarantine).collect::<Vec<_>>()).unwrap();
    let [_, beta, zeta] = first;
    subject.reopen();
    assert_eq!(subject.store().quarantined().unwrap(), [beta.clone(), zeta]);
    let (zeta, nobody) = (name("zeta"), name("nobody"));
    subject.store().apply(&[Change::Release(&zeta), Change::Release(&nobody)]).unwrap();
    subject.reopen();
    assert_eq!(subject.store().quarantined().unwrap(), [beta]);
    assert!(subject.store().apply(&[Change::Quarantine(&bad("x", "", u64::MAX))]).is_err());
}

fn expect_attempts_in_order_when_they_arrive_in_disorder(subject: &mut dyn Subject) {
    let store = with_run(subject);
    let ids = [(2, 1, 1), (0, 2, 1), (0, 1, 2), (0, 1, 1), (1, 3, 1)];
    let ids = ids.map(|(cell, repetition, number)| attempt_id(run_id(1), cell, repetition, number));
    for id in ids {
        let record = if id.number == 1 { ng(id) } else { attempt(id) };
        store.finish_attempt(&record).unwrap();
    }
    subject.reopen();
    let store = subject.store();
    let mut sorted = ids;
    sorted.sort();
    let loaded = store.load(run_id(1)).unwrap().attempts;
    assert_eq!(loaded.iter().map(|record| record.id).collect::<Vec<_>>(), sorted);
    assert_eq!(loaded[1], attempt(ids[2]));
    let history = store.history(run_id(1)).unwrap();
    assert_eq!(history.iter().map(|attempt| attempt.id).collect::<Vec<_>>(), sorted);
    assert_eq!(history[1], AttemptHistory { id: ids[2], verdict: Verdict::Ok, is_final: true });
    assert_eq!((history[0].outcome(), history[0].is_final), (Outcome::Ng, false));
    assert!(store.is_finished(&ids[0]).unwrap());
    assert!(!store.is_finished(&attempt_id(run_id(1), 3, 1, 1)).unwrap());
    assert!(!store.is_finished(&attempt_id(run_id(2), 0, 1, 1)).unwrap());
}

fn expect_no_tasks_when_loaded_for_a_table(subject: &mut dyn Subject) {
    let store = with_run(subject);
    let id = attempt_id(run_id(1), 1, 1, 1);
    store.finish_attempt(&attempt(id)).unwrap();
    let table = store.load_table(run_id(1)).unwrap();
    assert_eq!(table.attempts, [AttemptRecord { tasks: vec![], ..attempt(id) }]);
    assert_eq!(table.cells, cells(4));
    assert_eq!(store.load_tasks(&id).unwrap(), attempt(id).tasks);
    for unknown in [attempt_id(run_id(1), 2, 1, 1), attempt_id(run_id(7), 2, 1, 1)] {
        assert!(
            matches!(store.load_tasks(&unknown).unwrap_err(), StoreError::UnknownAttempt(id) if id == unknown)
        );
    }
}

fn expect_the_first_record_when_an_attempt_is_finished_twice(subject: &mut dyn Subject) {
    let store = with_run(subject);
    let id = attempt_id(run_id(1), 1, 1, 1);
    store.finish_attempt(&attempt(id)).unwrap();
    store.finish_attempt(&attempt(id)).unwrap();
    let error = store.finish_attempt(&ng(id)).unwrap_err();
    assert!(matches!(error, StoreError::AlreadyFinished(known) if known == id));
    assert_eq!(store.load(run_id(1)).unwrap().attempts, [attempt(id)]);
}

fn expect_the_old_record_as_revision_when_a_measurement_is_replaced(subject: &mut dyn Subject) {
    let store = with_run(subject);
    let id = attempt_id(run_id(1), 1, 1, 1);
    assert!(matches!(store.replace_measurement(&attempt(id)).unwrap_err(), StoreError::UnknownAttempt(_)));
    store.finish_attempt(&ng(id)).unwrap();
    let second = attempt(id);
    let third = AttemptRecord {
        metrics: vec![(name("conn_per_s"), 1.0)],
        tasks: vec![task(), task()],
        ..attempt(id)
    };
    for record in [&ng(id), &second, &second, &third] {
        store.replace_measurement(record).unwrap();
    }
    subject.reopen();
    let store = subject.store();
    assert_eq!(store.load(run_id(1)).unwrap().attempts, std::slice::from_ref(&third));
    assert_eq!(store.load_tasks(&id).unwrap(), third.tasks);
    assert_eq!(store.revisions(&id).unwrap(), [ng(id), second]);
    assert!(store.revisions(&attempt_id(run_id(9), 0, 1, 1)).unwrap().is_empty());
}

fn expect_nothing_stored_when_one_change_of_a_group_is_refused(subject: &mut dyn Subject) {
    let store = with_run(subject);
    let (good, bad) = (attempt_id(run_id(1), 0, 1, 1), attempt_id(run_id(1), 77, 1, 1));
    let changes = [
        Change::State { run: run_id(1), state: RunState::Finished, ended_unix_ms: Some(1) },
        Change::Journal(&[intent(good)]),
        Change::Finish(&attempt(good)),
        Change::Finish(&attempt(bad)),
    ];
    assert!(matches!(store.apply(&changes).unwrap_err(), StoreError::UnknownCell(id) if id == bad));
    let results = store.load(run_id(1)).unwrap();
    assert!(results.attempts.is_empty() && results.state == RunState::Open);
    assert!(store.journalled(run_id(1)).unwrap().is_empty());
    store.apply(&changes[..3]).unwrap();
    assert_eq!(store.load(run_id(1)).unwrap().attempts, [attempt(good)]);
}

fn expect_a_refusal_when_run_cell_or_attempt_is_unknown(subject: &mut dyn Subject) {
    let store = with_run(subject);
    let nowhere = run_id(8);
    let lost = attempt_id(nowhere, 0, 1, 1);
    let errors = [
        store.load(nowhere).map(drop),
        store.load_table(nowhere).map(drop),
        store.load_run(nowhere).map(drop),
        store.journalled(nowhere).map(drop),
        store.history(nowhere).map(drop),
        store.set_state(nowhere, RunState::Finished, None),
        store.record_host(nowhere, &name("local"), &facts("6.1")),
        store.journal(&[intent(lost)]),
        store.finish_attempt(&attempt(lost)),
        store.replace_measurement(&attempt(lost)),
    ];
    for error in errors {
        assert!(matches!(error.unwrap_err(), StoreError::UnknownRun(id) if id == nowhere));
    }
    let beyond = attempt_id(run_id(1), 4, 1, 1);
    for error in [store.journal(&[intent(beyond)]), store.finish_attempt(&attempt(beyond))] {
        assert!(matches!(error.unwrap_err(), StoreError::UnknownCell(id) if id == beyond));
    }
}

fn expect_a_refusal_when_a_number_is_not_finite(subject: &mut dyn Subject) {
    let store = with_run(subject);
    let id = attempt_id(run_id(1), 0, 1, 1);
    let metric = AttemptRecord { metrics: vec![(name("conn_per_s"), f64::NAN)], ..attempt(id) };
    let mut sample = attempt(id);
    sample.tasks[0].samples[0].value = f64::INFINITY;
    for record in [metric, sample] {
        let error = store.finish_attempt(&record).unwrap_err();
        assert!(matches!(error, StoreError::NotFinite { name, .. } if name == "conn_per_s"));
    }
    assert!(!store.is_finished(&id).unwrap());
}

fn expect_a_refusal_when_a_time_does_not_fit(subject: &mut dyn Subject) {
    let store = with_run(subject);
    let id = attempt_id(run_id(1), 0, 1, 1);
    let late = drover_store::RunRecord { started_unix_ms: u64::MAX, ..run(2) };
    let errors = [
        store.finish_attempt(&AttemptRecord { started_unix_us: u64::MAX, ..attempt(id) }),
        store.finish_attempt(&AttemptRecord { elapsed: Duration::MAX, ..attempt(id) }),
        store.finish_attempt(&AttemptRecord { start_skew_us: Some(u64::MAX), ..attempt(id) }),
        store.set_state(run_id(1), RunState::Finished, Some(u64::MAX)),
        store.journal(&[drover_store::Intent { at_unix_us: u64::MAX, ..intent(id) }]),
        store.create_run(&late, &mut cells(1).into_iter()),
    ];
    for error in errors {
        assert!(matches!(error.unwrap_err(), StoreError::OutOfRange { .. }));
    }
}

fn expect_evidence_cut_when_it_is_too_long(subject: &mut dyn Subject) {
    let store = with_run(subject);
    let id = attempt_id(run_id(1), 0, 1, 1);
    let mut long = attempt(id);
    let doubt = Doubt { kind: DoubtKind::Network, detail: "é".repeat(MAX_DETAIL_BYTES) };
    long.verdict = Verdict::Suspect { doubts: vec![doubt; MAX_DOUBTS + 9] };
    let task = &mut long.tasks[0];
    task.tail = format!("{}last words", "é".repeat(MAX_TAIL_BYTES));
    task.argv = vec!["x".repeat(1000); 100];
    task.samples = vec![task.samples[0].clone(); MAX_SAMPLES + 5];
    store.finish_attempt(&long).unwrap();
    store.finish_attempt(&long).unwrap();
    let stored = store.load(run_id(1)).unwrap().attempts.remove(0);
    assert_eq!(stored, *bounded(&long));
    assert_eq!(stored, *bounded(&stored));
    let task = &stored.tasks[0];
    assert!(
        task.tail.len() <= MAX_TAIL_BYTES && task.tail.ends_with("last words") && task.tail.starts_with('[')
    );
    assert!(task.argv.iter().map(String::len).sum::<usize>() <= MAX_ARGV_BYTES);
    assert!(task.argv.last().unwrap().contains("more arguments"));
    assert_eq!(task.samples.len(), MAX_SAMPLES);
    assert_eq!(task.doubts[0].detail, "5 samples beyond the limit were not stored");
    let Verdict::Suspect { doubts } = stored.verdict else { panic!("the outcome changed") };
    assert_eq!(doubts.len(), MAX_DOUBTS);
    assert_eq!(doubts.last().unwrap().detail, "10 more doubts were not stored");
    assert!(doubts.iter().all(|doubt| doubt.detail.len() <= MAX_DETAIL_BYTES));

    let mut huge = attempt(attempt_id(run_id(1), 0, 2, 1));
    huge.tasks = vec![task.clone(); 200];
    assert!(matches!(store.finish_attempt(&huge).unwrap_err(), StoreError::TooLarge { .. }));
}

fn expect_trials_counted_by_their_last_final_attempt(subject: &mut dyn Subject) {
    let store = with_run(subject);
    let id = |cell, number| attempt_id(run_id(1), cell, 1, number);
    let records = [
        ng(id(0, 1)),
        attempt(id(0, 2)),
        ng(id(1, 1)),
        AttemptRecord { is_final: true, ..ng(id(2, 1)) },
        AttemptRecord { is_final: true, ..ng(id(3, 1)) },
        attempt(id(3, 2)),
    ];
    for record in &records {
        store.finish_attempt(record).unwrap();
    }
    store.create_run(&run(2), &mut cells(1).into_iter()).unwrap();
    let runs = store.runs().unwrap();
    assert_eq!(runs.iter().map(|run| run.id).collect::<Vec<_>>(), [run_id(1), run_id(2)]);
    assert_eq!(runs[0].counts, OutcomeCounts { ok: 2, ng: 1, ..OutcomeCounts::default() });
    assert_eq!(runs[0].counts.total(), 3);
    assert_eq!((runs[1].planned_trials, runs[1].excluded_cells, runs[1].counts.total()), (0, 1, 0));
}

fn expect_the_run_when_found_by_prefix_or_as_last(subject: &mut dyn Subject) {
    let store = subject.store();
    assert!(matches!(store.find_run("last").unwrap_err(), FindError::NoRuns));
    assert!(matches!(store.find_run("01").unwrap_err(), FindError::NoRuns));
    // Created in an order that is not that of their start: the clock was set back meanwhile.
    for n in [0x20, 0x11, 0x10] {
        store.create_run(&run(n), &mut cells(1).into_iter()).unwrap();
    }
    assert_eq!(store.find_run("last").unwrap(), run_id(0x10));
    let names = store.run_names().unwrap();
    assert_eq!(names.iter().map(|run| run.id).collect::<Vec<_>>(), [0x20, 0x11, 0x10].map(run_id));
    let id = run_id(0x11).to_string();
    assert_eq!(store.find_run(&id).unwrap(), run_id(0x11));
    assert_eq!(store.find_run(&id.replace('-', "").to_uppercase()).unwrap(), run_id(0x11));
    assert_eq!(store.find_run(&run_id(0x20).to_string()[..35]).unwrap(), run_id(0x20));
    let error = store.find_run(&id[..35]).unwrap_err();
    assert!(matches!(&error, FindError::Ambiguous { count: 2, .. }));
    assert!(error.to_string().contains(&id) && error.to_string().contains("accept"));
    for wanted in ["", "-", "zz", "02"] {
        assert!(matches!(store.find_run(wanted).unwrap_err(), FindError::NotFound { .. }));
    }
}

fn expect_the_same_records_when_any_are_stored(subject: &mut dyn Subject) {
    let mut runner = TestRunner::new(Config::with_cases(64));
    let mut next = 100;
    let ids = [(0, 1), (0, 2), (2, 1)];
    let any = (any_run(run_id(0)), proptest::array::uniform3(any_attempt(attempt_id(run_id(0), 0, 1, 1))));
    let subject = std::cell::RefCell::new(subject);
    let next = std::cell::RefCell::new(&mut next);
    let outcome = runner.run(&any, |((mut run, mut cells), mut attempts)| {
        let mut subject = subject.borrow_mut();
        **next.borrow_mut() += 1;
        let id = run_id(**next.borrow());
        run.id = id;
        cells.extend(crate::sample::cells(9).split_off(cells.len()));
        for (record, (cell, number)) in attempts.iter_mut().zip(ids) {
            record.id = attempt_id(id, cell, 1, number);
        }
        let store = subject.store();
        store.create_run(&run, &mut cells.clone().into_iter()).unwrap();
        for record in &attempts {
            store.finish_attempt(record).unwrap();
        }
        let loaded = store.load(id).unwrap();
        prop_assert_eq!(loaded.run, run);
        prop_assert_eq!(loaded.cells, cells);
        prop_assert_eq!(&loaded.attempts, &attempts);
        for (light, full) in store.load_table(id).unwrap().attempts.iter().zip(attempts) {
            prop_assert_eq!(light, &AttemptRecord { tasks: vec![], ..full });
        }
        Ok(())
    });
    outcome.unwrap();
}
