//! Which CPUs stay online for a count. Pure.
//!
//! All CPUs have one order, of which a count takes the first ones, so fewer CPUs are always some of those that more CPUs are:
//!
//! 1. CPUs that cannot go: CPU 0, and those that the kernel has no switch for.
//! 2. One thread of every core that has none yet, the lowest CPU of each. Then the second thread of every core, and so on.
//! 3. Among equals: the package of the lowest CPU first, then the others by number; within a package by NUMA node, again
//!    beginning with that of the lowest CPU; then by CPU number. So a package is filled before another one is used.
//!
//! Cores of different kinds in one machine (P and E cores, big and little ones) are all cores: their kind is not looked at. Which
//! of them come first is how the firmware has numbered them; on Intel's machines those are the P cores, and the second threads
//! of the P cores come after all E cores.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::source::list_of;

/// A CPU and its place, as of when it was online.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// The kernel's number of it.
    pub number: u32,
    /// The lowest CPU of its core: threads of one core have the same.
    pub core: u32,
    /// Package (socket).
    pub package: u32,
    /// NUMA node.
    pub node: u32,
    /// It cannot be taken offline.
    pub fixed: bool,
}

/// Why a count of CPUs cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// There are fewer.
    #[error(
        "asks for {asked} CPUs, and the host has {online} ({}); those that were offline before Drover came stay offline",
        list_of(cpus.iter().copied())
    )]
    TooMany {
        /// CPUs asked for.
        asked: u32,
        /// CPUs there are.
        online: usize,
        /// Their numbers.
        cpus: Vec<u32>,
    },
    /// More than that cannot be taken offline.
    #[error(
        "asks for {asked} CPUs, and CPUs {} of this host cannot be taken offline; boot with nr_cpus={asked}, or use affinity",
        list_of(fixed.iter().copied())
    )]
    Fixed {
        /// CPUs asked for.
        asked: u32,
        /// Those that cannot go.
        fixed: Vec<u32>,
    },
}

/// The CPUs that stay online for a count, out of those that were online when nothing was changed.
///
/// # Errors
/// When there are fewer, or more of them cannot go.
pub fn choose(cpus: &[Cpu], count: u32) -> Result<BTreeSet<u32>, ChoiceError> {
    let all = || cpus.iter().map(|cpu| cpu.number).collect::<BTreeSet<_>>();
    let fixed: BTreeSet<u32> = cpus.iter().filter(|cpu| cpu.fixed).map(|cpu| cpu.number).collect();
    let wanted = usize::try_from(count).unwrap_or(usize::MAX);
    if wanted > all().len() {
        let cpus: Vec<u32> = all().into_iter().collect();
        return Err(ChoiceError::TooMany { asked: count, online: cpus.len(), cpus });
    }
    if wanted < fixed.len().max(1) {
        return Err(ChoiceError::Fixed { asked: count, fixed: fixed.into_iter().collect() });
    }
    Ok(order(cpus).into_iter().take(wanted).collect())
}

