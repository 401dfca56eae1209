//! Whether the machine found is the one asked for. Asked before a trial, so that no number of another kernel counts, and
//! again after it.

use std::collections::BTreeSet;

use drover_model::MissingCause;
use serde::{Deserialize, Serialize};

use super::Found;

/// What a cell asks for; what is `None` is not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// `uname -r`.
    pub release: Option<String>,
    /// `uname -v`.
    pub version: Option<String>,
    /// The kernel's GNU build id, in hexadecimal digits.
    pub build_id: Option<String>,
    /// The nonce that was put on the kernel's command line.
    pub nonce: Option<String>,
    /// The boot id that was found before.
    pub boot_id: Option<String>,
    /// How many CPUs are online.
    pub cpu_count: Option<usize>,
    /// Which CPUs are online.
    pub cpus: Option<BTreeSet<u32>>,
    /// Whether cores run more than one thread at once. A kernel that says nothing of it runs one: so do all on one CPU.
    pub smt: Option<bool>,
    /// How many NUMA nodes there are. A kernel that knows none has one.
    pub numa_nodes: Option<usize>,
}

/// How the machine found differs from the one asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Another kernel runs, or another boot of it.
    #[error("wrong-kernel: {what} is `{found}`, asked for was `{expected}`")]
    Kernel {
        /// What differs.
        what: &'static str,
        /// As asked for.
        expected: String,
        /// As found.
        found: String,
    },
    /// Other CPUs are there.
    #[error("wrong-cpus: {what} is {found}, asked for was {expected}")]
    Cpus {
        /// What differs.
        what: &'static str,
        /// As asked for.
        expected: String,
        /// As found.
        found: String,
    },
    /// The machine has booted again.
    #[error("unexpected-reboot: the boot id is `{found}`, before it was `{expected}`")]
    Rebooted {
        /// As before.
        expected: String,
        /// As found.
        found: String,
    },
}

impl Mismatch {
    /// The cause of a `missing` verdict; `None` for a reboot, which is a failure of the system under test.
    #[must_use]
    pub fn missing_cause(&self) -> Option<MissingCause> {
        match self {
            Self::Kernel { .. } => Some(MissingCause::WrongKernel),
            Self::Cpus { .. } => Some(MissingCause::WrongCpus),
            Self::Rebooted { .. } => None,
        }
    }
}

impl Expected {
    /// Compares; the kernel first, because another kernel may see other CPUs.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self, found: &Found) -> Result<(), Mismatch> {
        let texts = [
            ("release", &self.release, Some(&found.release)),
            ("version", &self.version, Some(&found.version)),
            ("build id", &self.build_id, found.build_id.as_ref()),
            ("nonce on the command line", &self.nonce, found.nonce.as_ref()),
        ];
        for (what, expected, found) in texts {
            if let Some(expected) = expected
                && found != Some(expected)
            {
                let found = found.map_or("not there", String::as_str).to_owned();
                return Err(Mismatch::Kernel { what, expected: expected.clone(), found });
            }
        }
        if let Some(expected) = &self.boot_id
            && *expected != found.boot_id
        {
            return Err(Mismatch::Rebooted { expected: expected.clone(), found: found.boot_id.clone() });
        }
        cpus("the number of CPUs online", self.cpu_count, found.cpus.len(), |count| count.to_string())?;
        cpus("the set of CPUs online", self.cpus.as_ref(), &found.cpus, list)?;
        let smt = found.smt.unwrap_or(false);
        cpus("SMT", self.smt, smt, |smt| if smt { "on" } else { "off" }.to_owned())?;
        let nodes = found.numa_nodes.unwrap_or(1);
        cpus("the number of NUMA nodes", self.numa_nodes, nodes, |count| count.to_string())
    }
}

fn cpus<T: PartialEq>(
    what: &'static str,
    expected: Option<T>,
    found: T,
    text: impl Fn(T) -> String,
) -> Result<(), Mismatch> {
    match expected {
        Some(expected) if found != expected => {
            Err(Mismatch::Cpus { what, expected: text(expected), found: text(found) })
        }
        _ => Ok(()),
    }
}

fn list(cpus: &BTreeSet<u32>) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use drover_model::MissingCause;

    use super::{Expected, Found, Mismatch};

    fn found() -> Found {
        Found {
            release: "6.1.0".into(),
            version: "#1 SMP".into(),
            build_id: Some("ab".into()),
            cmdline: String::new(),
            nonce: Some("n".into()),
            boot_id: "b".into(),
            cpus: [0, 1].into(),
            smt: Some(false),
            numa_nodes: None,
        }
    }

    fn mismatch(expected: Expected) -> Mismatch {
        expected.compare(&found()).unwrap_err()
    }

    #[test]
    fn expect_no_mismatch_when_all_is_as_asked_or_nothing_was_asked() {
        Expected::default().compare(&found()).unwrap();
        let expected = Expected {
            release: Some("6.1.0".into()),
            version: Some("#1 SMP".into()),
            build_id: Some("ab".into()),
            nonce: Some("n".into()),
            boot_id: Some("b".into()),
            cpu_count: Some(2),
            cpus: Some([0, 1].into()),
            smt: Some(false),
            numa_nodes: Some(1),
        };
        expected.compare(&found()).unwrap();
        expected.compare(&Found { smt: None, ..found() }).unwrap();
    }

    #[test]
    fn expect_wrong_kernel_when_any_sign_of_the_kernel_differs() {
        let wrong = [
            Expected { release: Some("6.12".into()), ..Expected::default() },
            Expected { version: Some("#2 SMP".into()), ..Expected::default() },
            Expected { build_id: Some("cd".into()), ..Expected::default() },
            Expected { nonce: Some("m".into()), ..Expected::default() },
        ];
        for expected in wrong {
            assert_eq!(mismatch(expected).missing_cause(), Some(MissingCause::WrongKernel));
        }
        let text = mismatch(Expected { release: Some("6.12".into()), ..Expected::default() }).to_string();
        assert_eq!(text, "wrong-kernel: release is `6.1.0`, asked for was `6.12`");
    }

    #[test]
    fn expect_wrong_cpus_when_count_set_smt_or_nodes_differ() {
        let wrong = [
            Expected { cpu_count: Some(4), ..Expected::default() },
            Expected { cpus: Some([0, 2].into()), ..Expected::default() },
            Expected { smt: Some(true), ..Expected::default() },
            Expected { numa_nodes: Some(2), ..Expected::default() },
        ];
        for expected in wrong {
            assert_eq!(mismatch(expected).missing_cause(), Some(MissingCause::WrongCpus));
        }
        let text = mismatch(Expected { cpus: Some([0, 2].into()), ..Expected::default() }).to_string();
        assert_eq!(text, "wrong-cpus: the set of CPUs online is 0,1, asked for was 0,2");
    }

    #[test]
    fn expect_a_reboot_told_from_a_wrong_kernel_when_only_the_boot_id_differs() {
        let mismatch = mismatch(Expected { boot_id: Some("a".into()), ..Expected::default() });
        assert_eq!(mismatch.missing_cause(), None);
        assert!(mismatch.to_string().starts_with("unexpected-reboot"));
    }
}
