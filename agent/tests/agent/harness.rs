//! An agent process in a folder of its own, and a controller that talks to it.

use std::{
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use drover_model::{
    AgentEvent, AttemptId, Completeness, HostEvent, HostEventKind, LeaseEpoch, ReadyCheck, RunId, StopPolicy,
    TaskEnd, TaskEvent, TaskEventKind, TaskId, TaskSpec, TrialId,
};
use drover_proto::{LeaseRef, MAX_MESSAGE_BYTES, v1, v1::agent_client::AgentClient};
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::{net::UnixStream, time::timeout};
use tonic::{
    Streaming,
    transport::{Channel, Endpoint},
};

/// Far more than anything here takes; a test that hangs fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds that no event tells of.
pub async fn until(mut holds: impl FnMut() -> bool) {
    let holds = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(holds).await;
}

/// The agent's program.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_drover-agent");

/// Awaits something that has to come.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("nothing happened for a minute")
}

/// An agent process, ended when dropped.
pub struct Agent {
    pub dir: PathBuf,
    process: Child,
}

impl Agent {
    pub fn start(dir: &TempDir) -> Self {
        Self::start_with(dir, &[])
    }

    pub fn start_with(dir: &TempDir, arguments: &[&str]) -> Self {
        Self::start_as(dir, Command::new(PROGRAM), arguments)
    }

    /// One that sees this environment variable.
    pub fn start_in(dir: &TempDir, name: &str, value: &str) -> Self {
        let mut command = Command::new(PROGRAM);
        command.env(name, value);
        Self::start_as(dir, command, &[])
    }

    /// One that cannot write files longer than this.
    pub fn start_limited(dir: &TempDir, bytes: u64) -> Self {
        let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", bytes / 512);
        let mut command = Command::new("sh");
        command.args(["-c", &script, PROGRAM]);
        Self::start_as(dir, command, &[])
    }

    fn start_as(dir: &TempDir, mut command: Command, arguments: &[&str]) -> Self {
        let dir = dir.path().join("agent");
        let mut process = command
            .arg("serve")
            .arg("--dir")
            .arg(&dir)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0; 6];
        let read = process.stdout.as_mut().unwrap().read_exact(&mut line);
        read.unwrap_or_else(|_| panic!("the agent does not start:\n{}", log(&dir)));
        assert_eq!(&line, b"ready\n");
        Self { dir, process }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    pub fn wait(mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }

    /// Like [`Self::wait`], while the connections of this test live on.
    pub async fn ended(self) -> ExitStatus {
        tokio::task::spawn_blocking(|| self.wait()).await.unwrap()
    }

    /// Ends it as a crash would.
    pub fn crash(self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    pub async fn connect(&self) -> AgentClient<Channel> {
        connect(&self.dir.join("agent.sock")).await
    }

    /// A controller that wants samples of the machine as often as may be.
    pub async fn observing_session(&self, run: u128) -> Session {
        self.session_observing_every(run, Duration::from_millis(100)).await
    }

    pub async fn session_observing_every(&self, run: u128, interval: Duration) -> Session {
        let run = RunId(uuid::Uuid::from_u128(run));
        let request = acquire(run, Duration::from_secs(60));
        let observe_interval_ms = u64::try_from(interval.as_millis()).unwrap();
        let request = v1::AcquireLeaseRequest { observe_interval_ms, ..request };
        Session::with(self.connect().await, request).await
    }

    /// A controller that has taken the host for a run.
    pub async fn session(&self, run: u128) -> Session {
        Session::new(self.connect().await, RunId(uuid::Uuid::from_u128(run))).await
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if self.process.try_wait().unwrap().is_none() {
            self.signal(Signal::TERM);
            self.process.wait().unwrap();
        }
        if std::thread::panicking() {
            eprintln!("the agent's log:\n{}", log(&self.dir));
        }
    }
}

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("agent.log")).unwrap_or_default()
}

