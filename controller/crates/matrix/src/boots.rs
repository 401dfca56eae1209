//! How often hosts are booted while a plan is worked off, as far as that can be told before.
//!
//! A host that is under test is booted whenever the next cell asks for another machine than the last one did: a virtual
//! machine for another kernel or another number of CPUs, another host for a kernel that its file says how to boot, and for
//! CPUs if it gets those by booting. What is booted at the end to leave a host as it was is counted as well.

use std::{collections::BTreeMap, time::Duration};

use drover_model::AxisValue;

use crate::{
    decode::HOST,
    hosts::{HostEntry, HostFile, Reach},
    matrix::Matrix,
    plan::Plan,
    spec::{Role, Spread},
};

/// How often hosts are booted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Boots {
    /// How often, at most.
    pub count: u64,
    /// It is exactly so often, if nothing fails and the plan is worked off from its begin.
    pub is_exact: bool,
    /// Longest time that all of them may take together.
    pub longest: Duration,
}

/// Counts the boots of a plan on the hosts of a file.
#[must_use]
pub fn boots(matrix: &Matrix, plan: &Plan, hosts: &HostFile) -> Boots {
    let mut boots = Boots { is_exact: true, ..Boots::default() };
    let under_test = UnderTest::of(matrix, hosts);
    if under_test.candidates.iter().all(|host| !is_booted(host)) {
        return boots;
    }
    let pinned = matrix.policy().spread == Spread::Each;
    // Hosts work their groups off one after the other; in which order those come that may run on several hosts, nobody
    // knows before. What each costs does not depend on it.
    let mut courses: BTreeMap<u32, Vec<Course>> = BTreeMap::new();
    let one_course = !pinned && matrix.keeps_plan_order(hosts);
    let values = Values::of(matrix);
    for trial in plan {
        let group = if one_course { 0 } else { matrix.group_of(trial.cell) };
        let on = values.host(trial.cell).filter(|_| pinned);
        let courses = courses.entry(group).or_insert_with(|| {
            let here = |host: &&&HostEntry| on.is_none_or(|name| host.name.as_str() == &**name);
            under_test.candidates.iter().filter(here).map(|host| Course::of(host)).collect()
        });
        courses
            .iter_mut()
            .for_each(|course| course.go_on(values.kernel(trial.cell), values.cpus(trial.cell)));
    }
    // What a host ends one group as may be what it begins the next one as.
    boots.is_exact = if pinned { under_test.same_pool } else { courses.len() <= 1 };
    for courses in courses.into_values() {
        let mut costs: Vec<(u64, Duration)> = courses.into_iter().map(Course::end).collect();
        costs.sort_by(|a, b| b.cmp(a));
        let needed = if pinned { costs.len() } else { under_test.needed.min(costs.len()) };
        let all_alike = costs.first() == costs.last();
        // Which kernel and CPUs a real host is found with is not known before; it needs no boot for those.
        let is_known = under_test
            .candidates
            .iter()
            .all(|host| matches!(host.reach, Reach::Vm(_)) || host.boot.is_none())
            || costs.iter().all(|(count, _)| *count == 0);
        let surely = costs.len() == needed || all_alike && under_test.is_one_role;
        // With mixed hosts, each may get trials of all kinds.
        let mixed = !pinned && matrix.policy().mix_hosts && costs.len() > needed;
        boots.is_exact &= surely && is_known && !mixed;
        let counted = if mixed { costs.len() } else { needed };
        for (count, limit) in costs.iter().take(counted) {
            boots.count = boots.count.saturating_add(*count);
            let longest = limit.saturating_mul(u32::try_from(*count).unwrap_or(u32::MAX));
            boots.longest = boots.longest.saturating_add(longest);
        }
    }
    boots
}

impl Matrix {
    /// Whether all trials run on the same hosts, whatever they are compared with: there is no other choice in this file.
    /// They then run in the order of the plan, and not one table after the other.
    #[must_use]
    pub fn keeps_plan_order(&self, hosts: &HostFile) -> bool {
        let has_no_choice = |role: &Role| {
            role.same_host_as.is_some()
                || u32::try_from(hosts.matching(&role.on).len()).is_ok_and(|found| found == role.hosts)
        };
        self.policy().spread == Spread::Any && self.roles().iter().all(has_no_choice)
    }
}

/// Whether Drover boots a host at all.
fn is_booted(host: &HostEntry) -> bool {
    matches!(host.reach, Reach::Vm(_)) || host.boot.is_some()
}

