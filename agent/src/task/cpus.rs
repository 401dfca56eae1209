//! Which CPUs a task's processes may use, read back from the kernel.

use drover_model::TaskId;
use drover_supervise::{Child, CpuSet};
use rustix::{
    process::Pid,
    thread::{CpuSet as KernelSet, sched_getaffinity},
};

use crate::text::chain;

/// The CPUs that the first process may use. The kernel still knows them when it has ended already.
pub(super) fn of_first_process(child: &Child, id: &TaskId) -> CpuSet {
    let pid = i32::try_from(child.pid()).ok().and_then(Pid::from_raw);
    match pid.map(|pid| sched_getaffinity(Some(pid))) {
        Some(Ok(mask)) => (0_u32..).take(KernelSet::MAX_CPU).filter(|&cpu| is_set(&mask, cpu)).collect(),
        // A machine with more CPUs than that call knows.
        _ => of_all_threads(child, id),
    }
}

/// The CPUs that any thread of the tree may use; none if no thread is left.
pub(super) fn of_all_threads(child: &Child, id: &TaskId) -> CpuSet {
    match child.affinity() {
        Ok(affinity) => affinity.union,
        Err(error) => {
            tracing::warn!(task = %id, error = %chain(&error), "its CPUs cannot be read");
            CpuSet::new()
        }
    }
}

fn is_set(mask: &KernelSet, cpu: u32) -> bool {
    usize::try_from(cpu).is_ok_and(|cpu| mask.is_set(cpu))
}
