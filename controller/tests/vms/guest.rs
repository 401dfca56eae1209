//! A guest whose agent is started anew whenever it ends, and a controller that talks to it.

use std::{path::PathBuf, time::Duration};

use drover_model::{
    AgentEvent, AttemptId, CpuCore, HostFacts, LeaseEpoch, Placement, RunId, StopPolicy, TaskEnd,
    TaskEventKind, TaskId, TaskSpec, TrialId,
};
use drover_proto::{Hello, LeaseRef, PROTOCOL, v1, v1::agent_client::AgentClient};
use drover_vm::{AcceleratorWish, InitramfsSpec, Topology, Vm, VmSpec, build};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

use crate::harness::kernel;

/// Longest wait for anything in a guest on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// Where the agent is in the guest.
const DIR: &str = "/run/drover";

/// Programs of this machine that the guest has at the same place.
const PROGRAMS: [&str; 7] = [
    "/usr/bin/cat",
    "/usr/bin/mkdir",
    "/usr/bin/mount",
    "/usr/bin/nproc",
    "/usr/bin/sleep",
    "/usr/bin/taskset",
    "/bin/sh",
];

/// A machine that runs.
pub struct Guest {
    pub vm: Vm,
    _dir: TempDir,
}

/// A connection to its agent, with what that said first.
pub struct Caller {
    pub client: AgentClient<Channel>,
    pub hello: Hello,
}

/// A controller that holds the host.
pub struct Holder {
    pub client: AgentClient<Channel>,
    pub lease: LeaseRef,
    /// Tasks so far.
    tasks: u32,
}

impl Guest {
    /// Boots a kernel that runs `script` before its first agent, and `start` (with the agent's command as `"$@"`) for every agent.
    pub async fn boot(label: &str, topology: Topology, script: &str, start: &str) -> Self {
        let dir = TempDir::with_prefix("drover-vms-").expect("a temporary folder");
        let (agent, prefix) = match std::env::var_os("DROVER_AGENT") {
            Some(path) => (PathBuf::from(path), ""),
            None => (PathBuf::from(env!("CARGO_BIN_EXE_drover")), "agent "),
        };
        let kernel = kernel(label);
        let script = format!(
            "{script}\nset -- /bin/agent {prefix}serve --dir {DIR} --linger 3650d\nwhile :; do {start}\n[ -e {DIR}/cpus ] && \
             echo left >> /run/left\ndone"
        );
        let programs = PROGRAMS.iter().map(|path| (PathBuf::from(path), (*path).to_owned()));
        let initramfs = build(&InitramfsSpec {
            init: PathBuf::from(env!("CARGO_BIN_EXE_drover")),
            program: PathBuf::from("/bin/sh"),
            args: vec!["-c".to_owned(), script],
            socket: PathBuf::from(DIR).join("agent.sock"),
            modules: kernel.modules.clone(),
            more_modules: Vec::new(),
            files: programs.chain([(agent, "/bin/agent".to_owned())]).collect(),
        });
        let initrd = dir.path().join("initramfs");
        std::fs::write(&initrd, initramfs.expect("an initramfs")).expect("a writable folder");
        let spec = VmSpec {
            accelerator: AcceleratorWish::Tcg,
            initrd: Some(initrd),
            topology,
            nonce: "n0nce".to_owned(),
            ..VmSpec::new(kernel.image, dir.path().join("vm"))
        };
        let vm = Vm::start(&spec).await.expect("QEMU starts");
        vm.booted(PATIENCE).await.unwrap_or_else(|error| panic!("{error}\n{}", error.console()));
        Self { vm, _dir: dir }
    }

    /// Says hello, as soon as an agent answers that is not the one with this id.
    pub async fn call(&self, not: &str) -> Caller {
        let calling = async {
            loop {
                match self.greet().await {
                    Ok(caller) if caller.hello.agent_id != not => return caller,
                    _ => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        };
        match tokio::time::timeout(PATIENCE, calling).await {
            Ok(caller) => caller,
            Err(_) => panic!("no agent answers:\n{}", self.vm.console().tail(16 << 10)),
        }
    }

    async fn greet(&self) -> Result<Caller, Status> {
        let stream = std::sync::Mutex::new(Some(self.vm.connect()));
        let connector = tower::service_fn(move |_| {
            let stream = stream.lock().ok().and_then(|mut stream| stream.take()).map(TokioIo::new);
            std::future::ready(stream.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected)))
        });
        let channel = Endpoint::from_static("http://agent").connect_with_connector(connector).await;
        let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
        let mut client = AgentClient::new(channel);
        let request = v1::HelloRequest { protocol: PROTOCOL, controller_version: String::new() };
        let hello = within(client.hello(request)).await?.into_inner();
        Ok(Caller { client, hello: hello.try_into().expect("a hello") })
    }

    /// Whether the guest's first shell has seen an agent end with something left to put back.
    pub async fn left_behind(&self, holder: &mut Holder) -> usize {
        holder.shell("cat /run/left 2>/dev/null").await.lines().count()
    }
}

