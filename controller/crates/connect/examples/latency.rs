//! Measures what one task costs, from the request to its end event, over the Unix socket of a fresh agent: medians for
//! `/bin/true`, and for comparison those of a plain fork, exec and wait by this process.
//!
//! `cargo run --release -p drover-connect --example latency`

use std::{
    error::Error,
    ffi::OsString,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use drover_agent::OwnCommand;
use drover_connect::{Connection, LocalOptions, connect_local};
use drover_model::{AttemptId, RunId, StopPolicy, TaskId, TaskSpec, TrialId};
use drover_proto::v1;
use uuid::Uuid;

/// Tasks measured, after a tenth of that to warm up.
const TASKS: u32 = 1000;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == "agent") {
        return Ok(drover_agent::main_with_args(args, OwnCommand { prefix: &["agent"] }));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure())?;
    Ok(ExitCode::SUCCESS)
}

async fn measure() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let options = LocalOptions {
        agent_dir: dir.path().join("agent"),
        agent_command: vec![std::env::current_exe()?.into_os_string(), OsString::from("agent")],
        linger: Duration::from_secs(10),
    };
    let began = Instant::now();
    let Connection { mut client, hello, .. } = connect_local(&options).await?;
    println!("start of an agent, connection, hello: {:?} ({})", began.elapsed(), hello.facts.containment);

    let run = RunId(Uuid::now_v7());
    let request = v1::AcquireLeaseRequest {
        run: run.to_string(),
        holder: "latency".into(),
        ttl_ms: 60_000,
        observe_interval_ms: 0,
    };
    let lease = client.acquire_lease(request).await?.into_inner();
    let lease = v1::LeaseRef { run: lease.run, epoch: lease.epoch };
    let watch = v1::WatchRequest { lease: Some(lease.clone()), from_seq: 1 };
    let mut events = client.watch(watch).await?.into_inner();
    let mut taken = Vec::new();
    for cell in 0..TASKS + TASKS / 10 {
        let attempt = AttemptId { run, trial: TrialId { cell, repetition: 1 }, number: 1 };
        let task = v1::TaskSpec::from(no_op(TaskId { attempt, role: "client".parse()?, instance: 0 }));
        let began = Instant::now();
        client.start_task(v1::StartTaskRequest { lease: Some(lease.clone()), task: Some(task) }).await?;
        while let Some(event) = events.message().await? {
            if matches!(event.kind, Some(v1::task_event::Kind::Ended(_))) {
                break;
            }
        }
        taken.push(began.elapsed());
    }
    report("a task", taken);
    let mut taken = Vec::new();
    for _ in 0..TASKS + TASKS / 10 {
        let began = Instant::now();
        Command::new("/bin/true").status()?;
        taken.push(began.elapsed());
    }
    report("a plain process", taken);
    drop(events);
    client.shutdown(v1::ShutdownRequest { lease: Some(lease) }).await?;
    Ok(())
}

fn no_op(id: TaskId) -> TaskSpec {
    TaskSpec {
        id,
        argv: vec!["/bin/true".into()],
        env: Vec::new(),
        files: Vec::new(),
        ready: Vec::new(),
        ready_within: Duration::ZERO,
        placement: None,
        hold: false,
        deadline: Duration::from_secs(60),
        stop: StopPolicy { signal: 15, grace: Duration::from_secs(1) },
        output_limit: 1 << 20,
        ports: Vec::new(),
        counters: true,
        rounds: None,
        progress: false,
        stall: None,
    }
}

fn report(what: &str, taken: Vec<Duration>) {
    let mut taken: Vec<Duration> = taken.into_iter().skip(100).collect();
    taken.sort_unstable();
    let at = |part: usize| taken.get(taken.len() * part / 100).copied().unwrap_or_default();
    println!("{what}: median {:?}, 10 % below {:?}, 90 % below {:?}", at(50), at(10), at(90));
}
