//! Telling a host to boot, or how many CPUs to keep.

use std::time::Duration;

use drover_matrix::{Boot, BootMethod, CpusBy};
use drover_model::{AttemptId, ErrorCause, HostFacts, MissingCause, NONCE_KEY, RunId, Verdict};
use drover_proto::{Refusal, v1};
use tokio::time::timeout;
use tonic::{Code, Status};

use super::{InternalEvent, Link, chain, lost};
use crate::driver::machine::{Asked, Pen, Wanted};

/// Longest time to tell the boot loader: a kernel may have to be read, or a command to end.
const ARM_LIMIT: Duration = Duration::from_secs(300);
/// Longest time until a host says that it goes down: it writes its files to its disks first.
const REBOOT_LIMIT: Duration = Duration::from_secs(120);
/// Longest time to take CPUs offline.
const CPUS_LIMIT: Duration = Duration::from_secs(300);
/// Time without renewal after which another run may take the host.
const LEASE_TTL_MS: u64 = 60_000;

/// What a host is to boot.
pub struct BootOrder {
    /// Of the answer.
    pub generation: u64,
    pub run: RunId,
    pub holder: String,
    /// How it boots.
    pub boot: Boot,
    /// The limit of its CPUs, and how that is said.
    pub cpus: Option<(u32, CpusBy)>,
    /// As it is written down, without its nonce.
    pub asked: Asked,
    pub pen: Pen,
}

/// What became of the order.
pub enum BootOutcome {
    /// The host goes down, or may: it was told to and did not answer.
    Rebooting(Asked),
    /// It does not.
    Refused {
        /// What was written down already.
        asked: Option<Asked>,
        /// What was wanted.
        wanted: Wanted,
        /// Why not.
        verdict: Verdict,
    },
    /// The connection was gone before it was told.
    Lost(String),
}

/// A step that did not succeed.
enum Failed {
    Refused(Option<Asked>, Verdict),
    Lost(String),
}

impl Link {
    /// Has the host boot, and lets go of it.
    pub fn boot(self, order: BootOrder) {
        tokio::spawn(async move {
            let (events, host, generation) = (self.events.clone(), self.host.clone(), order.generation);
            let (attempt, wanted) = (order.asked.attempt, order.asked.wanted.clone());
            let outcome = match self.carry_out(order).await {
                Ok(asked) => BootOutcome::Rebooting(asked),
                Err(Failed::Refused(asked, verdict)) => {
                    // What is armed goes with the lease.
                    let mut client = self.client.clone();
                    let _ = timeout(super::PATIENCE, client.release_lease(self.reference())).await;
                    BootOutcome::Refused { asked, wanted, verdict }
                }
                Err(Failed::Lost(why)) => BootOutcome::Lost(why),
            };
            drop(self);
            let _ = events.send(InternalEvent::ToldToBoot { host, generation, attempt, outcome });
        });
    }

