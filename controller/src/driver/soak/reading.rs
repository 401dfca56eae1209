//! From what a load wrote to what it found: the output of a round, or a line of a stream. Pure.

use drover_matrix::Role;
use drover_measure::{Input, parse};
use drover_model::{Doubt, EndKind, Name, ParserSpec, RoundEnd, Sample, TaskEnd, Tool};

use super::super::collect::{TaskOutput, read_output};

/// What a load found.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub samples: Vec<Sample>,
    /// All its latencies, where its tool tells them.
    pub histogram: Option<String>,
    pub doubts: Vec<Doubt>,
}

/// A round that gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadRound {
    /// Its command ended in a way that the matrix does not expect.
    Command(String),
    /// It was still running at its deadline.
    Deadline(String),
    /// Its output cannot be read.
    Output(String),
}

impl BadRound {
    /// What was seen.
    pub fn text(&self) -> &str {
        match self {
            Self::Command(text) | Self::Deadline(text) | Self::Output(text) => text,
        }
    }
}

/// How a round's command ended, if that is no good end.
pub fn bad_end(role: &Role, label: &str, kind: &EndKind) -> Option<BadRound> {
    let text = match kind {
        EndKind::Exited(status) if role.status.accept(*status) => return None,
        EndKind::Exited(status) => format!("{label} ended with status {status}"),
        EndKind::Signaled(signal) => format!("{label} was killed by signal {signal}"),
        EndKind::Deadline => {
            return Some(BadRound::Deadline(format!(
                "{label} was still running at the deadline of its round"
            )));
        }
        EndKind::NotStarted(_, why) => format!("{label} was not started: {why}"),
        // The end of the task tells of these.
        EndKind::Stopped(_) | EndKind::Killed | EndKind::NotReady(_) | EndKind::AgentLost => return None,
    };
    Some(BadRound::Command(text))
}

/// Reads the output of a round that ended well. `cpus` are those that it ran on.
pub fn of_round(
    role: &Role,
    instance: u32,
    host: &Name,
    cpus: &str,
    round: &RoundEnd,
) -> Result<Reading, BadRound> {
    let (stdout, stderr) = (round.stdout.inline.as_deref(), round.stderr.inline.as_deref());
    let end = TaskEnd {
        kind: round.kind.clone(),
        wall: round.wall,
        usage: round.usage,
        stdout: round.stdout.clone(),
        stderr: round.stderr.clone(),
        cpus: cpus.to_owned(),
        leftovers: 0,
        counters: None,
    };
    let found = read_output(&TaskOutput {
        role,
        instance,
        host: host.clone(),
        argv: Vec::new(),
        end: Some(&end),
        cpus,
        stdout: stdout.unwrap_or_default(),
        stderr: stderr.unwrap_or_default(),
    });
    match found.problem {
        Some(problem) => Err(BadRound::Output(problem)),
        None => Ok(Reading {
            samples: found.record.samples,
            histogram: found.histogram,
            doubts: found.record.doubts,
        }),
    }
}

/// Reads a line of a stream; `None` if it has no figures, as most programs print lines that have none.
pub fn of_line(spec: &ParserSpec, line: &str) -> Option<Reading> {
    let line = match spec {
        // Its last line is about the whole time.
        ParserSpec::Tool(Tool::Workload) => line.trim().strip_prefix("{\"progress\":")?.strip_suffix('}')?,
        _ => line,
    };
    let input = Input { stdout: line.as_bytes(), stderr: b"", output_cut: false };
    let found = parse(spec, &input).ok()?;
    let (samples, histogram, doubts) = (found.samples, found.histogram, found.doubts);
    (!samples.is_empty()).then_some(Reading { samples, histogram, doubts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_intervals_of_the_built_in_client_and_not_its_whole_run() {
        let spec = ParserSpec::Tool(Tool::Workload);
        let report = |rate: f64| {
            format!(
                "{{\"drover_workload\":\"client\",\"completed\":10,\"succeeded\":10,\"failed\":0,\"errors\":{{\"refused\":0,\"reset\":0,\
                 \"timeout\":0,\"address_in_use\":0,\"fd_limit\":0,\"other\":0}},\"elapsed_s\":1.0,\"conn_per_s\":{rate}}}"
            )
        };
        let found = of_line(&spec, &format!("{{\"progress\":{}}}", report(10.0))).unwrap();
        assert!(found.samples.iter().any(|sample| sample.name == "conn_per_s"), "{found:?}");
        assert_eq!(of_line(&spec, &report(10.0)), None);
    }

    #[test]
    fn expect_nothing_of_lines_without_figures() {
        let spec = ParserSpec::Regex("rate (?<rate>[0-9]+)".to_owned());
        assert_eq!(of_line(&spec, "starting"), None);
        assert_eq!(of_line(&spec, "rate 7").map(|found| found.samples.len()), Some(1));
    }
}
