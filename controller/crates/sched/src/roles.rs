//! The roles of a plan, checked once and laid out for the attempts: task numbers, dependencies, barrier groups. Made by
//! `Scheduler::new`, read by everything that decides about tasks.

use drover_model::{AttemptId, Name, TaskId};

use crate::{PlanError, RoleKind, RoleShape};

/// All roles of a trial. A task is addressed by its index: roles in the order of the plan, instances within.
#[derive(Debug)]
pub(crate) struct Roles {
    roles: Vec<Role>,
    /// Task index -> role index and instance.
    tasks: Vec<(usize, u32)>,
}

/// One role with what follows from the others.
#[derive(Debug)]
pub(crate) struct Role {
    pub shape: RoleShape,
    /// Index of its first task.
    pub first_task: usize,
    /// Index after its last task.
    pub end_task: usize,
    /// Hosts that it runs on, those it shares with another role included.
    pub slots: usize,
    /// Its tasks on each of them.
    pub per_slot: usize,
    /// Roles that come after it.
    pub dependents: Vec<usize>,
    /// Roles whose tasks are held and released together with its own: those awaited roles that come after the very same
    /// roles. Empty when there is only one task in all, which then starts directly.
    pub barrier: Vec<usize>,
}

impl Role {
    /// Indices of its tasks.
    pub fn tasks(&self) -> std::ops::Range<usize> {
        self.first_task..self.end_task
    }

    /// Whether its tasks wait at a barrier.
    pub fn held(&self) -> bool {
        !self.barrier.is_empty()
    }
}

impl Roles {
    /// Checks the shapes and lays them out.
    pub fn new(shapes: Vec<RoleShape>) -> Result<Self, PlanError> {
        check(&shapes)?;
        let slots: Vec<u32> = (0..shapes.len()).map(|role| shapes[leader_of(&shapes, role)].hosts).collect();
        let mut roles: Vec<Role> = Vec::with_capacity(shapes.len());
        let mut tasks = Vec::new();
        for (index, (mut shape, slots)) in shapes.into_iter().zip(slots).enumerate() {
            shape.after.sort_unstable();
            shape.after.dedup();
            let first_task = tasks.len();
            tasks.extend((0..slots.saturating_mul(shape.instances)).map(|instance| (index, instance)));
            roles.push(Role {
                slots: usize::try_from(slots).unwrap_or(usize::MAX),
                per_slot: usize::try_from(shape.instances).unwrap_or(usize::MAX),
                shape,
                first_task,
                end_task: tasks.len(),
                dependents: Vec::new(),
                barrier: Vec::new(),
            });
        }
        for index in 0..roles.len() {
            let dependents =
                (0..roles.len()).filter(|other| roles[*other].shape.after.contains(&index)).collect();
            let barrier = barrier_of(&roles, index);
            roles[index].dependents = dependents;
            roles[index].barrier = barrier;
        }
        Ok(Self { roles, tasks })
    }

    /// Number of tasks of an attempt.
    pub fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// All roles, in the order of the plan.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &Role)> {
        self.roles.iter().enumerate()
    }

    /// A role by its index.
    pub fn role(&self, index: usize) -> &Role {
        &self.roles[index]
    }

    /// A role by its name.
    pub fn index_of(&self, name: &Name) -> Option<usize> {
        self.roles.iter().position(|role| role.shape.name == *name)
    }

    /// Number of roles.
    pub fn count(&self) -> usize {
        self.roles.len()
    }

    /// The role of a task.
    pub fn role_of(&self, task: usize) -> &Role {
        &self.roles[self.tasks[task].0]
    }

    /// The index of a task, if it is one of this plan's.
    pub fn task_index(&self, id: &TaskId) -> Option<usize> {
        let role = &self.roles[self.index_of(&id.role)?];
        let instance = usize::try_from(id.instance).ok()?;
        role.tasks().nth(instance)
    }

    /// The id of a task of an attempt.
    pub fn task_id(&self, attempt: AttemptId, task: usize) -> TaskId {
        let (role, instance) = self.tasks[task];
        TaskId { attempt, role: self.roles[role].shape.name.clone(), instance }
    }

    /// What to call a task in a verdict: `server`, or `client.2` where there are several.
    pub fn task_label(&self, task: usize) -> String {
        let (role, instance) = self.tasks[task];
        let role = &self.roles[role];
        let name = &role.shape.name;
        if role.tasks().len() == 1 { name.to_string() } else { format!("{name}.{instance}") }
    }
}

fn check(shapes: &[RoleShape]) -> Result<(), PlanError> {
    if shapes.is_empty() {
        return Err(PlanError::NoRole);
    }
    check_names(shapes.iter().map(|shape| &shape.name))?;
    for shape in shapes {
        if shape.instances == 0 {
            return Err(PlanError::NoInstance(shape.name.clone()));
        }
        let mut named = shape.after.iter().chain(&shape.same_host_as).chain(&shape.other_host_than);
        if let Some(after) = named.find(|named| **named >= shapes.len()) {
            return Err(PlanError::NoSuchRole { role: shape.name.clone(), after: *after });
        }
    }
    // Roles that can start are taken away until none is left; what remains waits for itself.
    let mut startable = vec![false; shapes.len()];
    while let Some(next) = (0..shapes.len())
        .find(|role| !startable[*role] && shapes[*role].after.iter().all(|dep| startable[*dep]))
    {
        startable[next] = true;
    }
    match shapes.iter().zip(&startable).find(|(_, startable)| !**startable) {
        Some((shape, _)) => Err(PlanError::Cycle(shape.name.clone())),
        None => Ok(()),
    }
}

