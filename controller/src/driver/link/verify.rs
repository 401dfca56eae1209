//! What a host under test says of itself after an attempt.

use std::path::PathBuf;

use drover_connect::{Now, VmHost};
use drover_model::{AttemptId, HostFacts, Verdict};
use drover_proto::{Hello, PROTOCOL, v1};
use drover_vm::{Expected, Found};
use serde::Serialize;

use super::{InternalEvent, Link, chain, lost};
use crate::driver::machine::verdict_of;

/// Who is asked.
pub enum Subject {
    /// A virtual machine.
    Vm(VmHost),
    /// Any other host.
    Host {
        /// What the cell asks for.
        kernel: Option<String>,
    },
}

/// The machine of an attempt, as it is kept beside its outputs.
#[derive(Serialize)]
struct Record<'a> {
    /// Label of the kernel; none if the cell asks for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<&'a str>,
    /// What runs the instructions of a virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    accelerator: Option<String>,
    found: &'a Found,
}

impl Link {
    /// Asks the machine again what it is. Keeps its answer as `machine.HOST.json` in `folder`. Where its kernel has reported
    /// a failure there is no answer: the machine is being ended.
    pub fn verify(&self, attempt: AttemptId, subject: Subject, expected: Expected, folder: PathBuf) {
        let mut client = self.client.clone();
        let (host, generation, events) = (self.host.clone(), self.generation, self.events.clone());
        let now = match &subject {
            Subject::Vm(vm) => vm.now(),
            Subject::Host { .. } => None,
        };
        tokio::spawn(async move {
            let request = v1::HelloRequest {
                protocol: PROTOCOL,
                controller_version: env!("CARGO_PKG_VERSION").to_owned(),
            };
            let event = match client.hello(request).await {
                Err(status) => lost(host.clone(), generation, &status),
                Ok(reply) => match Hello::try_from(reply.into_inner()) {
                    Err(error) => InternalEvent::Lost { host: host.clone(), generation, why: chain(&error) },
                    Ok(hello) => {
                        let facts = hello.facts;
                        let problem = compare(&expected, &facts);
                        match &subject {
                            Subject::Vm(vm) => {
                                if vm.has_failed().await {
                                    return;
                                }
                                if problem.is_some() {
                                    vm.spoil();
                                }
                                if let Some(now) = now {
                                    keep(&record_of(&now, &Found::of_facts(&facts)), folder, host.as_ref())
                                        .await;
                                }
                            }
                            Subject::Host { kernel } => {
                                let found = Found::of_facts(&facts);
                                let record =
                                    Record { kernel: kernel.as_deref(), accelerator: None, found: &found };
                                keep(&record, folder, host.as_ref()).await;
                            }
                        }
                        let facts = Box::new(facts);
                        InternalEvent::Verified { attempt, host: host.clone(), facts, problem }
                    }
                },
            };
            let _ = events.send(InternalEvent::Answer { host, generation, event: Box::new(event) });
        });
    }
}

fn compare(expected: &Expected, facts: &HostFacts) -> Option<Verdict> {
    expected.compare(&Found::of_facts(facts)).err().map(|mismatch| verdict_of(&mismatch, "after the trial"))
}

fn record_of<'a>(now: &'a Now, found: &'a Found) -> Record<'a> {
    Record { kernel: Some(&now.machine.kernel), accelerator: Some(now.accelerator.to_string()), found }
}

async fn keep(record: &Record<'_>, folder: PathBuf, host: &str) {
    let Ok(text) = serde_json::to_vec_pretty(record) else { return };
    let file = folder.join(format!("machine.{host}.json"));
    let kept = tokio::task::spawn_blocking(move || {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(file, text)
    });
    if let Err(error) = kept.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
        tracing::warn!("what {host} says of its kernel is not kept: {error}");
    }
}
