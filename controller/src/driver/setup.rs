//! From a matrix and its hosts to the scheduler's plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use drover_connect::Target;
use drover_matrix::{
    Axis, Boot, CpusBy, ExitStatuses, HostFile, HostLimits, Matrix, Plan as Trials, Power, Reach,
    ReadyTemplate, Role, Spread,
};
use drover_model::{Name, RunId, TrialId};
use drover_sched::{
    Group, Order, Plan, PlanError, PowerPolicy, Reconnect, RoleKind, RoleShape, Scheduler, StatusPolicy,
};

use super::soak::Times;

/// Attempts journalled ahead, so that short trials need not wait for the disk one by one.
const JOURNAL_WINDOW: u32 = 64;
/// Attempts over on their hosts and not yet stored.
const UNSTORED_LIMIT: u32 = 16;
/// Time an agent has to report what it does by itself at a deadline.
const MARGIN: Duration = Duration::from_secs(30);

/// The agent of this machine is started again, not waited for: when that fails three times, it will not succeed.
const LOCAL_RECONNECT: Reconnect =
    Reconnect { tries: 3, first_delay: Duration::from_millis(200), max_delay: Duration::from_secs(1) };

/// A link that is cut for less than this is no lost host: some 40 s, with what a try itself takes.
const REMOTE_RECONNECT: Reconnect =
    Reconnect { tries: 8, first_delay: Duration::from_millis(250), max_delay: Duration::from_secs(8) };

/// A host of the run.
#[derive(Clone, Debug)]
pub struct HostSetup {
    /// How its agent is reached.
    pub target: Target,
    /// Address at which other hosts reach what runs there, if it was given.
    pub address: Option<IpAddr>,
    /// Bounds of what is kept and staged there.
    pub limits: HostLimits,
    /// Its kernel may be asked for stacks when a soak has failed there.
    pub sysrq: bool,
    /// How it is switched off and on, if that can be done.
    pub power: Option<Power>,
    /// How it boots other kernels, if it can.
    pub boot: Option<Boot>,
    /// How it gets the number of CPUs that a cell asks for.
    pub cpus: Option<CpusBy>,
}

/// Name of the host that is this machine.
#[expect(clippy::expect_used, reason = "the text is a name")]
pub fn local() -> Name {
    "local".parse().expect("a valid name")
}

/// The hosts of a run.
#[derive(Clone, Copy, Debug)]
pub struct Hosts<'a> {
    /// All of the host file.
    pub file: &'a HostFile,
    /// Those of them that are not to be used.
    pub barred: &'a BTreeSet<Name>,
}

impl Hosts<'_> {
    /// Names of all hosts, those that only the matrix knows included: its trials there are missing, not run elsewhere.
    fn names(&self, matrix: &Matrix) -> Vec<Name> {
        let mut names: Vec<Name> = self.file.hosts.iter().map(|host| host.name.clone()).collect();
        let of_axis = host_axis(matrix).into_iter().flat_map(|axis| &axis.values);
        let unknown: Vec<Name> =
            of_axis.filter_map(|value| value.parse().ok()).filter(|name| !names.contains(name)).collect();
        names.extend(unknown);
        names
    }

    /// The file without those that are not to be used.
    fn usable(&self) -> HostFile {
        let usable = self.file.hosts.iter().filter(|host| !self.barred.contains(&host.name));
        HostFile { kernels: Vec::new(), hosts: usable.cloned().collect() }
    }

    /// What may be done about those that are lost, by place.
    fn power(&self) -> BTreeMap<usize, PowerPolicy> {
        let policy = |power: &Power| PowerPolicy { within: power.within, times: power.times };
        let hosts = self.file.hosts.iter().enumerate();
        hosts.filter_map(|(place, host)| Some((place, host.power.as_ref().map(policy)?))).collect()
    }

    /// Places of the hosts that a role may run on.
    fn pool(&self, on: &[Name]) -> Vec<usize> {
        let usable =
            |place: &usize| self.file.hosts.get(*place).is_some_and(|host| !self.barred.contains(&host.name));
        self.file.matching(on).into_iter().filter(usable).collect()
    }
}

