//! What became of a machine that is over, as a verdict.

use drover_machine::console::Class;
use drover_model::{ErrorCause, NgCause, Verdict};
use drover_vm::VmState;

use super::{VmOptions, boot::Running, silence::Silence, watch::Failure};

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
    /// The death of a machine that has ended, has booted again, or does not answer. What does not answer is asked for its last
    /// words, which takes some seconds.
    pub(super) async fn of(running: &Running, options: &VmOptions) -> Self {
        running.watch.finish();
        let on = format!("kernel `{}` on host {}", running.machine.kernel, options.name);
        let state = running.vm.state().borrow().clone();
        let failure = running.watch.failure().filter(|failure| !is_own_request(failure, &state));
        if let Some(failure) = failure {
            return Self::reported(&failure, &on);
        }
        if let Some(detail) = rebooted(&state, running.expected.boot_id.as_deref(), &on) {
            let verdict = Verdict::Ng { cause: NgCause::UnexpectedReboot, detail };
            return Self { verdict, evidence: running.vm.console().tail(TAIL) };
        }
        let tail = running.vm.console().tail(TAIL);
        match verdict_of(&state, &on, &tail) {
            Some(verdict) => Self { verdict, evidence: tail },
            None => Self::silent(running, &on).await,
        }
    }

    /// By what the kernel has reported.
    fn reported(failure: &Failure, on: &str) -> Self {
        let detail = format!("{on}: {}", failure.first_line);
        Self {
            verdict: Verdict::Ng { cause: failure.cause, detail },
            evidence: format!("{}\n", failure.excerpt.trim_end()),
        }
    }

    /// The machine is there and does not answer.
    async fn silent(running: &Running, on: &str) -> Self {
        let silence = Silence::of(&running.vm).await;
        running.watch.finish();
        // Whatever it reports by itself meanwhile says more.
        if let Some(failure) = running.watch.failure().filter(|failure| !silence.has_caused(failure)) {
            return Self::reported(&failure, on);
        }
        let detail = format!(
            "{on} does not answer any more, and its console says nothing of that; {}",
            silence.status()
        );
        let evidence = format!("{}\n{}", running.vm.console().tail(TAIL).trim_end(), silence.registers());
        Self { verdict: Verdict::Ng { cause: NgCause::Hang, detail }, evidence }
    }
}

/// Whether all that the kernel has reported is that somebody in it asked for the reset that came.
fn is_own_request(failure: &Failure, state: &VmState) -> bool {
    let is_reset = state.resets > 0 || state.shutdown.as_ref().is_some_and(|shutdown| shutdown.by_guest);
    failure.class == Class::Sysrq && is_reset && !state.panicked
}

/// That another boot than the one with `boot_id` is in the machine, or will be.
fn rebooted(state: &VmState, boot_id: Option<&str>, on: &str) -> Option<String> {
    match &state.boot_id {
        _ if state.end.is_some() => None,
        Some(now) if Some(now.as_str()) != boot_id => {
            let before = boot_id.unwrap_or("unknown");
            Some(format!("{on} rebooted by itself: the boot id was `{before}`, and is `{now}`"))
        }
        _ => (state.resets > 0).then(|| format!("{on} rebooted by itself")),
    }
}

/// What it means that a machine ended without a report of its kernel; `None` if it has not ended.
fn verdict_of(state: &VmState, on: &str, tail: &str) -> Option<Verdict> {
    let end = state.end?;
    if state.panicked {
        let detail = format!("{on} panicked, and its console says nothing of that");
        return Some(Verdict::Ng { cause: NgCause::Panic, detail });
    }
    let rebooted = |detail| Verdict::Ng { cause: NgCause::UnexpectedReboot, detail };
    Some(match &state.shutdown {
        Some(shutdown) if shutdown.by_guest && tail.contains(AGENT_ENDED) => {
            let detail = format!("the agent in {on} ended by itself, and the machine with it");
            Verdict::Error { cause: ErrorCause::AgentLost, detail }
        }
        Some(shutdown) if shutdown.by_guest => {
            rebooted(format!("{on} rebooted or powered off by itself ({})", shutdown.reason))
        }
        _ => rebooted(format!("{on} lost its power: QEMU ended with {end}")),
    })
}

#[cfg(test)]
mod tests {
    use drover_vm::{End, Shutdown};

    use super::*;

    const ON: &str = "kernel `k` on host h";

    fn cause(state: &VmState, tail: &str) -> Option<&'static str> {
        verdict_of(state, ON, tail).map(|verdict| verdict.cause())
    }

    fn ended() -> VmState {
        VmState { end: Some(End::Signal(9)), ..VmState::default() }
    }

    fn shutdown(reason: &str) -> Option<Shutdown> {
        Some(Shutdown { by_guest: true, reason: reason.into() })
    }

    #[test]
    fn expect_the_cause_of_a_machine_that_ended_without_a_report() {
        assert_eq!(cause(&VmState::default(), ""), None);
        assert_eq!(cause(&ended(), ""), Some("unexpected-reboot"));
        assert_eq!(cause(&VmState { panicked: true, ..ended() }, ""), Some("panic"));
        let reset = VmState { shutdown: shutdown("guest-reset"), ..ended() };
        assert_eq!(cause(&reset, ""), Some("unexpected-reboot"));
        let off = VmState { shutdown: shutdown("guest-shutdown"), ..ended() };
        assert_eq!(cause(&off, "drover-init: `/bin/drover-agent` ended: signal 9\n"), Some("agent-lost"));
    }

    #[test]
    fn expect_a_reboot_told_when_the_boot_id_changes_or_the_machine_was_reset() {
        let booted = |boot_id: &str| VmState { boot_id: Some(boot_id.into()), ..VmState::default() };
        assert_eq!(rebooted(&booted("a"), Some("a"), ON), None);
        let changed = rebooted(&booted("b"), Some("a"), ON).unwrap();
        assert!(changed.contains("the boot id was `a`, and is `b`"), "{changed}");
        let boots = VmState { resets: 1, ..VmState::default() };
        assert!(rebooted(&boots, Some("a"), ON).is_some());
        assert_eq!(rebooted(&VmState::default(), Some("a"), ON), None);
    }

    #[test]
    fn expect_a_request_of_the_guest_to_explain_nothing_but_its_reset() {
        let failure = |class| Failure {
            class,
            cause: NgCause::Hang,
            first_line: String::new(),
            excerpt: String::new(),
        };
        let reset = VmState { shutdown: shutdown("guest-reset"), ..ended() };
        assert!(is_own_request(&failure(Class::Sysrq), &reset));
        assert!(!is_own_request(&failure(Class::SoftLockup), &reset));
        assert!(!is_own_request(&failure(Class::Sysrq), &VmState { panicked: true, ..reset }));
        assert!(!is_own_request(&failure(Class::Sysrq), &ended()));
    }
}
