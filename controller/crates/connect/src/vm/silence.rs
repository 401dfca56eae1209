//! What can be learned of a machine that does not answer: what QEMU says of it, and what its kernel was doing.

use std::time::Duration;

use drover_vm::Vm;
use tokio::time::timeout;

use super::watch::Failure;

/// How long QEMU may take for an answer. It answers while the guest hangs, unless it hangs itself.
const ANSWER: Duration = Duration::from_secs(3);
/// How long a kernel may take to say what it was doing when it was interrupted.
const LAST_WORDS: Duration = Duration::from_secs(8);
/// Most bytes of the CPUs' registers.
const REGISTERS: usize = 16 << 10;
/// What QEMU calls a machine whose CPUs run.
const RUNNING: &str = "running";
/// How a kernel names the interrupt that it cannot mask when it ends over it.
const INTERRUPTED: &str = "NMI: Not continuing";

/// What was found out.
#[derive(Debug)]
pub(super) struct Silence {
    /// QEMU's word for the state of the machine; `None` if it does not answer, either.
    status: Option<String>,
    registers: String,
}

impl Silence {
    /// Asks QEMU; then interrupts the kernel, if its CPUs run, so that it says where they were. It does not go on after that.
    pub(super) async fn of(vm: &Vm) -> Self {
        let status = timeout(ANSWER, vm.qmp().status()).await.ok().and_then(Result::ok);
        if status.is_none() {
            return Self { status, registers: String::new() };
        }
        let registers =
            timeout(ANSWER, vm.qmp().registers()).await.ok().and_then(Result::ok).unwrap_or_default();
        if status.as_deref() == Some(RUNNING)
            && matches!(timeout(ANSWER, vm.qmp().inject_nmi()).await, Ok(Ok(())))
        {
            let _ = timeout(LAST_WORDS, vm.ended()).await;
        }
        Self { status, registers }
    }

    /// Whether the kernel reported this because it was interrupted.
    pub(super) fn has_caused(&self, failure: &Failure) -> bool {
        self.status.as_deref() == Some(RUNNING) && failure.first_line.contains(INTERRUPTED)
    }

    /// What QEMU says of the machine, in words.
    pub(super) fn status(&self) -> String {
        match &self.status {
            Some(status) => format!("QEMU says that it is {status}"),
            None => "QEMU does not answer, either".to_owned(),
        }
    }

    /// Where the CPUs were, as text of some lines.
    pub(super) fn registers(&self) -> String {
        let registers = self.registers.replace('\r', "");
        let lines = registers.trim().lines().scan(0, |bytes, line| {
            *bytes += line.len() + 1;
            (*bytes <= REGISTERS).then_some(line)
        });
        let kept: Vec<&str> = lines.collect();
        if kept.is_empty() { String::new() } else { format!("\nCPUs, by QEMU:\n{}\n", kept.join("\n")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_whole_lines_within_the_bound_when_there_are_many_registers() {
        let line = "x".repeat(999);
        let registers = format!("CPU#0\r\n{}", format!("{line}\r\n").repeat(100));
        let text = Silence { status: None, registers }.registers();
        assert!(text.len() <= REGISTERS + 20, "{}", text.len());
        assert!(text.starts_with("\nCPUs, by QEMU:\nCPU#0\nxxx") && text.ends_with("xxx\n"), "{text}");
        assert_eq!(Silence { status: None, registers: String::new() }.registers(), "");
    }
}