async fn connect(socket: &Path) -> AgentClient<Channel> {
    let socket = socket.to_owned();
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    let channel =
        within(Endpoint::from_static("http://agent").connect_with_connector(connector)).await.unwrap();
    AgentClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

pub fn acquire(run: RunId, ttl: Duration) -> v1::AcquireLeaseRequest {
    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap();
    v1::AcquireLeaseRequest {
        run: run.to_string(),
        holder: "tester@host".to_owned(),
        ttl_ms,
        observe_interval_ms: 0,
    }
}

/// A controller that holds the host.
pub struct Session {
    pub client: AgentClient<Channel>,
    pub run: RunId,
    pub lease: v1::LeaseRef,
    events: Option<Streaming<v1::TaskEvent>>,
}

impl Session {
    pub async fn new(client: AgentClient<Channel>, run: RunId) -> Self {
        Self::with(client, acquire(run, Duration::from_secs(60))).await
    }

    async fn with(mut client: AgentClient<Channel>, request: v1::AcquireLeaseRequest) -> Self {
        let run = request.run.parse().unwrap();
        let lease = within(client.acquire_lease(request)).await.unwrap().into_inner();
        let lease = LeaseRef { run, epoch: LeaseEpoch(lease.epoch) }.into();
        Self { client, run, lease, events: None }
    }

    /// A task of this run: the `cell`-th attempt's `role`.
    pub fn task(&self, cell: u32, role: &str) -> TaskId {
        let attempt = AttemptId { run: self.run, trial: TrialId { cell, repetition: 1 }, number: 1 };
        TaskId { attempt, role: role.parse().unwrap(), instance: 0 }
    }

    /// A task that runs `script` in a shell.
    pub fn shell(&self, cell: u32, script: &str) -> TaskSpec {
        self.command(cell, &["sh", "-c", script])
    }

    pub fn command(&self, cell: u32, argv: &[&str]) -> TaskSpec {
        TaskSpec {
            id: self.task(cell, "server"),
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            env: Vec::new(),
            files: Vec::new(),
            ready: Vec::new(),
            ready_within: Duration::from_secs(30),
            placement: None,
            hold: false,
            deadline: Duration::from_secs(50),
            stop: StopPolicy { signal: 15, grace: Duration::from_secs(30) },
            output_limit: 1 << 20,
            ports: Vec::new(),
            counters: false,
            rounds: None,
            progress: false,
            stall: None,
        }
    }

    /// Starts a task; returns whether it was known.
    pub async fn start(&mut self, spec: &TaskSpec) -> bool {
        self.try_start(spec).await.unwrap()
    }

    pub async fn try_start(&mut self, spec: &TaskSpec) -> Result<bool, tonic::Status> {
        let request =
            v1::StartTaskRequest { lease: Some(self.lease.clone()), task: Some(spec.clone().into()) };
        within(self.client.start_task(request)).await.map(|reply| reply.into_inner().known)
    }

    pub async fn stop(&mut self, task: &TaskId, kill: bool) {
        let request = v1::StopTaskRequest { lease: Some(self.lease.clone()), task: task.to_string(), kill };
        within(self.client.stop_task(request)).await.unwrap();
    }

    pub async fn watch(&mut self, from_seq: u64) -> Streaming<v1::TaskEvent> {
        let request = v1::WatchRequest { lease: Some(self.lease.clone()), from_seq };
        within(self.client.watch(request)).await.unwrap().into_inner()
    }

    pub async fn fetch(&mut self, task: &TaskId, stream: v1::Stream) -> Result<Vec<Vec<u8>>, tonic::Status> {
        let lease = Some(self.lease.clone());
        let request = v1::FetchRequest { lease, task: task.to_string(), stream: stream.into() };
        let mut chunks = within(self.client.fetch(request)).await?.into_inner();
        let mut fetched = Vec::new();
        while let Some(chunk) = within(chunks.message()).await? {
            fetched.push(chunk.data.to_vec());
        }
        Ok(fetched)
    }

    pub async fn forget(&mut self, attempts: &[AttemptId]) -> Result<(), tonic::Status> {
        let attempts = attempts.iter().map(ToString::to_string).collect();
        let request = v1::ForgetRequest { lease: Some(self.lease.clone()), attempts };
        within(self.client.forget(request)).await.map(drop)
    }

    /// The next event, of any task.
    pub async fn event(&mut self) -> TaskEvent {
        if self.events.is_none() {
            self.events = Some(self.watch(1).await);
        }
        next(self.events.as_mut().unwrap()).await
    }

    /// The next event of the host.
    pub async fn host_event(&mut self) -> HostEventKind {
        if self.events.is_none() {
            self.events = Some(self.watch(1).await);
        }
        loop {
            if let AgentEvent::Host(HostEvent { kind, .. }) = next_of_all(self.events.as_mut().unwrap()).await
            {
                return kind;
            }
        }
    }

    pub async fn observed(&mut self, attempt: AttemptId, from_byte: u64) -> Vec<u8> {
        let (lease, attempt) = (Some(self.lease.clone()), attempt.to_string());
        let request = v1::FetchObservedRequest { lease, attempt, from_byte };
        let mut chunks = within(self.client.fetch_observed(request)).await.unwrap().into_inner();
        let mut bytes = Vec::new();
        while let Some(chunk) = within(chunks.message()).await.unwrap() {
            bytes.extend_from_slice(&chunk.data);
        }
        bytes
    }

    pub async fn judge(&mut self, attempt: AttemptId) -> v1::JudgeReply {
        let (lease, attempt) = (Some(self.lease.clone()), attempt.to_string());
        within(self.client.judge(v1::JudgeRequest { lease, attempt })).await.unwrap().into_inner()
    }

    /// The summary of an attempt's evidence, and its text.
    pub async fn evidence(&mut self, attempt: AttemptId, sysrq: bool) -> (Completeness, Vec<String>, String) {
        let (lease, attempt) = (Some(self.lease.clone()), attempt.to_string());
        let request = v1::EvidenceRequest { lease, attempt, sysrq };
        let mut chunks = within(self.client.evidence(request)).await.unwrap().into_inner();
        let (mut summary, mut text) = (None, Vec::new());
        while let Some(chunk) = within(chunks.message()).await.unwrap() {
            match chunk.part.unwrap() {
                v1::evidence_chunk::Part::Summary(found) => summary = Some(found),
                v1::evidence_chunk::Part::Data(data) => text.extend_from_slice(&data),
            }
        }
        let summary = summary.unwrap();
        (summary.completeness().try_into().unwrap(), summary.missing, String::from_utf8(text).unwrap())
    }

    /// The next event of one task; those of others are skipped.
    pub async fn event_of(&mut self, task: &TaskId) -> TaskEventKind {
        loop {
            let event = self.event().await;
            if event.task == *task {
                return event.kind;
            }
        }
    }

    /// The end of a task; its other events are skipped.
    pub async fn end_of(&mut self, task: &TaskId) -> TaskEnd {
        loop {
            if let TaskEventKind::Ended(end) = self.event_of(task).await {
                return end;
            }
        }
    }

    /// Starts a task and waits for its end.
    pub async fn run(&mut self, spec: &TaskSpec) -> TaskEnd {
        assert!(!self.start(spec).await);
        self.end_of(&spec.id).await
    }

    /// Starts a task with ready checks and waits until they hold.
    pub async fn run_until_ready(&mut self, spec: &TaskSpec) {
        assert!(!self.start(spec).await);
        loop {
            match self.event_of(&spec.id).await {
                TaskEventKind::Ready { .. } => return,
                TaskEventKind::Ended(end) => panic!("ended before it was ready: {end:?}"),
                _ => {}
            }
        }
    }
}

/// The next event of a stream that is one of a task.
pub async fn next(events: &mut Streaming<v1::TaskEvent>) -> TaskEvent {
    loop {
        if let AgentEvent::Task(event) = next_of_all(events).await {
            return event;
        }
    }
}

/// The next event of a stream.
pub async fn next_of_all(events: &mut Streaming<v1::TaskEvent>) -> AgentEvent {
    let event = within(events.message()).await.unwrap().expect("the stream of events ended");
    event.try_into().unwrap()
}

/// A check that holds once the task has printed `up`.
pub fn says_up() -> Vec<ReadyCheck> {
    vec![ReadyCheck::Log("up".to_owned())]
}

pub fn stdout(end: &TaskEnd) -> String {
    String::from_utf8(end.stdout.inline.clone().expect("no inline output")).unwrap()
}

/// Whether a process is there and no zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
