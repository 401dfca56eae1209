//! Which CPUs a task gets: N distinct physical cores first, then their siblings. Pure; the agent hands in the topology
//! it read and gives the result to `spawn`.

use std::{collections::BTreeSet, io};

use drover_model::{CpuCore, CpuPart, Placement};

use crate::{CpuSet, sys};

/// The CPUs that this thread may use. An agent in a container or under `taskset` has fewer than the host has online, and its tasks
/// cannot have others.
///
/// # Errors
///
/// When the kernel does not say.
pub fn allowed_cpus() -> io::Result<CpuSet> {
    sys::affinity_of(0)
}

/// Why a placement is impossible on a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// No CPU at all was asked for.
    #[error("asks for 0 CPUs; the smallest placement is 1")]
    None,
    /// More CPUs than there are.
    #[error("asks for {asked} CPUs, host has {online} online")]
    TooFew {
        /// CPUs asked for.
        asked: u32,
        /// CPUs that may be used.
        online: usize,
    },
    /// The chosen set is the whole host, so the disjoint side is empty.
    #[error(
        "asks for {asked} of {online} CPUs, which leaves none for the roles placed `disjoint`; ask for fewer CPUs or place them `shared`"
    )]
    NothingLeft {
        /// CPUs asked for.
        asked: u32,
        /// CPUs that may be used.
        online: usize,
    },
}

/// Chooses `count` CPUs out of `cores`: first the lowest CPU of each physical core in the order of CPU numbers, then
/// the second one of each core, and so on. The result depends on nothing but the arguments.
///
/// # Errors
///
/// When `count` is 0 or larger than the number of cores.
pub fn choose(cores: &[CpuCore], count: u32) -> Result<CpuSet, PlacementError> {
    let too_few = PlacementError::TooFew { asked: count, online: cores.len() };
    let wanted = usize::try_from(count).map_err(|_| too_few.clone())?;
    if wanted == 0 {
        return Err(PlacementError::None);
    }
    let mut left: Vec<CpuCore> = cores.to_vec();
    left.sort_by_key(|core| core.cpu);
    left.dedup_by_key(|core| core.cpu);
    if wanted > left.len() {
        return Err(too_few);
    }
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        // One round takes one CPU of every physical core that has any left.
        let mut taken = BTreeSet::new();
        left.retain(|core| {
            let first = taken.insert((core.package, core.core));
            if first {
                order.push(core.cpu);
            }
            !first
        });
    }
    Ok(order.into_iter().take(wanted).collect())
}

/// The CPUs that a placement means on this host.
///
/// # Errors
///
/// When the host has too few CPUs, or none is left outside of the chosen ones.
pub fn resolve(cores: &[CpuCore], placement: Placement) -> Result<CpuSet, PlacementError> {
    let chosen = choose(cores, placement.count)?;
    match placement.part {
        CpuPart::Inside => Ok(chosen),
        CpuPart::Outside => {
            let all: CpuSet = cores.iter().map(|core| core.cpu).collect();
            let rest = all.difference(&chosen);
            if rest.is_empty() {
                return Err(PlacementError::NothingLeft { asked: placement.count, online: all.len() });
            }
            Ok(rest)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of two cores with two threads each; siblings are `n` and `n + 4`, as Linux numbers them on x86.
    fn smt() -> Vec<CpuCore> {
        (0..8).map(|cpu| CpuCore { cpu, core: cpu % 2, package: cpu % 4 / 2, node: cpu % 4 / 2 }).collect()
    }

    /// Siblings are neighbours: 0 and 1 share a core, as virtual machines often show it.
    fn adjacent() -> Vec<CpuCore> {
        (0..8).map(|cpu| CpuCore { cpu, core: cpu / 2, package: 0, node: 0 }).collect()
    }

    fn list(cores: &[CpuCore], count: u32) -> String {
        choose(cores, count).unwrap().to_string()
    }

    #[test]
    fn expect_distinct_cores_before_siblings_when_cpus_are_chosen() {
        assert_eq!(list(&smt(), 1), "0");
        assert_eq!(list(&smt(), 4), "0-3");
        assert_eq!(list(&smt(), 5), "0-4");
        assert_eq!(list(&adjacent(), 2), "0,2");
        assert_eq!(list(&adjacent(), 4), "0,2,4,6");
        assert_eq!(list(&adjacent(), 5), "0-2,4,6");
        assert_eq!(list(&adjacent(), 8), "0-7");
    }

    #[test]
    fn expect_the_rest_when_the_disjoint_side_is_asked_for() {
        let outside = |count| resolve(&adjacent(), Placement { count, part: CpuPart::Outside });
        assert_eq!(outside(4).unwrap().to_string(), "1,3,5,7");
        assert_eq!(outside(8), Err(PlacementError::NothingLeft { asked: 8, online: 8 }));
        let inside = resolve(&adjacent(), Placement { count: 8, part: CpuPart::Inside });
        assert_eq!(inside.unwrap().to_string(), "0-7");
    }

    #[test]
    fn expect_both_numbers_in_the_message_when_the_host_is_too_small() {
        let error = choose(&adjacent()[..2], 4).unwrap_err();
        assert_eq!(error.to_string(), "asks for 4 CPUs, host has 2 online");
        assert_eq!(choose(&adjacent(), 0), Err(PlacementError::None));
    }
}