/// The hosts that cells may be about: those of services, or of all roles where there is no service.
struct UnderTest<'a> {
    candidates: Vec<&'a HostEntry>,
    /// How many of them one trial needs at most.
    needed: usize,
    /// They are all of one role.
    is_one_role: bool,
    /// All of these roles may run on the same hosts.
    same_pool: bool,
}

impl<'a> UnderTest<'a> {
    fn of(matrix: &Matrix, hosts: &'a HostFile) -> Self {
        let any_service = matrix.roles().iter().any(Role::is_service);
        let counts = |role: &&Role| !any_service || role.is_service();
        let leader = |role: &Role| {
            let other = role.same_host_as.as_ref()?;
            matrix.roles().iter().find(|role| role.name == *other)
        };
        let mut roles: Vec<&Role> = matrix.roles().iter().filter(counts).collect();
        for role in &mut roles {
            // The chain is no circle, and no longer than there are roles.
            for _ in matrix.roles() {
                match leader(role) {
                    Some(other) => *role = other,
                    None => break,
                }
            }
        }
        roles.sort_by(|a, b| a.name.cmp(&b.name));
        roles.dedup_by(|a, b| a.name == b.name);
        let same_pool = roles.windows(2).all(|pair| pair[0].on == pair[1].on);
        let mut places: Vec<usize> = roles.iter().flat_map(|role| hosts.matching(&role.on)).collect();
        places.sort_unstable();
        places.dedup();
        let needed = roles.iter().map(|role| usize::try_from(role.hosts).unwrap_or(usize::MAX));
        Self {
            candidates: places.into_iter().filter_map(|place| hosts.hosts.get(place)).collect(),
            needed: needed.fold(0, usize::saturating_add),
            is_one_role: roles.len() == 1,
            same_pool,
        }
    }
}

/// The values that machines depend on.
struct Values<'a> {
    matrix: &'a Matrix,
    axes: [Option<usize>; 3],
}

impl<'a> Values<'a> {
    fn of(matrix: &'a Matrix) -> Self {
        let space = &matrix.expansion().space;
        Self { matrix, axes: ["kernel", "cpus", HOST].map(|name| space.axis(name)) }
    }

    fn value(&self, cell: u32, axis: usize) -> Option<&'a AxisValue> {
        let space = &self.matrix.expansion().space;
        self.axes.get(axis).copied().flatten().and_then(|axis| space.value(cell, axis))
    }

    /// `None` for whatever runs.
    fn kernel(&self, cell: u32) -> Option<&'a str> {
        self.value(cell, 0).map(|kernel| &**kernel).filter(|kernel| *kernel != "running")
    }

    fn cpus(&self, cell: u32) -> Option<&'a str> {
        self.value(cell, 1).map(|cpus| &**cpus)
    }

    fn host(&self, cell: u32) -> Option<&'a AxisValue> {
        self.value(cell, 2)
    }
}

/// What a host has to be, one after the other.
struct Course<'a> {
    host: &'a HostEntry,
    /// The machine that it is; `None` before it was booted, and once it is as it was found.
    now: Option<Machine<'a>>,
    boots: u64,
}

/// A kernel, `None` for the usual one, and CPUs, `None` for as many as there are.
type Machine<'a> = (Option<&'a str>, Option<u32>);

impl<'a> Course<'a> {
    fn of(host: &'a HostEntry) -> Self {
        Self { host, now: None, boots: 0 }
    }

    /// The next cell asks for this.
    fn go_on(&mut self, kernel: Option<&'a str>, cpus: Option<&'a str>) {
        let host = self.host;
        let cpus = cpus.and_then(|cpus| cpus.parse().ok()).filter(|_| host.boots_for_cpus());
        let next = match (&host.reach, &host.boot) {
            (Reach::Vm(vm), _) => Some((Some(kernel.unwrap_or(&vm.kernel)), Some(cpus.unwrap_or(vm.cpus)))),
            // A kernel that it cannot boot is the one that it was found with, or none.
            (_, Some(boot)) => Some((kernel.filter(|label| boot.kernel(label).is_some()), cpus))
                .filter(|machine| *machine != (None, None)),
            (_, None) => None,
        };
        if self.now != next {
            self.boots += 1;
            self.now = next;
        }
    }

    /// How often it was booted in the end, and the longest time of one boot.
    fn end(self) -> (u64, Duration) {
        match (&self.host.reach, &self.host.boot) {
            (Reach::Vm(vm), _) => (self.boots, vm.boot),
            (_, Some(boot)) => (self.boots + u64::from(self.now.is_some()), boot.within),
            _ => (0, Duration::ZERO),
        }
    }
}
