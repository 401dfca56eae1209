//! The reports of server and client: one JSON document on standard output. `drover-measure` reads them.

use std::io::{self, Write};

use serde::Serialize;

use crate::args::CloseMode;
use crate::serialise::Serialisation;

/// Report of the server, written when it stops.
#[derive(Debug, Serialize)]
pub(crate) struct ServerReport {
    /// Always `server`: names the kind of document.
    pub drover_workload: &'static str,
    /// How workers took turns.
    pub serialisation: Serialisation,
    /// Workers forked.
    pub servers: u32,
    /// Connections accepted by all workers.
    pub accepted: u64,
    /// The same by worker.
    pub accepts_per_worker: Vec<u64>,
    /// Voluntary context switches of the workers while they served: times a worker slept and was woken.
    pub voluntary_switches: u64,
    /// Involuntary context switches of the workers while they served.
    pub involuntary_switches: u64,
    /// Voluntary switches per accepted connection; null if none was accepted.
    pub wakeups_per_conn: Option<f64>,
    /// Jain's fairness index of the accepts per worker, 1/servers to 1; null if none was accepted.
    pub fairness: Option<f64>,
    /// Workers that ended before the server was told to stop.
    pub workers_lost: u64,
    /// Which, and how.
    pub lost: Vec<LostWorker>,
    /// Backlog the kernel granted.
    pub backlog: u32,
    /// Times the accept lock was recovered from a dead worker.
    pub lock_recovered: u64,
}

/// A worker that ended too early.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LostWorker {
    /// Its index, from 0.
    pub worker: usize,
    /// How it ended: `signal 9`, `exit 1`.
    pub status: String,
}

/// Report of the client.
#[derive(Debug, Serialize)]
pub(crate) struct ClientReport {
    /// Always `client`: names the kind of document.
    pub drover_workload: &'static str,
    /// Who was to close first.
    pub mode: CloseMode,
    /// Connections planned; with a duration only, those started.
    pub connections: u64,
    /// Connections that came to an end, good or bad.
    pub completed: u64,
    /// Connections that did all they should.
    pub succeeded: u64,
    /// Connections that did not.
    pub failed: u64,
    /// The failed ones by kind.
    pub errors: ErrorCounts,
    /// HTTP calls answered with 200.
    pub calls: u64,
    /// Seconds from the first start to the last end.
    pub elapsed_s: f64,
    /// Succeeded connections per second.
    pub conn_per_s: f64,
    /// Answered calls per second; null without calls.
    pub req_per_s: Option<f64>,
    /// Latency of the succeeded connections; null if there is none.
    pub latency_s: Option<LatencySummary>,
    /// Rate asked for, in connections per second; null in a closed loop.
    pub rate_asked: Option<f64>,
    /// Connections open at once, at most.
    pub concurrency: u32,
    /// Threads.
    pub threads: u32,
    /// Local ports the run could need at once.
    pub ports_needed: u64,
    /// Source addresses the connections were spread over; 1 if the kernel chose.
    pub source_addresses: u32,
    /// CPU time per thread and elapsed second: near 1 the client was the limit.
    pub cpu_share: f64,
    /// The latency histogram in nanoseconds: HdrHistogram V2 encoding in base64; null if empty.
    pub histogram: Option<String>,
}

/// Failed connections by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ErrorCounts {
    /// Nothing listened.
    pub refused: u64,
    /// The other side reset the connection.
    pub reset: u64,
    /// No end within the timeout.
    pub timeout: u64,
    /// No local port was free.
    pub address_in_use: u64,
    /// Too many open files.
    pub fd_limit: u64,
    /// Anything else, such as a status that is not 200.
    pub other: u64,
}

/// Latency in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct LatencySummary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Longest.
    pub max: f64,
}

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the report to standard output")]
pub(crate) struct WriteReportError(#[source] io::Error);

/// Writes a report as one line.
pub(crate) fn write(report: &impl Serialize, to: &mut impl Write) -> Result<(), WriteReportError> {
    let mut line = serde_json::to_vec(report).map_err(|error| WriteReportError(error.into()))?;
    line.push(b'\n');
    to.write_all(&line).and_then(|()| to.flush()).map_err(WriteReportError)
}

/// A count as a floating point number; exact up to 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts beyond 2^53 do not occur, and rates need no exact ones"
)]
pub(crate) fn count_to_f64(count: u64) -> f64 {
    count as f64
}

/// Jain's fairness index, (Σx)² / (n Σx²): 1 when all workers accepted the same, 1/n when one accepted all.
/// R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in Shared
/// Computer Systems", DEC TR-301, 1984. `None` if nothing was accepted.
pub(crate) fn jain_index(accepts: &[u64]) -> Option<f64> {
    let workers = u64::try_from(accepts.len()).ok()?;
    let sum: f64 = accepts.iter().map(|x| count_to_f64(*x)).sum();
    let squares: f64 = accepts.iter().map(|x| count_to_f64(*x).powi(2)).sum();
    (squares > 0.0).then(|| sum * sum / (count_to_f64(workers) * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_jains_published_values() {
        // The examples of section 2 of the report: equal shares, one of n, and k of n users served.
        assert_eq!(jain_index(&[5, 5, 5, 5]), Some(1.0));
        assert_eq!(jain_index(&[9, 0, 0]), Some(1.0 / 3.0));
        let ten_of_hundred: Vec<u64> = (0..100).map(|user| if user < 10 { 7 } else { 0 }).collect();
        assert!((jain_index(&ten_of_hundred).unwrap() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn expect_no_fairness_when_nothing_was_accepted() {
        assert_eq!(jain_index(&[0, 0]), None);
        assert_eq!(jain_index(&[]), None);
    }
}
