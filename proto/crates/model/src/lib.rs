//! The words of Drover as plain types, shared by the controller and the agent.
//!
//! No I/O, no tokio, no protobuf: the pure crates (`matrix`, `sched`) depend on this one alone, and the wire format
//! (`drover-proto`) converts to and from it at the edge.

mod artifact;
mod blob;
mod boot;
mod cell;
mod doubt;
mod host;
mod ids;
mod metric;
mod observation;
mod parser;
mod seats;
mod survey;
mod task;
mod verdict;

pub use artifact::{Artifact, Artifacts};
pub use blob::{BlobHash, HashError};
pub use boot::{BootOnce, NONCE_KEY};
pub use cell::{AxisValue, Cell, CellKey};
pub use doubt::{Doubt, DoubtKind};
pub use host::{CpuCore, HostFacts, HostFeature, LeaseInfo};
pub use ids::{AttemptId, IdError, LeaseEpoch, Name, NameError, RunId, TaskId, TrialId};
pub use metric::{Direction, Measurement, Sample};
pub use observation::{AgentEvent, Completeness, HostEvent, HostEventKind, KernelHint};
pub use parser::{ParserSpec, Tool};
pub use seats::{Seats, SeatsError};
pub use survey::{Leftover, Survey, TakenPort};
pub use task::{
    Blob, Counters, CpuPart, EndKind, NotStarted, OutputSummary, Placement, ReadyCheck, RoundEnd, Rounds,
    StagedFile, StopPolicy, TaskEnd, TaskEvent, TaskEventKind, TaskSpec, Usage,
};
pub use verdict::{ErrorCause, MissingCause, NgCause, Outcome, Verdict};