    async fn carry_out(&self, order: BootOrder) -> Result<Asked, Failed> {
        let BootOrder { run, holder, boot, cpus, mut asked, pen, .. } = order;
        let mut nonce = String::new();
        if let Some(label) = &asked.wanted.kernel {
            let kernel =
                boot.kernel(label).ok_or_else(|| refused(format!("kernel `{label}` is not known")))?;
            nonce = uuid::Uuid::now_v7().simple().to_string();
            let words: Vec<String> = cpus.iter().filter_map(word).collect();
            let mut all = vec![format!("{NONCE_KEY}={nonce}")];
            all.extend(words.iter().cloned());
            let request = v1::ArmKernelRequest {
                lease: Some(self.reference()),
                boot: Some(boot.once(kernel, &all).into()),
                nonce: nonce.clone(),
                words,
            };
            let mut client = self.client.clone();
            let armed = timeout(ARM_LIMIT, client.arm_kernel(request)).await;
            let armed = armed.map_err(|_| Failed::Lost(silent("armed a kernel", ARM_LIMIT)))?;
            let takes_words = armed.map_err(|status| failed(&self.host, &status))?.into_inner().words_taken;
            if !takes_words && cpus.is_some() {
                return Err(no_words(self.host.as_ref(), &boot.by));
            }
            asked.nonce = takes_words.then(|| nonce.clone());
        }
        let (host, kept) = (self.host.clone(), asked.clone());
        let (first, second) = (pen.clone(), pen);
        let written = tokio::task::spawn_blocking(move || first.boots(&host, kept)).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            let detail = format!("the intent to boot {} cannot be written down: {error}", self.host);
            let verdict = Verdict::Error { cause: ErrorCause::Internal, detail };
            return Err(Failed::Refused(None, verdict));
        }
        let mut told = self.reboot(self.reference(), &nonce, &boot.reboot).await;
        if nonce.is_empty() && told.as_ref().is_err_and(is_no) {
            // Something may be armed that a former controller did not come to boot. It goes with the lease.
            told = match self.take_anew(run, holder).await {
                Ok(lease) => self.reboot(lease, &nonce, &boot.reboot).await,
                Err(status) => Err(status),
            };
        }
        match told {
            Err(status) if is_no(&status) => {
                let host = self.host.clone();
                let _ = tokio::task::spawn_blocking(move || second.stays(&host)).await;
                let Failed::Refused(_, verdict) = failed(&self.host, &status) else {
                    return Err(Failed::Lost(status.message().to_owned()));
                };
                Err(Failed::Refused(Some(asked), verdict))
            }
            // It may have heard of it, and be gone before its answer.
            Ok(()) | Err(_) => Ok(asked),
        }
    }

    async fn reboot(&self, lease: v1::LeaseRef, nonce: &str, command: &[String]) -> Result<(), Status> {
        let request =
            v1::RebootRequest { lease: Some(lease), nonce: nonce.to_owned(), command: command.to_vec() };
        let mut client = self.client.clone();
        match timeout(REBOOT_LIMIT, client.reboot(request)).await {
            Ok(reply) => reply.map(drop),
            Err(_) => Err(Status::unavailable("no answer")),
        }
    }

    /// Gives the host back and takes it again.
    async fn take_anew(&self, run: RunId, holder: String) -> Result<v1::LeaseRef, Status> {
        let mut client = self.client.clone();
        client.release_lease(self.reference()).await?;
        let request = v1::AcquireLeaseRequest {
            run: run.to_string(),
            holder,
            ttl_ms: LEASE_TTL_MS,
            observe_interval_ms: 0,
        };
        let lease = client.acquire_lease(request).await?.into_inner();
        Ok(v1::LeaseRef { run: lease.run, epoch: lease.epoch })
    }

    /// Has the host keep so many CPUs online.
    pub fn set_cpus(&self, attempt: AttemptId, count: u32) {
        let mut client = self.client.clone();
        let (host, generation, lease) = (self.host.clone(), self.generation, self.reference());
        self.call(async move {
            let request = v1::SetCpusRequest { lease: Some(lease), count };
            let reply = match timeout(CPUS_LIMIT, client.set_cpus(request)).await {
                Ok(reply) => reply,
                Err(_) => {
                    let why = silent("changed its CPUs", CPUS_LIMIT);
                    return InternalEvent::Lost { host, generation, why };
                }
            };
            let facts = match reply {
                Ok(reply) => match reply.into_inner().facts.map(HostFacts::try_from) {
                    Some(Ok(facts)) => Ok(Box::new(facts)),
                    Some(Err(error)) => {
                        return InternalEvent::Lost { host, generation, why: chain(&error) };
                    }
                    None => Err(Verdict::Missing {
                        cause: MissingCause::WrongCpus,
                        detail: format!("the agent of {host} does not say which CPUs are online"),
                    }),
                },
                Err(status) if is_no(&status) => Err(Verdict::Missing {
                    cause: MissingCause::WrongCpus,
                    detail: format!("the agent of {host} says: {}", status.message()),
                }),
                Err(status) => return lost(host, generation, &status),
            };
            InternalEvent::CpusSet { host, attempt, count, facts }
        });
    }
}