/// The axis `host` of a matrix that is repeated on each of them.
fn host_axis(matrix: &Matrix) -> Option<&Axis> {
    let is_host = |axis: &&Axis| axis.name.as_str() == "host";
    matrix.axes().iter().find(is_host).filter(|_| matrix.policy().spread == Spread::Each)
}

/// The plan of a run; `wait` says whether to wait for hosts that others hold.
pub fn schedule(matrix: &Matrix, run: RunId, trials: &Trials, hosts: Hosts<'_>, wait: bool) -> Plan {
    plan(matrix, run, (trials.iter(), cells(trials)), hosts, wait)
}

/// How many cells run.
pub fn cells(trials: &Trials) -> u64 {
    u64::try_from(trials.cells().len()).unwrap_or(u64::MAX)
}

fn plan(
    matrix: &Matrix,
    run: RunId,
    (trials, cells): (impl Iterator<Item = TrialId>, u64),
    hosts: Hosts<'_>,
    wait_for_hosts: bool,
) -> Plan {
    let policy = matrix.policy();
    let times = Times::of(matrix, cells);
    let all_local = hosts.file.hosts.iter().all(|host| matches!(host.reach, Reach::Local));
    let names = hosts.names(matrix);
    Plan {
        run,
        roles: matrix.roles().iter().map(|role| shape(matrix, role, hosts, times)).collect(),
        groups: groups(matrix, trials, hosts, &names),
        power: hosts.power(),
        boots: BTreeMap::new(),
        hosts: names,
        retries: policy.retries,
        after_ng: policy.after_ng,
        journal_window: JOURNAL_WINDOW,
        unstored_limit: UNSTORED_LIMIT,
        skew_limit: policy.skew_limit,
        reconnect: if all_local { LOCAL_RECONNECT } else { REMOTE_RECONNECT },
        wait_for_hosts,
    }
}