/// All CPUs, the first to stay first.
fn order(cpus: &[Cpu]) -> Vec<u32> {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable_by_key(|cpu| (!cpu.fixed, cpu.number));
    cpus.dedup_by_key(|cpu| cpu.number);
    // The lowest CPU of a package or node says when its turn is.
    let mut package_first: BTreeMap<u32, u32> = BTreeMap::new();
    let mut node_first: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for cpu in &cpus {
        let first = package_first.entry(cpu.package).or_insert(cpu.number);
        *first = cpu.number.min(*first);
        let first = node_first.entry((cpu.package, cpu.node)).or_insert(cpu.number);
        *first = cpu.number.min(*first);
    }
    let lowest = |set: &BTreeMap<u32, u32>| set.values().copied().min();
    let begin = lowest(&package_first);
    let turn = |cpu: &Cpu| {
        let first = package_first.get(&cpu.package).copied();
        let node = node_first.get(&(cpu.package, cpu.node)).copied();
        // By number, but the package of the lowest CPU before all others.
        (first != begin, cpu.package, node != first, cpu.node, cpu.number)
    };
    let mut taken: BTreeMap<u32, u32> = BTreeMap::new();
    let mut ranked: Vec<_> = Vec::with_capacity(cpus.len());
    for cpu in &cpus {
        let rank = taken.entry(cpu.core).or_insert(0);
        ranked.push((!cpu.fixed, *rank, turn(cpu)));
        *rank = rank.saturating_add(1);
    }
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, _, (.., number))| number).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cpu(number: u32, core: u32, package: u32, node: u32) -> Cpu {
        Cpu { number, core, package, node, fixed: number == 0 }
    }

    /// Threads are neighbours: 0 and 1 share a core.
    fn neighbours(cpus: u32) -> Vec<Cpu> {
        (0..cpus).map(|n| cpu(n, n / 2 * 2, 0, 0)).collect()
    }

    #[test]
    fn expect_whole_cores_first_and_siblings_last_when_cpus_are_chosen() {
        assert_eq!(order(&neighbours(4)), [0, 2, 1, 3]);
        // Two packages of two cores with two threads, numbered as Linux does it on most servers.
        let server: Vec<Cpu> = (0..8).map(|n| cpu(n, n % 4, n % 4 / 2, n % 4 / 2)).collect();
        assert_eq!(order(&server), [0, 1, 2, 3, 4, 5, 6, 7]);
        // Some firmware deals the numbers out to the packages in turn: one package is filled first even so.
        let dealt: Vec<Cpu> = (0..8).map(|n| cpu(n, n % 4, n % 2, n % 2)).collect();
        assert_eq!(order(&dealt), [0, 2, 1, 3, 4, 6, 5, 7]);
        // Four nodes in one package, and the boot CPU in the second of them.
        let nodes: Vec<Cpu> = (0..8).map(|n| cpu(n, n, 0, [1, 1, 0, 0, 2, 2, 3, 3][n as usize])).collect();
        assert_eq!(order(&nodes), [0, 1, 2, 3, 4, 5, 6, 7]);
        // The boot CPU is in the second package.
        let second: Vec<Cpu> = (0..4).map(|n| cpu(n, n, 1 - n / 2, 0)).collect();
        assert_eq!(order(&second), [0, 1, 2, 3]);
    }

    #[test]
    fn expect_the_second_threads_of_fast_cores_last_when_cores_are_of_two_kinds() {
        // Two P cores with two threads, four E cores with one.
        let hybrid: Vec<Cpu> = (0..8).map(|n| cpu(n, if n < 4 { n / 2 * 2 } else { n }, 0, 0)).collect();
        assert_eq!(order(&hybrid), [0, 2, 4, 5, 6, 7, 1, 3]);
    }

    #[test]
    fn expect_those_that_cannot_go_first_and_the_reason_when_they_are_too_many() {
        let mut cpus = neighbours(8);
        cpus[1].fixed = true;
        cpus[7].fixed = true;
        assert_eq!(order(&cpus), [0, 7, 1, 2, 4, 3, 5, 6]);
        let error = choose(&cpus, 2).unwrap_err();
        assert!(error.to_string().contains("CPUs 0-1,7 of this host cannot be taken offline"), "{error}");
        let error = choose(&cpus, 9).unwrap_err();
        assert!(error.to_string().contains("asks for 9 CPUs, and the host has 8 (0-7)"), "{error}");
        assert!(matches!(choose(&neighbours(2), 0), Err(ChoiceError::Fixed { asked: 0, .. })));
    }

    fn machine() -> impl Strategy<Value = Vec<Cpu>> {
        // Packages, nodes per package, cores per node, threads, how numbers are dealt, which CPUs cannot go.
        let shape = (1_u32..4, 1_u32..3, 1_u32..5, 1_u32..5, any::<bool>());
        (shape, proptest::collection::vec(any::<u8>(), 0..4), any::<u64>()).prop_map(
            |(shape, fixed, seed)| {
                let (packages, nodes, cores, threads, neighbours) = shape;
                let all = packages * nodes * cores;
                let mut cpus = Vec::new();
                for core in 0..all {
                    for thread in 0..threads {
                        let number = if neighbours { core * threads + thread } else { thread * all + core };
                        let lowest = if neighbours { core * threads } else { core };
                        let package = core / (nodes * cores);
                        let node = core / cores;
                        let fixed = number == 0 || fixed.iter().any(|&n| u32::from(n) == number);
                        cpus.push(Cpu { number, core: lowest, package, node, fixed });
                    }
                }
                // The order in which they are told must not matter.
                let place = usize::try_from(seed % 1000).unwrap() % cpus.len();
                cpus.rotate_left(place);
                cpus
            },
        )
    }

    proptest! {
        #[test]
        fn invariant_more_cpus_are_fewer_cpus_and_some_others(cpus in machine()) {
            let least = cpus.iter().filter(|cpu| cpu.fixed).count();
            let mut fewer = BTreeSet::new();
            for count in least..=cpus.len() {
                let chosen = choose(&cpus, u32::try_from(count).unwrap()).unwrap();
                prop_assert_eq!(chosen.len(), count);
                prop_assert!(chosen.is_superset(&fewer));
                fewer = chosen;
            }
        }

        #[test]
        fn invariant_no_core_has_a_second_thread_before_all_have_one(cpus in machine()) {
            let least = cpus.iter().filter(|cpu| cpu.fixed).count();
            for count in least..=cpus.len() {
                let chosen = choose(&cpus, u32::try_from(count).unwrap()).unwrap();
                let mut threads: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
                for cpu in &cpus {
                    let (all, on) = threads.entry(cpu.core).or_default();
                    *all += 1;
                    // Those that cannot go are no choice.
                    *on += u32::from(chosen.contains(&cpu.number));
                }
                let by_choice = cpus.iter().filter(|cpu| chosen.contains(&cpu.number) && !cpu.fixed);
                let deepest = by_choice.map(|cpu| threads[&cpu.core].1).max().unwrap_or(0);
                for (core, (all, on)) in &threads {
                    prop_assert!(on + 1 >= deepest.min(*all), "core {} has {} of {}", core, on, all);
                }
            }
        }

        #[test]
        fn invariant_what_cannot_go_stays_and_the_order_of_telling_does_not_matter(cpus in machine()) {
            let mut sorted = cpus.clone();
            sorted.sort_unstable_by_key(|cpu| cpu.number);
            prop_assert_eq!(order(&cpus), order(&sorted));
            let fixed: BTreeSet<u32> = cpus.iter().filter(|c| c.fixed).map(|c| c.number).collect();
            let least = choose(&cpus, u32::try_from(fixed.len()).unwrap()).unwrap();
            prop_assert_eq!(least, fixed);
        }
    }
}