/// `nr_cpus=2`.
fn word((count, by): &(u32, CpusBy)) -> Option<String> {
    match by {
        CpusBy::Boot(word) => Some(format!("{}={count}", word.as_str())),
        CpusBy::Affinity | CpusBy::Hotplug => None,
    }
}

/// Whether the agent was asked, and said no. Anything else means that the connection is of no use any more.
fn is_no(status: &Status) -> bool {
    match Refusal::of(status) {
        Some(Refusal::StaleLease | Refusal::Ending) => false,
        Some(_) => true,
        None => matches!(
            status.code(),
            Code::FailedPrecondition
                | Code::InvalidArgument
                | Code::Unimplemented
                | Code::PermissionDenied
                | Code::NotFound
                | Code::ResourceExhausted
        ),
    }
}

fn failed(host: &drover_model::Name, status: &Status) -> Failed {
    if is_no(status) {
        refused(format!("the agent of {host} says: {}", status.message()))
    } else {
        Failed::Lost(format!("the connection to the agent broke: {}", status.message()))
    }
}

fn refused(detail: String) -> Failed {
    Failed::Refused(None, Verdict::Missing { cause: MissingCause::WrongKernel, detail })
}

fn no_words(host: &str, by: &BootMethod) -> Failed {
    let remedy = match by {
        BootMethod::Grub { .. } => {
            "have its entries end in `${drover}`: put that into GRUB_CMDLINE_LINUX, and run update-grub"
        }
        BootMethod::Command(_) => "hand \"{{ words }}\" to the `command` of its `boot`",
        _ => "use `cpus: { by: hotplug }`, or another way to boot it",
    };
    let detail = format!(
        "host {host} gets its CPUs by a word on the kernel's command line, and its boot loader ({}) takes none; {remedy}",
        by.as_str()
    );
    Failed::Refused(None, Verdict::Missing { cause: MissingCause::WrongCpus, detail })
}

fn silent(what: &str, limit: Duration) -> String {
    format!("its agent has not {what} within {} s", limit.as_secs())
}

#[cfg(test)]
mod tests {
    use drover_matrix::CpuWord;

    use super::*;

    fn verdict(failed: Failed) -> Verdict {
        match failed {
            Failed::Refused(None, verdict) => verdict,
            Failed::Refused(Some(_), _) | Failed::Lost(_) => {
                panic!("it is refused before anything is written")
            }
        }
    }

    #[test]
    fn expect_a_remedy_when_the_boot_loader_takes_no_words() {
        for (by, remedy) in [
            (BootMethod::Grub { folder: None }, "GRUB_CMDLINE_LINUX"),
            (BootMethod::Command(vec!["next".to_owned()]), "{{ words }}"),
            (BootMethod::EfiBootNext, "by: hotplug"),
        ] {
            let verdict = verdict(no_words("big", &by));
            assert_eq!(verdict.cause(), "wrong-cpus");
            assert!(verdict.detail().contains(remedy), "{}", verdict.detail());
        }
        assert_eq!(word(&(2, CpusBy::Boot(CpuWord::MaxCpus))).as_deref(), Some("maxcpus=2"));
        assert_eq!(word(&(2, CpusBy::Hotplug)), None);
    }

    #[test]
    fn expect_a_refusal_told_from_a_connection_that_broke() {
        let host = "big".parse().unwrap();
        for no in [
            Status::failed_precondition("no such entry"),
            Status::unimplemented("this agent does not arm kernels"),
            Refusal::TasksRunning.status("a task runs"),
        ] {
            let verdict = verdict(failed(&host, &no));
            assert_eq!(verdict.cause(), "wrong-kernel");
            assert_eq!(verdict.detail(), format!("the agent of big says: {}", no.message()));
        }
        for lost in [
            Status::unavailable("broken pipe"),
            Status::unknown("h2"),
            Refusal::StaleLease.status("another controller"),
        ] {
            assert!(matches!(failed(&host, &lost), Failed::Lost(_)), "{lost}");
        }
    }
}
