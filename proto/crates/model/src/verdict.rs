//! Verdicts: what became of an attempt. Outcome and cause are two columns everywhere.

use serde::{Deserialize, Serialize};

use crate::Doubt;

/// What became of an attempt, with its cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Verdict {
    /// Valid.
    Ok,
    /// Completed, but something was seen.
    Suspect {
        /// Why, at least one.
        doubts: Vec<Doubt>,
    },
    /// The system under test failed.
    Ng {
        /// How it failed.
        cause: NgCause,
        /// What was seen, in one or a few lines.
        detail: String,
    },
    /// Our side failed.
    Error {
        /// What failed.
        cause: ErrorCause,
        /// What was seen, in one or a few lines.
        detail: String,
    },
    /// Never measured.
    Missing {
        /// Why not.
        cause: MissingCause,
        /// What was seen, in one or a few lines.
        detail: String,
    },
}

/// The first column of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "documented at `Verdict`")]
pub enum Outcome {
    Ok,
    Suspect,
    Ng,
    Error,
    Missing,
}

impl Outcome {
    /// The word used in stores and exports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Suspect => "suspect",
            Self::Ng => "ng",
            Self::Error => "error",
            Self::Missing => "missing",
        }
    }

    /// Whether something failed: the system under test, or our side.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Ng | Self::Error)
    }

    /// Whether an attempt with this outcome carries numbers that may be shown.
    #[must_use]
    pub fn has_number(self) -> bool {
        matches!(self, Self::Ok | Self::Suspect)
    }
}

macro_rules! causes {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident => $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$vmeta])* $variant,)* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word used in tables, stores and exports.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

causes! {
    /// How the system under test failed.
    NgCause {
        /// A CPU stopped making progress (soft or hard lockup, RCU stall).
        Lockup => "lockup",
        /// The kernel panicked.
        Panic => "panic",
        /// The kernel reported a bug and went on.
        Oops => "oops",
        /// No progress and no message.
        Hang => "hang",
        /// A server ended, or was killed by a signal, before it was asked to stop.
        Crash => "crash",
        /// `boot_id` changed without a recorded intent.
        UnexpectedReboot => "unexpected-reboot",
        /// A server did not become ready in time.
        NotReady => "not-ready",
        /// A task was still running at its deadline.
        Timeout => "timeout",
        /// A `must` of a metric did not hold.
        CheckFailed => "check-failed",
    }
}

causes! {
    /// What failed on our side.
    ErrorCause {
        /// A command ended with an exit status that the matrix does not expect.
        Script => "script",
        /// A command was not found or could not be run.
        Command => "command",
        /// The parser did not find a metric in the output.
        Parse => "parse",
        /// A port that a role needs was taken.
        PortTaken => "port-taken",
        /// No space, or the file system is read-only.
        DiskFull => "disk-full",
        /// The agent ended, or its connection was lost, while the attempt ran.
        AgentLost => "agent-lost",
        /// The host disappeared.
        LostHost => "lost-host",
        /// A service is ready on its own host, and the host of another role cannot reach it.
        Unreachable => "unreachable",
        /// Tasks that were to start together started too far apart.
        StartSkew => "start-skew",
        /// Something the agent changed could not be put back.
        Restore => "restore",
        /// A template could not be rendered for this cell.
        Template => "template",
        /// A fault of the agent or the controller.
        Internal => "internal",
    }
}

causes! {
    /// Why an attempt or trial was never measured.
    MissingCause {
        /// Excluded by the matrix.
        Excluded => "excluded",
        /// No host could be leased.
        HostUnavailable => "host-unavailable",
        /// The kernel that the cell asks for does not run.
        WrongKernel => "wrong-kernel",
        /// The CPUs that the cell asks for are not there.
        WrongCpus => "wrong-cpus",
        /// The budget of time or retries was spent.
        BudgetSpent => "budget-spent",
        /// Interrupted by the user.
        Cancelled => "cancelled",
        /// A command that the matrix requires is not installed.
        Requirement => "requirement",
        /// Planned, and not reached yet.
        NotRun => "not-run",
    }
}

impl Verdict {
    /// The first column.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Ok => Outcome::Ok,
            Self::Suspect { .. } => Outcome::Suspect,
            Self::Ng { .. } => Outcome::Ng,
            Self::Error { .. } => Outcome::Error,
            Self::Missing { .. } => Outcome::Missing,
        }
    }

    /// The second column; empty for `ok`, the first doubt for `suspect`.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match self {
            Self::Ok => "",
            Self::Suspect { doubts } => doubts.first().map_or("", |doubt| doubt.kind.as_str()),
            Self::Ng { cause, .. } => cause.as_str(),
            Self::Error { cause, .. } => cause.as_str(),
            Self::Missing { cause, .. } => cause.as_str(),
        }
    }

    /// What was seen; the doubts of a `suspect`, joined with `; `.
    #[must_use]
    pub fn detail(&self) -> String {
        match self {
            Self::Ok => String::new(),
            Self::Suspect { doubts } => {
                doubts.iter().map(|doubt| doubt.detail.as_str()).collect::<Vec<_>>().join("; ")
            }
            Self::Ng { detail, .. } | Self::Error { detail, .. } | Self::Missing { detail, .. } => {
                detail.clone()
            }
        }
    }

    /// Whether the cause lies in our infrastructure, so that trying again is fair.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        matches!(
            self,
            Self::Error {
                cause: ErrorCause::PortTaken
                    | ErrorCause::AgentLost
                    | ErrorCause::LostHost
                    | ErrorCause::Unreachable
                    | ErrorCause::StartSkew
                    | ErrorCause::Internal,
                ..
            }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_same_word_in_serde_and_as_str() {
        for cause in [NgCause::UnexpectedReboot, NgCause::NotReady, NgCause::CheckFailed] {
            assert_eq!(serde_json::to_string(&cause).unwrap(), format!("\"{}\"", cause.as_str()));
        }
        for cause in [ErrorCause::PortTaken, ErrorCause::DiskFull, ErrorCause::AgentLost] {
            assert_eq!(serde_json::to_string(&cause).unwrap(), format!("\"{}\"", cause.as_str()));
        }
        for cause in [MissingCause::HostUnavailable, MissingCause::WrongCpus, MissingCause::NotRun] {
            assert_eq!(serde_json::to_string(&cause).unwrap(), format!("\"{}\"", cause.as_str()));
        }
    }
}