/// The role whose hosts a role runs on: the last of those that share hosts by reference to each other. For roles that refer
/// to each other in a ring, the first of them in the plan.
pub(crate) fn leader_of(shapes: &[RoleShape], role: usize) -> usize {
    let mut seen = vec![role];
    while let Some(next) = seen.last().and_then(|last| shapes[*last].same_host_as) {
        if let Some(start) = seen.iter().position(|earlier| *earlier == next) {
            return seen[start..].iter().copied().min().unwrap_or(role);
        }
        seen.push(next);
    }
    seen.last().copied().unwrap_or(role)
}

/// Finds a name that occurs twice.
pub(crate) fn check_names<'a>(names: impl Iterator<Item = &'a Name>) -> Result<(), PlanError> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(PlanError::NamedTwice(name.clone()));
        }
    }
    Ok(())
}

fn barrier_of(roles: &[Role], index: usize) -> Vec<usize> {
    let this = &roles[index].shape;
    if this.kind != RoleKind::Awaited {
        return Vec::new();
    }
    let group: Vec<usize> = (0..roles.len())
        .filter(|other| {
            roles[*other].shape.kind == RoleKind::Awaited && roles[*other].shape.after == this.after
        })
        .collect();
    let tasks: usize = group.iter().map(|role| roles[*role].tasks().len()).sum();
    if tasks > 1 { group } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::StatusPolicy;

    fn shape(name: &str, kind: RoleKind, after: &[usize], instances: u32) -> RoleShape {
        RoleShape {
            name: name.parse().unwrap(),
            kind,
            after: after.to_vec(),
            instances,
            hosts: 1,
            pool: vec![0],
            pinned: false,
            same_host_as: None,
            other_host_than: vec![],
            reach: false,
            outlasts: false,
            status: StatusPolicy::OneOf(vec![0]),
            backstop: Duration::from_secs(10),
            stop_backstop: Duration::from_secs(2),
        }
    }

    #[test]
    fn expect_no_barrier_when_a_client_is_alone() {
        let roles = Roles::new(vec![
            shape("server", RoleKind::Service, &[], 1),
            shape("client", RoleKind::Awaited, &[0], 1),
        ])
        .unwrap();
        assert!(roles.iter().all(|(_, role)| !role.held()));
    }

    #[test]
    fn expect_one_barrier_when_awaited_roles_follow_the_same_roles() {
        let roles = Roles::new(vec![
            shape("server", RoleKind::Service, &[], 1),
            shape("a", RoleKind::Awaited, &[0], 1),
            shape("b", RoleKind::Awaited, &[0, 0], 2),
            shape("late", RoleKind::Awaited, &[1], 1),
        ])
        .unwrap();
        assert_eq!(roles.role(1).barrier, [1, 2]);
        assert_eq!(roles.role(2).barrier, [1, 2]);
        assert!(!roles.role(3).held());
        assert_eq!(roles.role(0).dependents, [1, 2]);
    }

    #[test]
    fn expect_the_role_named_when_a_plan_contradicts_itself() {
        let name = |text: &str| text.parse::<Name>().unwrap();
        let error = |shapes| Roles::new(shapes).err();
        assert_eq!(error(vec![]), Some(PlanError::NoRole));
        assert_eq!(
            error(vec![
                shape("a", RoleKind::Service, &[], 1),
                shape("b", RoleKind::Awaited, &[2], 1),
                shape("c", RoleKind::Awaited, &[1], 1),
            ]),
            Some(PlanError::Cycle(name("b")))
        );
        assert_eq!(
            error(vec![shape("a", RoleKind::Service, &[1], 1)]),
            Some(PlanError::NoSuchRole { role: name("a"), after: 1 })
        );
        assert_eq!(
            error(vec![shape("a", RoleKind::Service, &[], 0)]),
            Some(PlanError::NoInstance(name("a")))
        );
        assert_eq!(
            error(vec![shape("a", RoleKind::Service, &[], 1), shape("a", RoleKind::Awaited, &[], 1)]),
            Some(PlanError::NamedTwice(name("a")))
        );
    }

    #[test]
    fn expect_indices_and_ids_to_agree_when_roles_have_several_instances() {
        let roles = Roles::new(vec![
            shape("server", RoleKind::Service, &[], 2),
            shape("client", RoleKind::Awaited, &[0], 3),
        ])
        .unwrap();
        let attempt = "00000000-0000-0000-0000-000000000001.c3r1a1".parse().unwrap();
        for task in 0..roles.task_count() {
            assert_eq!(roles.task_index(&roles.task_id(attempt, task)), Some(task));
        }
        let beyond = TaskId { attempt, role: name("client"), instance: 3 };
        assert_eq!(roles.task_index(&beyond), None);
        fn name(text: &str) -> Name {
            text.parse().unwrap()
        }
    }
}