/// Why a matrix cannot run on these hosts.
#[derive(Debug, thiserror::Error)]
pub enum SeatsError {
    /// A name that nothing has.
    #[error("role `{role}` runs on `{on}`, which is neither a host nor a label; there are: {known}")]
    Unknown {
        /// The role.
        role: Name,
        /// What its `on` says.
        on: Name,
        /// All hosts and labels.
        known: String,
    },
    /// Only this machine, and roles that ask for others.
    #[error("role `{0}` runs on hosts of a host file, and there is none: name it with --hosts FILE")]
    NoFile(Name),
    /// All that it may run on are in quarantine.
    #[error("role `{role}`: every host of `{on}` is quarantined; see `drover hosts`")]
    Quarantined {
        /// The role.
        role: Name,
        /// What its `on` says.
        on: String,
    },
    /// Too few, or contradictory.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// Whether every role finds its hosts.
///
/// # Errors
/// See [`SeatsError`].
pub fn check_seats(matrix: &Matrix, hosts: Hosts<'_>) -> Result<(), SeatsError> {
    let all = &hosts.file.hosts;
    for role in matrix.roles() {
        let is_known = |on: &&Name| all.iter().any(|host| host.name == **on || host.labels.contains(on));
        let Some(on) = role.on.iter().find(|on| !is_known(on)) else {
            // Where the matrix names its hosts, trials on those that are quarantined are missing.
            if hosts.pool(&role.on).is_empty() && host_axis(matrix).is_none() {
                let on: Vec<&str> = role.on.iter().map(Name::as_str).collect();
                let on = if on.is_empty() { "the host file".to_owned() } else { on.join(", ") };
                return Err(SeatsError::Quarantined { role: role.name.clone(), on });
            }
            continue;
        };
        if *hosts.file == HostFile::local() {
            return Err(SeatsError::NoFile(role.name.clone()));
        }
        let names = all.iter().flat_map(|host| std::iter::once(&host.name).chain(&host.labels));
        let names: BTreeSet<&str> = names.map(Name::as_str).collect();
        let known = names.into_iter().collect::<Vec<_>>().join(", ");
        return Err(SeatsError::Unknown { role: role.name.clone(), on: on.clone(), known });
    }
    let run = RunId(uuid::Uuid::nil());
    Scheduler::new(plan(matrix, run, (std::iter::empty(), 0), hosts, false), [], [])?;
    Ok(())
}

/// The hosts that a matrix with `spread: each` is repeated on: those that its first service, or else its first role, may run on.
pub fn spread_hosts(matrix: &Matrix, hosts: &HostFile) -> Vec<Name> {
    let on = main_role(matrix).map_or(&[][..], |role| &role.on);
    hosts.matching(on).into_iter().filter_map(|place| Some(hosts.hosts.get(place)?.name.clone())).collect()
}

fn main_role(matrix: &Matrix) -> Option<&Role> {
    let service = matrix.roles().iter().find(|role| role.is_service());
    service.or_else(|| matrix.roles().first())
}

/// Whether another host can tell that it holds.
fn can_be_probed(check: &ReadyTemplate) -> bool {
    matches!(check, ReadyTemplate::Port(_) | ReadyTemplate::Tcp(_) | ReadyTemplate::Http(_))
}

fn shape(matrix: &Matrix, role: &Role, hosts: Hosts<'_>, times: Option<Times>) -> RoleShape {
    let place = |name: &Name| matrix.roles().iter().position(|other| other.name == *name);
    let main = main_role(matrix).map_or(&[][..], |role| &role.on);
    let follows = role.same_host_as.is_none() && role.other_host_than.is_empty() && role.hosts == 1;
    let deadline = times.map_or(role.timeout, |times| times.deadline(role));
    RoleShape {
        name: role.name.clone(),
        kind: if role.is_service() { RoleKind::Service } else { RoleKind::Awaited },
        after: role.after.iter().filter_map(place).collect(),
        instances: role.instances,
        hosts: role.hosts,
        pool: hosts.pool(&role.on),
        pinned: follows && (role.on.is_empty() || role.on == main),
        same_host_as: role.same_host_as.as_ref().and_then(place),
        other_host_than: role.other_host_than.iter().filter_map(place).collect(),
        reach: role.ready.iter().any(can_be_probed),
        outlasts: times.is_some() && role.is_service(),
        status: match &role.status {
            ExitStatuses::Any => StatusPolicy::Any,
            ExitStatuses::These(list) => StatusPolicy::OneOf(list.clone()),
        },
        backstop: deadline.saturating_add(role.stop.grace + MARGIN),
        stop_backstop: role.stop.grace + MARGIN,
    }
}

/// Trials that are compared with one another stay on the same hosts, unless the matrix allows otherwise. Where there is no
/// choice of hosts, all of them do, so that the order of the plan is kept: hosts are booted no oftener than it says.
fn groups(
    matrix: &Matrix,
    trials: impl Iterator<Item = TrialId>,
    all: Hosts<'_>,
    hosts: &[Name],
) -> Vec<Group> {
    let policy = matrix.policy();
    if matrix.keeps_plan_order(&all.usable()) && !policy.mix_hosts {
        let order: Vec<_> = trials.collect();
        return vec![Group { order: Order::from(order), stay: true, host: None }];
    }
    if policy.spread == Spread::Any && policy.mix_hosts {
        let all: Vec<_> = trials.collect();
        return vec![Group { order: Order::from(all), stay: false, host: None }];
    }
    let count = usize::try_from(matrix.group_count()).unwrap_or(usize::MAX);
    let mut orders = vec![Vec::new(); count.max(1)];
    for trial in trials {
        let group = usize::try_from(matrix.group_of(trial.cell)).unwrap_or(0);
        if let Some(order) = orders.get_mut(group) {
            order.push(trial);
        }
    }
    let host = |group: usize| {
        let value = host_axis(matrix)?.values.get(group)?;
        hosts.iter().position(|host| host.as_str() == &**value)
    };
    let group =
        |(group, order): (usize, Vec<_>)| Group { order: Order::from(order), stay: true, host: host(group) };
    orders.into_iter().enumerate().map(group).collect()
}
