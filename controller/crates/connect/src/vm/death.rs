//! What became of a machine that is over, as a verdict.

use drover_model::{ErrorCause, NgCause, Verdict};
use drover_vm::VmState;

use super::{VmOptions, boot::Running};

/// Most bytes of a console that explain a death.
const TAIL: u64 = 16 << 10;
/// What a guest's first process says when the program that it started has ended.
const AGENT_ENDED: &str = "drover-init: `/bin/drover-agent` ended";

/// The end of a machine that nobody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// What it means for the attempt that ran there.
    pub verdict: Verdict,
    /// What the console said: the report of the kernel, or its last lines.
    pub evidence: String,
}

impl Death {
    /// The death of a machine that has ended, or does not answer.
    pub(super) fn of(running: &Running, options: &VmOptions) -> Self {
        running.watch.finish();
        let tail = running.vm.console().tail(TAIL);
        let on = format!("kernel `{}` on host {}", running.machine.kernel, options.name);
        if let Some(failure) = running.watch.failure() {
            let detail = format!("{on}: {}", failure.first_line);
            return Self {
                verdict: Verdict::Ng { cause: failure.cause, detail },
                evidence: format!("{}\n", failure.excerpt.trim_end()),
            };
        }
        let verdict = verdict_of(&running.vm.state().borrow(), &on, &tail);
        Self { verdict, evidence: tail }
    }
}

/// What it means that a machine ended without a report of its kernel, or did not answer.
fn verdict_of(state: &VmState, on: &str, tail: &str) -> Verdict {
    let Some(end) = state.end else {
        let detail = format!("{on} does not answer any more, and its console says nothing of that");
        return Verdict::Ng { cause: NgCause::Hang, detail };
    };
    if state.panicked {
        let detail = format!("{on} panicked, and its console says nothing of that");
        return Verdict::Ng { cause: NgCause::Panic, detail };
    }
    let rebooted = |detail| Verdict::Ng { cause: NgCause::UnexpectedReboot, detail };
    match &state.shutdown {
        Some(shutdown) if shutdown.by_guest && tail.contains(AGENT_ENDED) => {
            let detail = format!("the agent in {on} ended by itself, and the machine with it");
            Verdict::Error { cause: ErrorCause::AgentLost, detail }
        }
        Some(shutdown) if shutdown.by_guest => {
            rebooted(format!("{on} rebooted or powered off by itself ({})", shutdown.reason))
        }
        _ => rebooted(format!("{on} lost its power: QEMU ended with {end}")),
    }
}

#[cfg(test)]
mod tests {
    use drover_vm::{End, Shutdown};

    use super::*;

    fn cause(state: &VmState, tail: &str) -> &'static str {
        verdict_of(state, "kernel `k` on host h", tail).cause()
    }

    #[test]
    fn expect_the_cause_of_a_machine_that_ended_without_a_report() {
        let ended = VmState { end: Some(End::Signal(9)), ..VmState::default() };
        assert_eq!(cause(&VmState::default(), ""), "hang");
        assert_eq!(cause(&ended, ""), "unexpected-reboot");
        assert_eq!(cause(&VmState { panicked: true, ..ended.clone() }, ""), "panic");
        let shutdown = |reason: &str| Some(Shutdown { by_guest: true, reason: reason.into() });
        let reset = VmState { shutdown: shutdown("guest-reset"), ..ended.clone() };
        assert_eq!(cause(&reset, ""), "unexpected-reboot");
        let off = VmState { shutdown: shutdown("guest-shutdown"), ..ended };
        assert_eq!(cause(&off, "drover-init: `/bin/drover-agent` ended: signal 9\n"), "agent-lost");
    }
}
