//! The machines under test: whether a host is the one that a cell asks for, how it is made that, what it says of itself before and
//! after a trial, and how it is made again what it was before the run.
//!
//! The parts: `look` (the proof), `vms` (virtual machines), `real` (what is to be done to other hosts; pure), `boots` (doing it),
//! `ledger` (what was done, on disk).

mod boots;
mod ledger;
mod look;
mod real;
#[cfg(test)]
mod real_tests;
mod vms;

use std::collections::BTreeMap;

use drover_model::{Name, Verdict};

pub use boots::Booting;
pub use ledger::{Asked, Ledger, Pen, Wanted, boot_policies};
pub use look::{Look, Verified, verdict_of};
pub use real::Change;
pub use vms::{Making, wish_for};

/// What the driver knows of the machines of a run.
pub struct Machines {
    /// Virtual machines that are being made, and for what.
    pub making: BTreeMap<Name, Making>,
    /// What was done to other hosts.
    pub ledger: Ledger,
    /// Those that were told to boot for an attempt.
    pub booting: BTreeMap<Name, Booting>,
    /// What cannot be made of them, as was tried.
    pub refused: BTreeMap<(Name, Change), Verdict>,
    /// Boots in vain whose cause may pass.
    pub failures: BTreeMap<(Name, Change), u32>,
}

impl Machines {
    /// Nothing was done by this controller yet.
    pub fn new(ledger: Ledger) -> Self {
        Self {
            making: BTreeMap::new(),
            ledger,
            booting: BTreeMap::new(),
            refused: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }
}

/// `1 CPU`, `2 CPUs`.
fn count_of(cpus: u32) -> String {
    if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") }
}