impl Caller {
    /// Takes the host for a run.
    pub async fn try_hold(&self, run: u128, ttl: Duration) -> Result<Holder, Status> {
        let run = RunId(uuid::Uuid::from_u128(run));
        let request = v1::AcquireLeaseRequest {
            run: run.to_string(),
            holder: "tester@host".to_owned(),
            ttl_ms: u64::try_from(ttl.as_millis()).expect("a short time"),
            observe_interval_ms: 0,
        };
        let mut client = self.client.clone();
        let lease = within(client.acquire_lease(request)).await?.into_inner();
        Ok(Holder { client, lease: LeaseRef { run, epoch: LeaseEpoch(lease.epoch) }, tasks: 0 })
    }

    pub async fn hold(&self, run: u128) -> Holder {
        self.try_hold(run, Duration::from_secs(600)).await.expect("a host that is free")
    }

    /// What the agent says of the host now.
    pub async fn facts(&mut self) -> HostFacts {
        let request = v1::HelloRequest { protocol: PROTOCOL, controller_version: String::new() };
        let hello = within(self.client.hello(request)).await.expect("an answer").into_inner();
        Hello::try_from(hello).expect("a hello").facts
    }
}

impl Holder {
    pub async fn try_set(&mut self, count: u32) -> Result<Vec<u32>, Status> {
        let request = v1::SetCpusRequest { lease: Some(self.lease.into()), count };
        let reply = within(self.client.set_cpus(request)).await?.into_inner();
        let facts = HostFacts::from(reply.facts.expect("facts"));
        Ok(numbers(&facts.cpus))
    }

    pub async fn set(&mut self, count: u32) -> Vec<u32> {
        self.try_set(count).await.expect("CPUs that can be had")
    }

    pub async fn release(mut self) -> Result<(), Status> {
        within(self.client.release_lease(v1::LeaseRef::from(self.lease))).await.map(drop)
    }

    pub async fn shut_down(mut self) {
        let request = v1::ShutdownRequest { lease: Some(self.lease.into()) };
        within(self.client.shutdown(request)).await.expect("an agent that ends");
    }

    /// Starts a task; its id.
    pub async fn start(&mut self, script: &str, placement: Option<Placement>) -> Result<TaskId, Status> {
        self.tasks += 1;
        let trial = TrialId { cell: self.tasks, repetition: 1 };
        let attempt =
            AttemptId { run: self.lease.run, trial, number: u32::try_from(self.lease.epoch.0).expect("few") };
        let id = TaskId { attempt, role: "job".parse().expect("a name"), instance: 0 };
        let spec = TaskSpec {
            id: id.clone(),
            argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            env: Vec::new(),
            files: Vec::new(),
            ready: Vec::new(),
            ready_within: Duration::from_secs(30),
            placement,
            hold: false,
            deadline: PATIENCE,
            stop: StopPolicy { signal: 15, grace: Duration::from_secs(30) },
            output_limit: 1 << 20,
            ports: Vec::new(),
            counters: false,
            rounds: None,
            progress: false,
            stall: None,
        };
        let request = v1::StartTaskRequest { lease: Some(self.lease.into()), task: Some(spec.into()) };
        within(self.client.start_task(request)).await.map(|_| id)
    }

    pub async fn stop(&mut self, task: &TaskId) {
        let request =
            v1::StopTaskRequest { lease: Some(self.lease.into()), task: task.to_string(), kill: true };
        within(self.client.stop_task(request)).await.expect("a task that can be stopped");
    }

    pub async fn end_of(&mut self, task: &TaskId) -> TaskEnd {
        let request = v1::WatchRequest { lease: Some(self.lease.into()), from_seq: 1 };
        let mut events = within(self.client.watch(request)).await.expect("events").into_inner();
        loop {
            let event = within(events.message()).await.expect("events").expect("an end of the task");
            if let AgentEvent::Task(event) = AgentEvent::try_from(event).expect("an event")
                && event.task == *task
                && let TaskEventKind::Ended(end) = event.kind
            {
                return end;
            }
        }
    }

    /// Runs a script to its end.
    pub async fn run(&mut self, script: &str, placement: Option<Placement>) -> TaskEnd {
        let task = self.start(script, placement).await.expect("a task that starts");
        self.end_of(&task).await
    }

    /// What a script prints.
    pub async fn shell(&mut self, script: &str) -> String {
        let end = self.run(script, None).await;
        let text = String::from_utf8(end.stdout.inline.clone().unwrap_or_default()).expect("text");
        let errors = String::from_utf8(end.stderr.inline.clone().unwrap_or_default()).expect("text");
        assert!(errors.is_empty(), "{script}: {errors}");
        text.trim().to_owned()
    }
}

pub fn numbers(cpus: &[CpuCore]) -> Vec<u32> {
    cpus.iter().map(|cpu| cpu.cpu).collect()
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("the guest does not answer")
}
