//! Everything of this crate that needs `unsafe`, behind safe wrappers.
//!
//! Pre-forking real processes, memory they share, and the two kinds of semaphore have no safe interface in Rust.
//! They are confined to this folder; nothing outside of it contains `unsafe`.

#![expect(unsafe_code, reason = "fork, shared memory, signal handlers and semaphores have no safe interface")]

mod process;
mod robust_mutex;
mod semaphore;
mod shared;
mod signals;
mod socket;
mod stop;
mod sysv;

pub(crate) use process::{ForkError, Usage, fork_worker, reap, usage_of_self};
pub(crate) use robust_mutex::RobustMutex;
pub(crate) use semaphore::SharedSemaphore;
pub(crate) use shared::Shared;
pub(crate) use signals::{Notice, SignalFd};
pub(crate) use socket::choose_port_at_connect;
pub(crate) use stop::{STOP_SIGNAL, Stop};
pub(crate) use sysv::SysvSemaphore;
