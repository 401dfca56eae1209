//! The system calls that need unsafe code, behind safe functions. Nothing outside of this folder is unsafe.

mod affinity;
mod clone;
mod image;
mod signal;
mod urgent;
#[cfg(target_arch = "x86_64")]
mod vfork;
#[cfg(not(target_arch = "x86_64"))]
#[path = "no_vfork.rs"]
mod vfork;
mod wait;

pub(crate) use affinity::{affinity_of, set_affinity_of};
pub(crate) use clone::{
    CloneError, Entry, Start, exec_failure, open_gate, probe_entry, start_held, start_now,
};
pub(crate) use image::{Failure, Image, NOT_ALL, Step};
pub(crate) use signal::send_signal;
pub use urgent::run_first;
pub(crate) use vfork::VforkStack;
pub(crate) use wait::{Ended, own_peak_rss_bytes, peek_ended_child, reap};
