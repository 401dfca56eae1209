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

use std::panic::{AssertUnwindSafe, catch_unwind};

use world::World;

/// Seeds that once broke something.
const KEPT: [u64; 0] = [];
const HISTORIES: u64 = 20_000;

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn live(seed: u64) {
    if outcome(&mut World::new(seed, false)).is_err() {
        // The same again, this time with a record of what happens.
        let mut world = World::new(seed, true);
        let broken = outcome(&mut world).err().unwrap_or_else(|| "it held the second time".to_owned());
        panic!("{}\n\nseed {seed}: {broken}", world.log.unwrap_or_default().join("\n"));
    }
}

fn outcome(world: &mut World) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| world.live())).unwrap_or_else(|_| Err("it panicked".to_owned()))
}

#[test]
fn expect_every_invariant_to_hold_when_everything_fails() {
    if let Some(seed) = number_from("DROVER_SIM_SEED") {
        return live(seed);
    }
    let histories = number_from("DROVER_SIM_HISTORIES").unwrap_or(HISTORIES);
    KEPT.into_iter().for_each(live);
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, |n| u64::try_from(n.get()).unwrap());
        for first in 0..threads {
            scope.spawn(move || (first..histories).step_by(usize::try_from(threads).unwrap()).for_each(live));
        }
    });
}
