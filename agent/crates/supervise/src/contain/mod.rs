//! Ways to keep a process tree together, and to end it for certain.

mod cgroup1;
mod cgroup2;
mod destroy;
mod group;
mod mounts;
mod slots;

use cgroup1::Cgroup1;
use cgroup2::Cgroup2;
pub(crate) use destroy::{Tree, destroy, wait_for};
pub(crate) use group::{Group, MARKER, Marked, is_foreign};
pub(crate) use mounts::CgroupPlaces;
pub(crate) use slots::{Slot, SlotKind, Slots, left_behind, remove};
