//! The CPUs that this process was given, kept while CPUs of the host come and go. When all that a thread may use go offline, the
//! kernel lets it use any other, and leaves it so when they are back; cpusets do the same to all of their threads. What tasks
//! inherit would then be another mask than before.

use std::{
    fs, io, thread,
    time::{Duration, Instant},
};

use rustix::io::Errno;

use crate::{CpuSet, allowed_cpus, sys};

/// Longest wait for a cpuset to have CPUs that came back: the kernel tells it a moment later.
const SETTLE: Duration = Duration::from_secs(5);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// The CPUs that this process may use, as of when all of them were online.
#[derive(Clone, Debug)]
pub struct OwnAffinity(CpuSet);

/// Threads of this process cannot be given their CPUs again.
#[derive(Debug, thiserror::Error)]
#[error(
    "the agent may no longer use the CPUs {wanted}, which it was started with (it has {found}); start it anew"
)]
pub struct AffinityLost {
    /// The CPUs it should have.
    pub wanted: CpuSet,
    /// Those that a thread has.
    pub found: CpuSet,
    /// Why.
    pub source: io::Error,
}

impl OwnAffinity {
    /// Those of the calling thread; all threads of the agent have the same. To be read while no CPU is offline that it may use.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn read() -> io::Result<Self> {
        allowed_cpus().map(Self)
    }

    /// Lets all threads use these CPUs again, as far as they are among `online`; where none of them is, the kernel's choice stays.
    /// Changes nothing where they may use just these.
    ///
    /// # Errors
    /// When a thread still may not after a few seconds.
    pub fn settle(&self, online: &CpuSet) -> Result<(), AffinityLost> {
        let wanted = self.0.intersection(online);
        if wanted.is_empty() {
            return Ok(());
        }
        let until = Instant::now() + SETTLE;
        let lost = |found, source| AffinityLost { wanted: wanted.clone(), found, source };
        let threads = fs::read_dir("/proc/self/task").map_err(|error| lost(CpuSet::new(), error))?;
        for entry in threads.flatten() {
            let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            loop {
                let found = match sys::affinity_of(thread) {
                    Err(error) if is_gone(&error) => break,
                    found => found.map_err(|error| lost(CpuSet::new(), error))?,
                };
                if found.intersection(online) == wanted {
                    break;
                }
                // With those that are offline: it shall have them when they come.
                let refused = match sys::set_affinity_of(thread, &self.0) {
                    Err(error) if is_gone(&error) => break,
                    Err(error) => error,
                    Ok(())
                        if sys::affinity_of(thread).is_ok_and(|now| now.intersection(online) == wanted) =>
                    {
                        break;
                    }
                    Ok(()) => io::Error::other("its cpuset lacks some; is it of cgroup v1?"),
                };
                if Instant::now() >= until {
                    return Err(lost(found, refused));
                }
                thread::sleep(PAUSE);
            }
        }
        Ok(())
    }
}

/// Whether a thread has ended meanwhile.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask() -> CpuSet {
        allowed_cpus().unwrap()
    }

    #[test]
    fn expect_a_thread_to_have_its_cpus_again_when_the_kernel_gave_it_others() {
        // Of a thread of its own: what a thread of the test runner has is not ours to change.
        let narrowed = thread::spawn(|| {
            let all = mask();
            let own = OwnAffinity::read().unwrap();
            let one: CpuSet = all.iter().take(1).collect();
            sys::set_affinity_of(0, &one).unwrap();
            // Nothing else is online, or none that it had: nothing to be done.
            own.settle(&one).unwrap();
            own.settle(&CpuSet::new()).unwrap();
            assert_eq!(mask(), one);
            own.settle(&all).unwrap();
            assert_eq!(mask(), all);
            // A CPU that it never had stays out.
            own.settle(&all.union(&[CpuSet::MAX_CPU].into_iter().collect())).unwrap();
            assert_eq!(mask(), all);
        });
        narrowed.join().unwrap();
    }
}
