//! Evidence: asks the agent of a host for what explains a failure, and keeps it beside the series, before anything is put
//! right there.

use std::{path::Path, time::Duration};

use drover_model::{AttemptId, Completeness, Name};
use drover_proto::{MAX_EVIDENCE_BYTES, v1};
use drover_store::ResultsDir;
use tonic::Status;

use super::super::link::{Client, chain};

/// Time allowed for all hosts together; the tasks are stopped behind it, whatever came.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Where evidence is asked for.
pub struct Witness {
    pub host: Name,
    pub client: Client,
    pub lease: v1::LeaseRef,
    /// Its kernel may be asked for stacks.
    pub sysrq: bool,
}

/// What a host could say, in a line for people.
pub async fn collect(witness: Witness, attempt: AttemptId, results: ResultsDir) -> String {
    let host = witness.host.clone();
    let path = results.evidence_path(&attempt, &host);
    let collected = tokio::time::timeout(PATIENCE, fetch(witness, attempt)).await;
    let (completeness, text) = match collected {
        Ok(Ok((summary, body))) => (word(&summary), body),
        Ok(Err(status)) => ("none", none(status.message())),
        Err(_) => ("none", none(&format!("the agent did not answer within {} s", PATIENCE.as_secs()))),
    };
    let written = tokio::task::spawn_blocking(move || write(&path, &text)).await;
    match written {
        Ok(Ok(())) => format!("evidence of {host}: {completeness}"),
        Ok(Err(error)) => format!("evidence of {host}: none: it cannot be written: {}", chain(&error)),
        Err(error) => format!("evidence of {host}: none: writing it failed: {error}"),
    }
}

async fn fetch(witness: Witness, attempt: AttemptId) -> Result<(v1::EvidenceSummary, Vec<u8>), Status> {
    let Witness { mut client, lease, sysrq, .. } = witness;
    let request = v1::EvidenceRequest { lease: Some(lease), attempt: attempt.to_string(), sysrq };
    let mut chunks = client.evidence(request).await?.into_inner();
    let (mut summary, mut body) = (v1::EvidenceSummary::default(), Vec::new());
    while let Some(chunk) = chunks.message().await? {
        match chunk.part {
            Some(v1::evidence_chunk::Part::Summary(found)) => summary = found,
            Some(v1::evidence_chunk::Part::Data(data)) => body.extend_from_slice(&data),
            None => {}
        }
        if body.len() > MAX_EVIDENCE_BYTES {
            return Err(Status::resource_exhausted("the agent sends more evidence than it may"));
        }
    }
    Ok((summary, body))
}

/// What is kept where there is nothing, in the form of what an agent sends.
fn none(why: &str) -> Vec<u8> {
    format!("evidence: none\nnot in it: anything: {why}\n").into_bytes()
}

fn word(summary: &v1::EvidenceSummary) -> &'static str {
    match Completeness::try_from(summary.completeness()) {
        Ok(Completeness::Complete) => "complete",
        Ok(Completeness::Partial) => "partial",
        Ok(Completeness::None) | Err(_) => "none",
    }
}

fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text)
}
