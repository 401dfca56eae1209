//! Hosts: which there are, how each is reached, and the commands about them.

mod abilities;
mod check;
mod file;
mod list;
mod targets;
mod trial;
mod vms;

pub use abilities::{abilities, unknown_kernels};
pub use check::check_hosts;
pub use file::{load_hosts, restore_hosts};
pub use list::hosts;
pub use targets::{Reaching, setups};
pub use vms::catalogue;
