//! Takes CPUs offline and brings them back, by the kernel's CPU hotplug. Called by the agent, which writes down what is about to
//! be changed before it calls [`change`], and calls [`put_back`] afterwards.
//!
//! An offline CPU tells nothing of its place: its core, package and node have to be read while it is online. So [`Sysfs::cpus`]
//! is read once, when nothing is changed yet, and kept with what was online then; everything else works on that.
//!
//! | module | is for |
//! |---|---|
//! | `order` | which CPUs stay for a count: pure |
//! | `switch` | makes a set of CPUs the online one, checks, and puts back when that fails |
//! | `sysfs` | the kernel's files |
//! | `cpusets` | cpusets of cgroup v1, which lose CPUs that go offline |

mod cpusets;
mod order;
mod switch;
mod sysfs;

pub use cpusets::{Cpuset, CpusetError, Cpusets};
pub use order::{ChoiceError, Cpu, choose};
pub use switch::{ChangeError, PutBackError, Switches, change, put_back};
pub use sysfs::Sysfs;
