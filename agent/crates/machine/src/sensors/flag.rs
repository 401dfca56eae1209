//! Kinds of reasons to doubt what was measured while a machine was watched.

use std::fmt;

/// A kind of reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flag {
    /// A listen queue was full: connections were refused or delayed.
    ListenQueue,
    /// SYNs were sent again: connections were made late.
    SynRetransmits,
    /// The kernel answered with SYN cookies: a queue of half-open connections was full.
    SynCookies,
    /// There was no room for more sockets in TIME_WAIT.
    TimeWaitOverflow,
    /// The hypervisor gave CPU time to others.
    Steal,
    /// A busy CPU changed its clock frequency.
    FrequencyChange,
    /// A CPU was slowed down because of heat.
    Throttling,
    /// Memory was swapped in or out.
    Swap,
    /// The kernel killed a process for want of memory.
    OomKill,
    /// Something else than our tasks used the CPUs.
    ForeignLoad,
    /// Received packets were dropped before the network stack saw them.
    SoftnetDrops,
    /// A process came near its limit of open files.
    FdLimit,
    /// The kernel became tainted: a warning, an oops, a module.
    Tainted,
}

impl Flag {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::ListenQueue,
        Self::SynRetransmits,
        Self::SynCookies,
        Self::TimeWaitOverflow,
        Self::Steal,
        Self::FrequencyChange,
        Self::Throttling,
        Self::Swap,
        Self::OomKill,
        Self::ForeignLoad,
        Self::SoftnetDrops,
        Self::FdLimit,
        Self::Tainted,
    ];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ListenQueue => "listen-queue",
            Self::SynRetransmits => "syn-retransmits",
            Self::SynCookies => "syn-cookies",
            Self::TimeWaitOverflow => "time-wait-overflow",
            Self::Steal => "steal",
            Self::FrequencyChange => "frequency-change",
            Self::Throttling => "throttling",
            Self::Swap => "swap",
            Self::OomKill => "oom-kill",
            Self::ForeignLoad => "foreign-load",
            Self::SoftnetDrops => "softnet-drops",
            Self::FdLimit => "fd-limit",
            Self::Tainted => "tainted",
        }
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
