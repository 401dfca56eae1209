//! The client: plans ports and threads, runs them, reports.

use std::io;
use std::num::NonZero;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::args::{ClientArgs, CloseMode};
use crate::connection::Script;
use crate::engine::{Engine, EngineError, Findings};
use crate::failure::Tally;
use crate::latency::{Latencies, LatencyError};
use crate::message::say;
use crate::ports::{Load, PortFacts, PortPlan, plan};
use crate::progress::{Interval, follow};
use crate::report::{ClientReport, WriteReportError, count_to_f64, write};
use crate::schedule::Schedule;
use crate::sys::usage_of_self;

/// Concurrency of an open loop unless told otherwise: room for what is late, yet a bound.
const OPEN_LOOP_CONCURRENCY: u32 = 1000;
/// Connections open at once that make a further thread worth while.
const CONNECTIONS_PER_THREAD: u32 = 8;

/// Why the client failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// A thread could not do its work.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// A thread panicked.
    #[error("a client thread ended unexpectedly")]
    ThreadLost,
    /// No histogram.
    #[error(transparent)]
    Latency(#[from] LatencyError),
    /// The report could not be written.
    #[error(transparent)]
    Report(#[from] WriteReportError),
    /// Not one connection succeeded.
    #[error("all {count} connections failed: {causes}")]
    AllFailed {
        /// How many there were.
        count: u64,
        /// Why, comma-separated.
        causes: String,
    },
}

/// Runs the client to its end and writes the report.
pub(crate) fn run(args: &ClientArgs) -> Result<(), ClientError> {
    let concurrency = concurrency(args);
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads(args.threads, u32::try_from(cpus).unwrap_or(u32::MAX), concurrency);
    raise_file_limit(concurrency);
    let ports = plan(&load(args, concurrency), &PortFacts::read(args.connect.ip()));
    if let Some(message) = &ports.message {
        say(format_args!("{message}"));
    }
    let script = Script::new(args.connect, ports.sources.clone(), args.mode, args.calls, &args.path);
    let before = usage_of_self();
    let begin = Instant::now();
    let schedule = Schedule::new(begin, args.connections, args.duration, args.rate);
    let facts = Facts { concurrency, threads, ports: &ports, cpu: Duration::ZERO, elapsed: Duration::ZERO };
    let work = Work { args, script: &script, schedule: &schedule, shares: shares(concurrency, threads) };
    let findings = match args.progress {
        None => run_threads(&work, None)?,
        Some(every) => run_and_follow(&work, every, facts)?,
    };
    let cpu = usage_of_self().cpu.saturating_sub(before.cpu);
    let elapsed = findings.last_end.map_or(Duration::ZERO, |end| end.saturating_duration_since(begin));
    write(&report(args, &Facts { cpu, elapsed, ..facts }, &findings)?, &mut io::stdout().lock())?;
    conclude(&findings.tally)
}

/// Runs the threads while another one reports each interval.
fn run_and_follow(work: &Work<'_>, every: Duration, facts: Facts<'_>) -> Result<Findings, ClientError> {
    let intervals: Vec<Interval> = work.shares.iter().map(|_| Interval::new()).collect::<Result<_, _>>()?;
    let (running, over) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let of_interval = |findings: &Findings, elapsed, cpu| {
            let connections = findings.tally.started;
            let report = report(work.args, &Facts { cpu, elapsed, ..facts }, findings)?;
            Ok(ClientReport { connections, ..report })
        };
        let intervals = &intervals;
        let follower = thread::Builder::new()
            .name("progress".to_owned())
            .spawn_scoped(scope, move || follow(every, intervals, &over, of_interval))
            .map_err(ClientError::Thread)?;
        let findings = run_threads(work, Some(intervals));
        drop(running);
        follower.join().map_err(|_| ClientError::ThreadLost)??;
        findings
    })
}

/// Says what failed; an error if everything did.
fn conclude(tally: &Tally) -> Result<(), ClientError> {
    let causes: Vec<String> = tally.causes.iter().map(ToString::to_string).collect();
    let (failed, causes) = (tally.failed(), causes.join(", "));
    if failed > 0 && tally.succeeded == 0 {
        return Err(ClientError::AllFailed { count: failed, causes });
    }
    if failed > 0 {
        say(format_args!("{failed} of {} connections failed: {causes}", tally.started));
    }
    Ok(())
}

fn concurrency(args: &ClientArgs) -> u32 {
    let default = if args.rate.is_some() { OPEN_LOOP_CONCURRENCY } else { 1 };
    let total = args.connections.and_then(|total| u32::try_from(total).ok()).unwrap_or(u32::MAX);
    args.concurrency.unwrap_or(default).min(total)
}

