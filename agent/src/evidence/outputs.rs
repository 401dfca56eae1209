//! The last lines of every task of an attempt, and how each ended.

use drover_model::{AttemptId, OutputSummary, TaskEnd, TaskId};
use drover_proto::v1;
use drover_supervise::KeptOutput;

use super::Bundle;
use crate::{agent::Agent, task::Outputs, text::chain};

/// Bytes of each output.
const TAIL: u64 = 16 << 10;
/// Most tasks whose outputs are in it.
const MAX_TASKS: usize = 64;

pub(super) fn collect(agent: &Agent, attempt: AttemptId, bundle: &mut Bundle) {
    let tasks = agent.registry().tasks_of(attempt);
    for (id, _) in tasks.iter().take(MAX_TASKS) {
        let known = agent.registry().known(id);
        let end = match known {
            Ok((_, end)) => end.and_then(end_of),
            Err(error) => {
                bundle.missing(format!("task {id}: {}", chain(&error)));
                continue;
            }
        };
        let state = end.as_ref().map_or_else(
            || "it runs".to_owned(),
            |end| format!("it ended after {:?}: {:?}", end.wall, end.kind),
        );
        for (stderr, name) in [(false, "standard output"), (true, "standard error")] {
            let summary = end.as_ref().map(|end| if stderr { &end.stderr } else { &end.stdout });
            match tail(agent, id, stderr, summary) {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes);
                    let title = format!("{name} of {id} ({state})");
                    bundle.section(&title, &text, usize::MAX, true);
                }
                Err(why) => bundle.missing(format!("{name} of {id}: {why}")),
            }
        }
    }
    if tasks.len() > MAX_TASKS {
        bundle.missing(format!("outputs of {} more tasks", tasks.len() - MAX_TASKS));
    }
}

fn end_of(event: v1::TaskEvent) -> Option<TaskEnd> {
    match event.kind {
        Some(v1::task_event::Kind::Ended(end)) => TaskEnd::try_from(end).ok(),
        _ => None,
    }
}

fn tail(agent: &Agent, id: &TaskId, stderr: bool, end: Option<&OutputSummary>) -> Result<Vec<u8>, String> {
    let kept = match end {
        Some(OutputSummary { inline: Some(bytes), .. }) => {
            let start = bytes.len().saturating_sub(usize::try_from(TAIL).unwrap_or(usize::MAX));
            return Ok(bytes.get(start..).unwrap_or_default().to_vec());
        }
        Some(OutputSummary { written: 0, .. }) => return Ok(Vec::new()),
        Some(summary) => {
            let limit = agent.registry().known(id).map_err(|error| chain(&error))?.0.output_limit;
            let dir = agent.dir.paths.outputs();
            Outputs::reopen(&dir, id, stderr, limit, summary).map_err(|error| error.to_string())?
        }
        None => match agent.registry().live(id) {
            Some(live) => live.outputs.reader(stderr),
            // It has ended just now.
            None => return Err("it ended while it was looked at".to_owned()),
        },
    };
    read_end(&kept).map_err(|error| error.to_string())
}

fn read_end(kept: &KeptOutput) -> std::io::Result<Vec<u8>> {
    let (mut bytes, mut at) = (Vec::new(), kept.len().saturating_sub(TAIL));
    let mut buffer = [0; 4096];
    loop {
        let length = kept.read_at(at, &mut buffer)?;
        if length == 0 {
            return Ok(bytes);
        }
        bytes.extend_from_slice(buffer.get(..length).unwrap_or_default());
        at = at.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
    }
}
