//! The live view of a run: what the controller tells those who watch it, over a Unix socket in the run's folder that only its
//! user can open; how that looks at a terminal; and the request to stop, which comes the same way.
//!
//! The controller serves, `attach` and `stop` are its clients. A client that does not read is skipped, never waited for.

mod client;
mod server;
mod sight;
mod view;

pub use client::{Client, ConnectError, FollowError};
pub use server::{Server, Watcher, Wishes};
pub use sight::{Hello, Left, Sight, Standing, TrialLine, VERSION, stopping};
pub use view::View;
