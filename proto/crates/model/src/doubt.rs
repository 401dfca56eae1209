//! Reasons to mark a number as suspect.

use serde::{Deserialize, Serialize};

/// A reason to mark a number as suspect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// What kind of doubt.
    pub kind: DoubtKind,
    /// The figures behind it, for a footnote.
    pub detail: String,
}

macro_rules! kinds {
    ($($(#[$meta:meta])* $variant:ident => $text:literal,)*) => {
        /// Kinds of doubt.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum DoubtKind { $($(#[$meta])* $variant,)* }

        impl DoubtKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word used in tables, stores and exports, and on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

kinds! {
    /// Figures of one output contradict each other.
    Inconsistent => "inconsistent",
    /// The client used its whole CPU (or ran out of its own resources), so the number is the client's, not the server's.
    ClientSaturated => "client-saturated",
    /// The tool completed only part of the work.
    Incomplete => "incomplete",
    /// The kernel dropped or delayed connections (listen queue, retransmissions).
    Network => "network",
    /// Clients did not start together.
    StartSkew => "start-skew",
    /// It passed only when tried again after an `ng`.
    PassedOnRetry => "passed-on-retry",
    /// Output was cut at its limit, so the parser saw part of it.
    OutputCut => "output-cut",
    /// Processes were left over and had to be killed after the task had ended.
    Leftovers => "leftovers",
    /// A server lost some of its processes while it was measured.
    WorkerLost => "worker-lost",
    /// A task left the CPUs that its cell asks for while it ran.
    LeftCpus => "left-cpus",
    /// A listen queue was full: connections were refused or delayed.
    ListenQueue => "listen-queue",
    /// SYNs were sent again: connections were made late.
    SynRetransmits => "syn-retransmits",
    /// The kernel answered with SYN cookies: a queue of half-open connections was full.
    SynCookies => "syn-cookies",
    /// There was no room for more sockets in TIME_WAIT.
    TimeWaitOverflow => "time-wait-overflow",
    /// The kernel's log says that a table of connections, routes or files was full.
    TableFull => "table-full",
    /// Received packets were dropped before the network stack saw them.
    SoftnetDrops => "softnet-drops",
    /// The hypervisor gave CPU time to others.
    Steal => "steal",
    /// A busy CPU changed its clock frequency.
    FrequencyChange => "frequency-change",
    /// A CPU was slowed down because of heat.
    Throttling => "throttling",
    /// Memory was swapped in or out.
    Swap => "swap",
    /// The kernel killed a process for want of memory.
    OomKill => "oom-kill",
    /// Something else than our tasks used the CPUs.
    ForeignLoad => "foreign-load",
    /// A process came near its limit of open files.
    FdLimit => "fd-limit",
    /// The kernel became tainted: a warning, an oops, a module.
    Tainted => "tainted",
    /// The kernel's log warned of something that ought not to happen.
    KernelWarning => "kernel-warning",
    /// The kernel's log says that memory ran out.
    Memory => "memory",
    /// The kernel's log says that the clock that durations are measured with is wrong.
    Clock => "clock",
    /// The kernel's log says that hardware, a device or a file system failed.
    Hardware => "hardware",
}

impl DoubtKind {
    /// The kind with this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }

    /// Whether it is about the machine and what happened on it meanwhile, not about the figures themselves. How much such a doubt
    /// counts is for the matrix to say.
    #[must_use]
    pub fn is_of_machine(self) -> bool {
        match self {
            Self::Inconsistent
            | Self::Incomplete
            | Self::StartSkew
            | Self::PassedOnRetry
            | Self::OutputCut
            | Self::Leftovers
            | Self::WorkerLost
            | Self::LeftCpus => false,
            Self::ClientSaturated
            | Self::Network
            | Self::ListenQueue
            | Self::SynRetransmits
            | Self::SynCookies
            | Self::TimeWaitOverflow
            | Self::TableFull
            | Self::SoftnetDrops
            | Self::Steal
            | Self::FrequencyChange
            | Self::Throttling
            | Self::Swap
            | Self::OomKill
            | Self::ForeignLoad
            | Self::FdLimit
            | Self::Tainted
            | Self::KernelWarning
            | Self::Memory
            | Self::Clock
            | Self::Hardware => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_same_word_everywhere_when_a_kind_is_written() {
        for kind in DoubtKind::ALL {
            assert_eq!(serde_json::to_string(kind).unwrap(), format!("\"{}\"", kind.as_str()));
            assert_eq!(DoubtKind::from_word(kind.as_str()), Some(*kind));
        }
        assert_eq!(DoubtKind::from_word("boredom"), None);
    }
}
