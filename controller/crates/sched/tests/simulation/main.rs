//! Seeded simulation of whole runs: controllers, agents, hosts and links fail at every point, messages come late and twice,
//! users interrupt. After every step the invariants are checked; a seed that breaks one is printed with what happened.
//!
//! `DROVER_SIM_SEED=N` runs one history; `DROVER_SIM_HISTORIES=N` changes their number.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test: what is unexpected fails it")]

mod agent;
mod invariants;
mod rng;
mod shapes;
mod world;

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

use world::World;

const HISTORIES: u64 = 100_000;

/// Histories that once broke something, so that fewer histories still come across them.
const KEPT: [u64; 16] = [
    183, 319, 356, 6015, 15_019, 17_638, 22_271, 34_735, 36_081, 47_503, 49_837, 86_612, 96_758, 148_602,
    183_953, 187_764,
];

/// Verdicts, causes and ends that a few hundred histories must come across, or they prove little.
const TO_BE_REACHED: [&str; 37] = [
    "ok",
    "suspect",
    "ng",
    "error",
    "missing",
    "crash",
    "lockup",
    "oops",
    "not-ready",
    "timeout",
    "unexpected-reboot",
    "agent-lost",
    "lost-host",
    "unreachable",
    "start-skew",
    "quarantined",
    "power cycled",
    "power failed",
    "booted",
    "restored",
    "command",
    "port-taken",
    "template",
    "script",
    "internal",
    "disk-full",
    "wrong-cpus",
    "wrong-kernel",
    "budget-spent",
    "cancelled",
    "host-unavailable",
    "interrupted",
    "hosts unavailable",
    "store failed",
    "hang",
    "check-failed",
    "found to have failed",
];

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Lives through one history; gives what it came across.
fn live(seed: u64) -> BTreeSet<&'static str> {
    let mut world = World::new(seed, false);
    if outcome(&mut world).is_err() {
        // The same again, this time with a record of what happens.
        let mut world = World::new(seed, true);
        let broken = outcome(&mut world).err().unwrap_or_else(|| "it held the second time".to_owned());
        panic!("{}\n\nseed {seed}: {broken}", world.log.unwrap_or_default().join("\n"));
    }
    world.reached
}

fn outcome(world: &mut World) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| world.live())).unwrap_or_else(|_| Err("it panicked".to_owned()))
}

#[test]
fn expect_every_invariant_to_hold_when_everything_fails() {
    if let Some(seed) = number_from("DROVER_SIM_SEED") {
        live(seed);
        return;
    }
    let histories = number_from("DROVER_SIM_HISTORIES").unwrap_or(HISTORIES);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let reached: BTreeSet<&str> = std::thread::scope(|scope| {
        let share = |first: usize| {
            let seeds = (0..histories).chain(KEPT).skip(first).step_by(threads);
            scope.spawn(move || seeds.flat_map(live).collect::<BTreeSet<_>>())
        };
        let shares: Vec<_> = (0..threads).map(share).collect();
        shares.into_iter().flat_map(|share| share.join().unwrap()).collect()
    });
    let missed: Vec<_> = TO_BE_REACHED.into_iter().filter(|wanted| !reached.contains(wanted)).collect();
    assert!(missed.is_empty(), "{histories} histories never came to {missed:?}");
}
