//! Chaos: real controllers and agents on runs of short trials that log their own history, while everything is killed, stopped, cut
//! off, filled up and set wrong at moments drawn from a seed. After each round the store must agree with the truth, and nothing
//! may be left.
//!
//! `scripts/chaos` calls it; docs/chaos.md explains it. `DROVER_CHAOS_SEED=N` is the seed of the first round, the others count on
//! from it; `DROVER_CHAOS_ROUNDS=N` is their number; `DROVER_CHAOS_PLAN=1` only prints what would happen.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod disk;
mod ground;
mod history;
mod jobs;
mod judge;
mod matrix;
mod plan;
mod remains;
mod rng;
mod round;
mod wait;

use std::time::Instant;

use judge::Harm;
use plan::{Means, Plan};

/// Rounds where nobody says how many.
const ROUNDS: u64 = 2;
const SEED: u64 = 1;
/// Rounds that do not hold before the rest is not looked at any more.
const ENOUGH: usize = 10;

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

/// What this machine allows; says what has to be left out.
fn means() -> Means {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("chaos: not root: no lab, and no disks that fail");
        return Means { root, loops: false };
    }
    let scratch = tempfile::TempDir::with_prefix("drover-chaos-").expect("a temporary folder");
    let loops = disk::has_loops(scratch.path());
    if let Err(error) = &loops {
        println!("chaos: no disks for results that fail: {error}");
    }
    Means { root, loops: loops.is_ok() }
}

#[test]
fn expect_the_store_to_tell_the_truth_when_everything_fails_at_random_moments() {
    let seed = number_from("DROVER_CHAOS_SEED").unwrap_or(SEED);
    let rounds = number_from("DROVER_CHAOS_ROUNDS").unwrap_or(ROUNDS);
    let only_plan = number_from("DROVER_CHAOS_PLAN").is_some_and(|wish| wish > 0);
    let (means, mut broken) = (means(), Vec::new());
    let (begun, mut total, mut trials, mut attempts, mut controllers) =
        (Instant::now(), Harm::default(), 0, 0, 0);
    for seed in seed..seed.saturating_add(rounds) {
        let plan = Plan::draw(seed, means);
        println!("{plan}");
        if only_plan {
            continue;
        }
        let start = Instant::now();
        match round::carry_out(&plan) {
            Ok(held) => {
                let released = match held.released {
                    0 => String::new(),
                    count => format!(", {count} hosts released from quarantine"),
                };
                println!(
                    "    held: {} trials, {} attempts, {} controllers{released}, {:.1} s",
                    held.trials,
                    held.attempts,
                    held.controllers,
                    start.elapsed().as_secs_f64()
                );
                total.add(held.harm);
                trials += held.trials;
                attempts += held.attempts;
                controllers += held.controllers;
            }
            Err(round) => {
                println!(
                    "    does not hold:\n      {}\n    kept: {}\n    again: scripts/chaos --seed {seed} --rounds 1",
                    round.wrong.join("\n      "),
                    round.folder.display()
                );
                broken.push(seed);
                if broken.len() >= ENOUGH {
                    break;
                }
            }
        }
    }
    assert!(broken.is_empty(), "rounds of these seeds do not hold: {broken:?}");
    println!(
        "chaos: {rounds} rounds held, {trials} trials, {attempts} attempts, {controllers} controllers, {total:?}, {:.0} s",
        begun.elapsed().as_secs_f64()
    );
}