/// One thread per CPU by default, but none for a few connections only: threads that mostly sleep cost more than they
/// bring. Never more threads than connections.
fn threads(asked: Option<u32>, cpus: u32, concurrency: u32) -> u32 {
    let default = (concurrency / CONNECTIONS_PER_THREAD).clamp(1, cpus.max(1));
    asked.unwrap_or(default).min(concurrency)
}

/// Deals the concurrency out to the threads.
fn shares(concurrency: u32, threads: u32) -> Vec<usize> {
    (0..threads)
        .map(|thread| {
            let extra = u32::from(thread < concurrency % threads);
            usize::try_from(concurrency / threads + extra).unwrap_or(1)
        })
        .collect()
}

fn load(args: &ClientArgs, concurrency: u32) -> Load {
    Load {
        target: args.connect.ip(),
        connections: args.connections,
        duration: args.duration,
        rate: args.rate,
        concurrency,
        client_closes_first: args.mode == CloseMode::Close,
        sources: args.sources,
    }
}

/// Raises the soft limit of open files to the hard one; says so when even that is too low.
fn raise_file_limit(concurrency: u32) {
    let limit = getrlimit(Resource::Nofile);
    // Failure leaves the limit as it was; connections beyond it are counted as `fd_limit`.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    if let Some(most) = limit.maximum
        && most <= u64::from(concurrency)
    {
        say(format_args!(
            "{concurrency} connections at once need more than the {most} open files allowed: raise `ulimit -Hn`"
        ));
    }
}

/// What the threads do.
struct Work<'a> {
    args: &'a ClientArgs,
    script: &'a Script,
    schedule: &'a Schedule,
    /// Connections open at once, of each thread.
    shares: Vec<usize>,
}

/// Runs one engine per share, the first on this thread; each counts in its interval too, if there are some.
fn run_threads(work: &Work<'_>, intervals: Option<&[Interval]>) -> Result<Findings, ClientError> {
    let Work { args, script, schedule, shares } = work;
    let engine = |(thread, share): (usize, &usize)| {
        let interval = intervals.and_then(|intervals| intervals.get(thread));
        Engine::new(script, schedule, *share, args.timeout, args.rate.is_some(), interval)
    };
    let mut shares = shares.iter().enumerate();
    let first = engine(shares.next().unwrap_or((0, &1)))?;
    thread::scope(|scope| {
        let mut others = Vec::new();
        for share in shares {
            let engine = engine(share)?;
            let spawned = thread::Builder::new()
                .name(format!("client-{}", share.0))
                .spawn_scoped(scope, move || engine.run());
            others.push(spawned.map_err(ClientError::Thread)?);
        }
        let mut sum = first.run()?;
        for other in others {
            let found = other.join().map_err(|_| ClientError::ThreadLost)??;
            sum.merge(&found);
        }
        Ok(sum)
    })
}

/// What is known of a run, or of an interval of it, besides its findings.
#[derive(Clone, Copy)]
struct Facts<'a> {
    concurrency: u32,
    threads: u32,
    ports: &'a PortPlan,
    cpu: Duration,
    elapsed: Duration,
}

fn report(args: &ClientArgs, facts: &Facts<'_>, findings: &Findings) -> Result<ClientReport, ClientError> {
    let tally = &findings.tally;
    let latencies: &Latencies = &findings.latencies;
    let elapsed_s = facts.elapsed.as_secs_f64();
    let per_second = |count: u64| if elapsed_s > 0.0 { count_to_f64(count) / elapsed_s } else { 0.0 };
    Ok(ClientReport {
        drover_workload: "client",
        mode: args.mode,
        connections: match (args.connections, args.duration) {
            (Some(planned), None) => planned,
            _ => tally.started,
        },
        completed: tally.succeeded + tally.failed(),
        succeeded: tally.succeeded,
        failed: tally.failed(),
        errors: tally.errors,
        calls: tally.calls,
        elapsed_s,
        conn_per_s: per_second(tally.succeeded),
        req_per_s: (args.calls > 0).then(|| per_second(tally.calls)),
        latency_s: latencies.summary(),
        rate_asked: args.rate,
        concurrency: facts.concurrency,
        threads: facts.threads,
        ports_needed: facts.ports.needed,
        source_addresses: facts.ports.source_count(),
        cpu_share: if elapsed_s > 0.0 {
            facts.cpu.as_secs_f64() / elapsed_s / f64::from(facts.threads)
        } else {
            0.0
        },
        histogram: latencies.encode()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_shares_to_add_up() {
        assert_eq!(shares(10, 3), [4, 3, 3]);
        assert_eq!(shares(1, 1), [1]);
    }

    #[test]
    fn expect_threads_for_the_cpus_when_there_are_connections_for_them() {
        assert_eq!(threads(None, 4, 1), 1);
        assert_eq!(threads(None, 4, 16), 2);
        assert_eq!(threads(None, 4, 1000), 4);
        assert_eq!(threads(Some(8), 4, 1000), 8);
        assert_eq!(threads(Some(8), 4, 3), 3);
    }
}
