//! What a virtual machine says of itself after an attempt.

use std::path::PathBuf;

use drover_connect::{Now, VmHost};
use drover_model::{AttemptId, HostFacts, Verdict};
use drover_proto::{Hello, PROTOCOL, v1};
use drover_vm::{Expected, Found};
use serde::Serialize;

use super::{InternalEvent, Link, chain, lost};
use crate::driver::machine::verdict_of;

/// The machine of an attempt, as it is kept beside its outputs.
#[derive(Serialize)]
struct Record<'a> {
    /// Label of the kernel.
    kernel: &'a str,
    accelerator: String,
    found: &'a Found,
}

impl Link {
    /// Asks the machine again what it is. Keeps its answer as `machine.HOST.json` in `folder`. Where its kernel has reported
    /// a failure there is no answer: the machine is being ended.
    pub fn verify(&self, attempt: AttemptId, vm: VmHost, expected: Expected, folder: PathBuf) {
        let mut client = self.client.clone();
        let (host, generation) = (self.host.clone(), self.generation);
        let (events, now) = (self.events.clone(), vm.now());
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
                        if vm.has_failed().await {
                            return;
                        }
                        let problem = compare(&expected, &hello.facts);
                        if problem.is_some() {
                            vm.spoil();
                        }
                        if let Some(now) = now {
                            keep(&now, &hello.facts, folder, host.as_ref()).await;
                        }
                        InternalEvent::Verified { attempt, host: host.clone(), problem }
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

async fn keep(now: &Now, facts: &HostFacts, folder: PathBuf, host: &str) {
    let found = Found::of_facts(facts);
    let accelerator = now.accelerator.to_string();
    let record = Record { kernel: &now.machine.kernel, accelerator, found: &found };
    let Ok(text) = serde_json::to_vec_pretty(&record) else { return };
    let kept = async {
        tokio::fs::create_dir_all(&folder).await?;
        tokio::fs::write(folder.join(format!("machine.{host}.json")), text).await
    };
    if let Err(error) = kept.await {
        tracing::warn!("what {host} says of its kernel is not kept: {error}");
    }
}
