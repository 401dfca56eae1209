//! The store on disk does what the store in memory does, whatever is asked of it.

use drover_model::AttemptId;
use drover_store::{AttemptRecord, Change, Intent, MemoryStore, RunState, Store, StoreError};
use proptest::{collection::vec, prelude::*};

use crate::{
    sample::{any_attempt, attempt_id, cells, facts, intent, name, run, run_id},
    scratch::Scratch,
};

#[derive(Clone, Debug)]
enum Ask {
    State(u128, Option<u64>),
    Host(u128, &'static str, &'static str),
    Journal(Vec<Intent>),
    Finish(Box<AttemptRecord>),
    Replace(Box<AttemptRecord>),
}

fn change(ask: &Ask) -> Change<'_> {
    match ask {
        Ask::State(n, ended) => {
            Change::State { run: run_id(*n), state: RunState::Interrupted, ended_unix_ms: *ended }
        }
        Ask::Host(..) => unreachable!("a host needs its facts"),
        Ask::Journal(intents) => Change::Journal(intents),
        Ask::Finish(record) => Change::Finish(record),
        Ask::Replace(record) => Change::Replace(record),
    }
}

/// Few ids, so that they meet; the third run and the fourth cell do not exist.
fn any_id() -> impl Strategy<Value = AttemptId> {
    (1u128..4, 0u32..4, 1u32..3, 1u32..3)
        .prop_map(|(n, cell, rep, number)| attempt_id(run_id(n), cell, rep, number))
}

fn any_ask() -> impl Strategy<Value = Ask> {
    let intents = vec((any_id(), prop_oneof![Just("local"), Just("beta/a,b")]), 0..3);
    let intents = intents.prop_map(|list| {
        list.into_iter().map(|(id, host)| Intent { seats: host.parse().unwrap(), ..intent(id) }).collect()
    });
    let record = || any_id().prop_flat_map(any_attempt).prop_map(Box::new);
    prop_oneof![
        (1u128..4, proptest::option::of(0u64..9)).prop_map(|(n, ended)| Ask::State(n, ended)),
        (1u128..4, prop_oneof![Just("b"), Just("a")], prop_oneof![Just("6.1"), Just("6.2")])
            .prop_map(|(n, host, kernel)| Ask::Host(n, host, kernel)),
        intents.prop_map(Ask::Journal),
        record().prop_map(Ask::Finish),
        record().prop_map(Ask::Replace),
    ]
}

fn apply(store: &mut dyn Store, group: &[Ask]) -> Result<(), String> {
    let told = |error: StoreError| format!("{error:?}");
    match group {
        [Ask::Host(n, host, kernel)] => {
            store.record_host(run_id(*n), &name(host), &facts(kernel)).map_err(told)
        }
        group => {
            let rest = group.iter().filter(|ask| !matches!(ask, Ask::Host(..)));
            store.apply(&rest.map(change).collect::<Vec<_>>()).map_err(told)
        }
    }
}

fn everything(store: &dyn Store) -> String {
    use std::fmt::Write;
    let mut all = format!("{:?}\n", store.runs().unwrap());
    for run in [run_id(1), run_id(2)] {
        let full = store.load(run).unwrap();
        writeln!(all, "{full:?}\n{:?}", store.load_table(run).unwrap()).unwrap();
        writeln!(all, "{:?}\n{:?}", store.journalled(run).unwrap(), store.history(run).unwrap()).unwrap();
        for attempt in &full.attempts {
            writeln!(all, "{:?}", store.load_tasks(&attempt.id).unwrap()).unwrap();
            writeln!(all, "{:?}", store.revisions(&attempt.id).unwrap()).unwrap();
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn expect_the_same_answers_from_disk_and_memory(groups in vec(vec(any_ask(), 1..4), 0..24)) {
        let scratch = Scratch::new();
        let (mut memory, mut disk) = (MemoryStore::new(), scratch.open());
        for store in [&mut memory as &mut dyn Store, &mut disk] {
            for n in [1, 2] {
                store.create_run(&run(n), &mut cells(3).into_iter()).unwrap();
            }
        }
        for group in &groups {
            prop_assert_eq!(apply(&mut memory, group), apply(&mut disk, group));
        }
        prop_assert_eq!(everything(&memory), everything(&disk));
    }
}
