//! What was online before anything was changed, on disk. Written whole or not at all, and synced before the first change.

use std::collections::BTreeSet;

use drover_machine::hotplug::{Cpu, Cpusets};
use serde::{Deserialize, Serialize};

use crate::journal::Kept;

/// What was there before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Before {
    /// Of the boot in which it was so.
    pub boot_id: String,
    /// The online CPUs.
    pub cpus: Vec<Cpu>,
    /// Cpusets that lose CPUs when those go offline.
    pub cpusets: Cpusets,
}

impl Before {
    /// The numbers of the CPUs.
    pub fn online(&self) -> BTreeSet<u32> {
        self.cpus.iter().map(|cpu| cpu.number).collect()
    }
}

impl Kept for Before {
    const SAYS: &'static str = "what CPUs are to be put back";
    const REMEDY: &'static str = "bring them online by hand, or reboot";
}
