//! Spawn, contain, watch and kill process trees; place them on CPUs; keep what they print within bounds.
//!
//! Used by the agent service alone, and the only crate of the agent service with unsafe code (all of it in `sys`).
//! Everything here is synchronous and short: the agent drives it from its event loop through the descriptors that
//! [`Child::pidfd`] and [`output_pipe`] give.
//!
//! Life of a task:
//!
//! 1. [`Supervisor::spawn`] starts it in its own session and its own containment. A held task stops right before
//!    `exec` until [`Child::release`].
//! 2. The pidfd becomes readable when its first process ends; [`Child::try_wait`] then gives status and usage.
//! 3. [`Child::is_gone`] tells (cheaply) whether the whole tree is gone. If not, [`Child::kill_tree`] kills it and
//!    returns only when that is proven, or says which process could not be killed.
//! 4. The output pipes are read until they would block: with the tree gone, nothing can come after that.
//! 5. [`Supervisor::reap_strays`] collects adopted zombies.

mod capture;
mod child;
mod config;
mod contain;
mod cpuset;
mod launch;
mod orphans;
mod own_affinity;
mod placement;
pub mod ports;
mod proc;
mod registry;
mod report;
mod supervisor;
mod sys;

pub use capture::{Capture, CaptureError, INLINE_MAX, KeptOutput, Pumped, output_pipe};
pub use child::{Census, Child, GateKey};
pub use config::{Config, Containment, OrphanError, OrphanReport, SetupError};
pub use cpuset::{CpuSet, CpuSetError};
pub use launch::{Launch, SpawnError, clean_env};
pub use own_affinity::{AffinityLost, OwnAffinity};
pub use placement::{PlacementError, allowed_cpus, choose, resolve};
pub use report::{Affinity, AffinityError, Exit, ExitStatus, InspectError, KillError, KillReport, Survivor};
pub use supervisor::Supervisor;
pub use sys::run_first;
