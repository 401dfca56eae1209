//! A cgroup of version 2: `cgroup.kill` (Linux 5.14) ends it as a whole; before that it is frozen and its processes are killed one by one.

use std::{io, sync::atomic::Ordering};

use super::{Slot, destroy::signal_each};

pub(crate) struct Cgroup2<'a>(pub(super) &'a Slot);

impl Cgroup2<'_> {
    /// `populated` of `cgroup.events` counts the processes of all cgroups below, and no zombies.
    pub(super) fn is_empty(&self) -> io::Result<bool> {
        let Some(events) = &self.0.events else { return Ok(false) };
        let mut buffer = [0_u8; 64];
        let length = rustix::io::pread(events, &mut buffer, 0)?;
        let text = buffer.get(..length).unwrap_or_default();
        Ok(text.split(|&byte| byte == b'\n').any(|line| line == b"populated 0"))
    }

    pub(super) fn strike(&self, processes: &[u32]) -> io::Result<()> {
        self.0.spent.store(true, Ordering::Relaxed);
        match self.0.write("cgroup.kill", "1") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Frozen processes fork no more, and are killed all the same.
                let frozen = self.0.write("cgroup.freeze", "1");
                signal_each(processes);
                if frozen.is_ok() {
                    self.0.write("cgroup.freeze", "0")?;
                }
                Ok(())
            }
            other => other,
        }
    }
}
