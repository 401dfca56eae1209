//! How a host is at the moment, for a look before a run.

/// What a host finds out about itself when it is asked. Facts that stay as they are until the next boot are in
/// [`HostFacts`](crate::HostFacts).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Processes that ran or waited for a CPU in the last minute, on average, in thousandths.
    pub load_milli: Option<u64>,
    /// Memory that is swapped out, in bytes.
    pub swap_used_bytes: Option<u64>,
    /// Whether CPUs may clock higher than their nominal frequency while heat and load allow it.
    pub turbo: Option<bool>,
    /// Processes and threads that the agent's user may have; `None` for no limit of its own.
    pub processes_limit: Option<u64>,
    /// Processes of tasks whose agent is gone.
    pub leftovers: Vec<Leftover>,
    /// Of the ports that were asked for, those that somebody has.
    pub taken_ports: Vec<TakenPort>,
}

/// A process of a task whose agent is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Its process id.
    pub pid: u32,
    /// Its name.
    pub command: String,
}

/// A TCP port that is not free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenPort {
    /// Which port.
    pub port: u16,
    /// By whom, for people.
    pub why: String,
}
