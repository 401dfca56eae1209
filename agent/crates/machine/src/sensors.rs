//! Sensors: what the machine and the process trees of tasks do, second by second.
//!
//! The agent makes one [`Sensors`] for an attempt and calls [`Sensors::read`] at [`INTERVAL`]; it puts each
//! [`Sample`] through an [`Encoder`] into the spool, and whoever reads the results takes a [`Decoder`]. Nothing here has
//! a thread or a timer, and reading allocates only when a file shows something that it did not show before.
//!
//! | module | is for |
//! |---|---|
//! | `schema`, `sample` | what is measured, and one reading of it |
//! | `sampler` | opens the sources and reads them all |
//! | `machine`, `network`, `frequency`, `tasks` | the sources: parsers of the kernel's files |
//! | `process` | one process of a task |
//! | `file`, `text`, `layout`, `sink` | reading files again and again, taking them apart without allocation |
//! | `codec` | samples as compressed, checksummed blocks |
//! | `rates` | differences between samples |
//! | `flag`, `judge` | reasons to doubt what was measured meanwhile |

mod codec;
mod file;
mod frequency;
mod judge;
mod layout;
mod machine;
mod network;
mod process;
mod rates;
mod sample;
mod sampler;
mod schema;
mod sink;
mod tasks;
mod text;

pub use codec::{Block, Damage, Decoder, EncodeError, Encoder};
pub use judge::{Context, judge};
pub use process::{Waiting, waiting};
pub use rates::{Delta, RatePoint, Rates, delta, rates};
pub use sample::{Sample, Value};
pub use sampler::{INTERVAL, SensorOptions, Sensors, SensorsError};
pub use schema::{MAX_SERIES, Schema, Series, SeriesId, SeriesKind, ValueType};
pub use tasks::TaskProcesses;
