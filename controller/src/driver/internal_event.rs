//! Everything that can happen to the driver, as one type.

use drover_model::{AttemptId, Name, TaskEvent};
use drover_proto::LeaseRef;
use drover_sched::{Event, KnownTask};
use drover_store::StoreEvent;

use super::{attempt::Outputs, link::Connected};

/// Something that happened.
pub enum InternalEvent {
    /// For the scheduler; the driver has nothing to note.
    Scheduler(Event),
    /// What a request made on a connection gave; of no interest once that connection is lost.
    Answer { generation: u64, event: Box<InternalEvent> },
    /// A connection stands.
    Connected { host: Name, connected: Box<Connected> },
    /// A connection broke, or could not be made (`generation` names the one that is meant; late news of an older one
    /// are ignored).
    Lost { host: Name, generation: u64, why: String },
    /// The host is ours.
    Leased { host: Name, generation: u64, lease: LeaseRef, known: Vec<KnownTask> },
    /// An agent reported on a task.
    TaskReported { event: Box<TaskEvent> },
    /// The agent keeps these ports for the attempt.
    PortsReserved { attempt: AttemptId, ports: Vec<u16> },
    /// The outputs that were too long to travel with their events are here, or could not be had.
    Fetched { attempt: AttemptId, outputs: Result<Outputs, String> },
    /// The store did something.
    Store(StoreEvent),
}
