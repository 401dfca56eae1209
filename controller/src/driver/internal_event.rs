//! Everything that can happen to the driver, as one type.

use drover_model::{AttemptId, ErrorCause, HostEvent, HostFacts, Name, TaskEvent, TaskId, Verdict};
use drover_proto::LeaseRef;
use drover_sched::{Event, KnownTask};
use drover_store::StoreEvent;

use super::{
    attempt::Fetched,
    link::{BootOutcome, Connected},
    soak::Recorded,
};
use crate::live::Watcher;

/// Something that happened.
pub enum InternalEvent {
    /// For the scheduler; the driver has nothing to note.
    Scheduler(Event),
    /// What a request made on a connection gave; of no interest once that connection is lost.
    Answer { host: Name, generation: u64, event: Box<InternalEvent> },
    /// A connection stands.
    Connected { host: Name, connected: Box<Connected> },
    /// A connection cannot be made, and trying again would not help.
    Unusable { host: Name, generation: u64, why: String },
    /// What a request to several hosts gave; of no interest once one of these connections is lost.
    JointAnswer { of: Vec<(Name, u64)>, event: Box<InternalEvent> },
    /// A connection broke, or could not be made (`generation` names the one that is meant; late news of an older one
    /// are ignored).
    Lost { host: Name, generation: u64, why: String },
    /// The host is ours.
    Leased { host: Name, generation: u64, lease: LeaseRef, known: Vec<KnownTask> },
    /// An agent reported on a task.
    TaskReported { host: Name, event: Box<TaskEvent> },
    /// An agent reported on its host.
    HostReported { host: Name, event: Box<HostEvent> },
    /// A host keeps these ports for the attempt.
    PortsReserved { attempt: AttemptId, host: Name, ports: Vec<u16> },
    /// A host reaches the service at that place of the matrix, or says why not.
    Reached { attempt: AttemptId, role: usize, host: Name, problem: Option<String> },
    /// A machine was asked again what it is, after the attempt; what is wrong with it, if something is.
    Verified { attempt: AttemptId, host: Name, facts: Box<HostFacts>, problem: Option<Verdict> },
    /// A host was told to boot, and goes down, or does not.
    ToldToBoot { host: Name, generation: u64, attempt: Option<AttemptId>, outcome: BootOutcome },
    /// A host was told how many CPUs to keep online; its facts now, or why it does not.
    CpusSet { host: Name, attempt: AttemptId, count: u32, facts: Result<Box<HostFacts>, Verdict> },
    /// What the attempt left on a host is here, or could not be had.
    Fetched { attempt: AttemptId, host: Name, fetched: Result<Fetched, (ErrorCause, String)> },
    /// Somebody watches the run from now on.
    Watched(Watcher),
    /// The host of a task that says nothing is there.
    Answers { task: TaskId },
    /// The thread that writes series has something to say.
    Recorded(Recorded),
    /// A host gave its evidence of a failed soak, or could not; said in a line for people.
    Evidence { attempt: AttemptId, host: Name, said: String },
    /// The store did something.
    Store(StoreEvent),
}
