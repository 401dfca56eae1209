//! Durable results: runs, attempts, samples, the journal, and the raw outputs they were read from.
//!
//! The driver is the only writer. It locks a [`ResultsDir`], creates the run with all its cells, hands the store to a
//! [`Writer`] and from then on only submits [`Command`]s; `resume` does the same after it has read
//! [`Store::history`] and [`Store::journalled`]. `list`, `show`, `report` and `doctor` open the store for reading,
//! without the lock, also while a controller runs. `reparse` locks it and replaces measurements.
//!
//! Threads: the one that [`Writer::spawn`] starts owns the store until [`Writer::close`] gives it back. One bounded
//! channel leads to it (commands); events leave it by the callback given to `spawn`.
//!
//! ```text
//! drover-results/
//!   drover.db  drover.db-wal  drover.db-shm     SQLite, WAL
//!   drover.lock                                 flock held by the writing controller, with its pid and user
//!   runs/<run id>/drover.log                    its log
//!   runs/<run id>/live.sock                     while its controller lives: where it can be watched
//!   runs/<run id>/c3r1a1/client.0.stdout        raw outputs, where there was output
//!   runs/<run id>/c3r1a1/sensors.web1.bin       samples of the sensors of its hosts
//!   runs/<run id>/c3r1a1/series.csv             points on the way of a soak; timeline.jsonl beside it: what happened
//! ```

mod artifacts;
mod change;
mod error;
mod find;
mod limits;
mod lock;
mod memory;
mod outputs;
mod records;
mod results_dir;
mod samples;
mod series;
mod sqlite;
mod store;
mod views;
mod writer;

pub use artifacts::{ArtifactError, ArtifactFile};
pub use change::{Change, Intent, Quarantine};
pub use error::{DecodeError, StoreError};
pub use find::FindError;
pub use limits::{
    MAX_ARGV_BYTES, MAX_DETAIL_BYTES, MAX_DOUBTS, MAX_RECORD_BYTES, MAX_REPORTED, MAX_SAMPLES,
    MAX_TAIL_BYTES, bounded,
};
pub use lock::{Holder, LockError, WriterLock};
pub use memory::MemoryStore;
pub use outputs::{RawOutput, Stream};
pub use records::{
    AttemptRecord, CellRecord, HostState, MetricRecord, RunRecord, RunResults, RunState, TableLayout,
    TaskRecord,
};
pub use results_dir::{DirError, ResultsDir};
pub use samples::SamplesFile;
pub use series::{
    Damage, MAX_MARK_BYTES, MAX_PENDING_BYTES, MAX_SERIES_BYTES, Mark, MarkKind, Marks, Point, Points,
    Reopened, SeriesError, SeriesReader, SeriesWriter,
};
pub use sqlite::{OpenError, SCHEMA_VERSION, SqliteStore};
pub use store::Store;
pub use views::{AttemptHistory, OutcomeCounts, RunName, RunSummary};
pub use writer::{
    CloseError, Command, CommandError, Failure, MAX_BATCH, QUEUE_LENGTH, StoreEvent, SubmitError, Token,
    Writer,
};
