//! What must not be there when a round is over: processes, ports, cgroups, mounts, folders of attempts, and entries of a spool.

use std::{
    ffi::OsString,
    fs,
    net::TcpListener,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

use drover_connect::{LocalOptions, connect_local};
use drover_model::RunId;
use drover_proto::v1;

use crate::{ground::Ground, history::History, jobs, judge::Harm, wait};

/// Longest time for an agent to be over after it was told to end.
const AGENT_ENDS: Duration = Duration::from_secs(40);

/// Everything that is left, in words.
pub fn remains(ground: &Ground, run: RunId, history: &History, harm: &Harm) -> Vec<String> {
    let mut left = Vec::new();
    processes(ground, &mut left);
    ports(history, &mut left);
    mounts(ground, &mut left);
    for host in 0..ground.hosts() {
        let dir = ground.agent_dir(host);
        folders(&dir, &mut left);
        cgroups(&dir, &mut left);
        // An agent that ends on a full disk cannot write down what it was told to forget.
        let must_be_empty = harm.agent_fills == 0;
        if must_be_empty && let Err(error) = spool(ground, host, run, &mut left) {
            left.push(format!("the spool of host {host} cannot be looked at: {error}"));
        }
    }
    left
}

fn processes(ground: &Ground, left: &mut Vec<String>) {
    // Agents name their folder; nothing else does that has to end.
    let folder = ground.agent_dir(0).display().to_string();
    let mut found = Vec::new();
    let gone = wait::within(AGENT_ENDS, "every process is gone", || {
        found = jobs::naming(&folder);
        found.extend(jobs::of_round(&ground.mark).iter().map(|pid| format!("job {pid}")));
        found.extend(ground.strangers());
        found.is_empty()
    });
    if gone.is_err() {
        left.append(&mut found);
    }
}

fn ports(history: &History, left: &mut Vec<String>) {
    for port in &history.ports {
        if let Err(error) = TcpListener::bind(("127.0.0.1", *port)) {
            left.push(format!("port {port}: {error}"));
        }
    }
}

/// Below the round's folder nothing is mounted but its own disks.
fn mounts(ground: &Ground, left: &mut Vec<String>) {
    let (folder, own) = (ground.dir().display().to_string(), [ground.disk(), ground.agent_dir(0)]);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for point in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
        if point.starts_with(&folder) && !own.iter().any(|own| own.as_path() == Path::new(point)) {
            left.push(format!("a mount at {point}"));
        }
    }
}

fn folders(agent: &Path, left: &mut Vec<String>) {
    for folder in ["work", "outputs", "observed"] {
        for entry in fs::read_dir(agent.join(folder)).into_iter().flatten().flatten() {
            left.push(format!("{}", entry.path().display()));
        }
    }
    let socket = agent.join("agent.sock");
    if socket.exists() {
        left.push(format!("{}", socket.display()));
    }
}

/// An agent names its cgroups after its folder.
fn cgroups(agent: &Path, left: &mut Vec<String>) {
    let hash = blake3::hash(agent.as_os_str().as_encoded_bytes()).to_hex();
    let name = format!("drover-{}", hash.get(..16).unwrap_or_default());
    let mut waiting = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_str() == Some(&name) {
                    left.push(format!("the cgroup {}", entry.path().display()));
                }
                waiting.push(entry.path());
            }
        }
    }
}

/// What an agent that is started on the spool knows of the run. A copy is looked at, so that what is there stays as it is.
fn spool(ground: &Ground, host: usize, run: RunId, left: &mut Vec<String>) -> Result<(), String> {
    let spool = ground.agent_dir(host).join("spool");
    if !spool.exists() {
        return Ok(());
    }
    let copy = tempfile::TempDir::with_prefix("drover-chaos-spool-").map_err(|error| error.to_string())?;
    let dir = copy.path().join("agent");
    fs::DirBuilder::new().mode(0o700).create(&dir).map_err(|error| error.to_string())?;
    fs::copy(&spool, dir.join("spool")).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let known = runtime.map_err(|error| error.to_string())?.block_on(known_to(&dir, run))?;
    left.extend(known.into_iter().map(|task| format!("in the spool of host {host}: {task}")));
    Ok(())
}

async fn known_to(dir: &Path, run: RunId) -> Result<Vec<String>, String> {
    let agent_command = vec![OsString::from(env!("CARGO_BIN_EXE_drover")), OsString::from("agent")];
    let options = LocalOptions { agent_dir: dir.to_owned(), agent_command, linger: Duration::from_secs(60) };
    let mut connection = connect_local(&options).await.map_err(|error| error.to_string())?;
    let request = v1::AcquireLeaseRequest {
        run: run.to_string(),
        holder: "chaos".to_owned(),
        ttl_ms: 60_000,
        observe_interval_ms: 0,
    };
    let lease =
        connection.client.acquire_lease(request).await.map_err(|status| status.to_string())?.into_inner();
    let lease = v1::LeaseRef { run: lease.run, epoch: lease.epoch };
    let tasks = connection.client.list_tasks(lease.clone()).await.map_err(|status| status.to_string())?;
    let request = v1::ShutdownRequest { lease: Some(lease) };
    connection.client.shutdown(request).await.map_err(|status| status.to_string())?;
    if let Some(process) = &mut connection.child {
        process.wait().await.map_err(|error| error.to_string())?;
    }
    Ok(tasks.into_inner().tasks.into_iter().map(|known| known.task).collect())
}
