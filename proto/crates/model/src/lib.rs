//! The words of Drover as plain types, shared by the controller and the agent.
//!
//! No I/O, no tokio, no protobuf: the pure crates (`matrix`, `sched`) depend on this one alone, and the wire format
//! (`drover-proto`) converts to and from it at the edge.

mod cell;
mod host;
mod ids;
mod metric;
mod parser;
mod seats;
mod task;
mod verdict;

pub use cell::{AxisValue, Cell, CellKey};
pub use host::{CpuCore, HostFacts, LeaseInfo};
pub use ids::{AttemptId, IdError, LeaseEpoch, Name, NameError, RunId, TaskId, TrialId};
pub use metric::{Direction, Doubt, DoubtKind, Measurement, Sample};
pub use parser::{ParserSpec, Tool};
pub use seats::{Seats, SeatsError};
pub use task::{
    Counters, CpuPart, EndKind, NotStarted, OutputSummary, Placement, ReadyCheck, StagedFile, StopPolicy,
    TaskEnd, TaskEvent, TaskEventKind, TaskSpec, Usage,
};
pub use verdict::{ErrorCause, MissingCause, NgCause, Outcome, Verdict};
