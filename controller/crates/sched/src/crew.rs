//! The seats of an attempt as positions: which host each task runs on. Made when a lane is, read by everything that gives
//! orders to hosts.

use std::{collections::HashMap, sync::Arc};

use drover_model::{Name, Seats};

use crate::roles::Roles;

/// The hosts of the roles, and of every task.
#[derive(Debug)]
pub(crate) struct Crew {
    /// As the journal and the store have them.
    pub seats: Arc<Seats>,
    /// Every host once, in ascending order.
    pub members: Vec<usize>,
    /// Host by task index.
    pub of_task: Vec<usize>,
}

impl Crew {
    /// The hosts of every role, in the order of the plan; each role has as many as it has slots.
    pub fn new(roles: &Roles, by_role: &[Vec<usize>], names: impl Fn(usize) -> Name) -> Self {
        let seats = by_role.iter().map(|hosts| hosts.iter().map(|host| names(*host)).collect()).collect();
        Self::with_seats(roles, by_role, Arc::new(Seats::new(seats)))
    }

    fn with_seats(roles: &Roles, by_role: &[Vec<usize>], seats: Arc<Seats>) -> Self {
        let mut members: Vec<usize> = by_role.iter().flatten().copied().collect();
        members.sort_unstable();
        members.dedup();
        let of_role = |(index, hosts): (usize, &Vec<usize>)| {
            let per_slot = roles.role(index).per_slot;
            hosts.iter().flat_map(move |host| std::iter::repeat_n(*host, per_slot)).collect::<Vec<_>>()
        };
        let of_task = by_role.iter().enumerate().flat_map(of_role).collect();
        Self { seats, members, of_task }
    }

    /// The crew of seats that a former controller chose; `None` if a host is not of this run any more, or they do not fit
    /// its roles.
    pub fn of_seats(roles: &Roles, hosts: &HashMap<Name, usize>, seats: &Arc<Seats>) -> Option<Self> {
        let of_role = |role: usize| -> Option<Vec<usize>> {
            let names = seats.of_role(role);
            let fits = names.len() == roles.role(role).slots;
            fits.then(|| names.iter().map(|name| hosts.get(name).copied()).collect())?
        };
        let by_role: Vec<Vec<usize>> = (0..roles.count()).map(of_role).collect::<Option<_>>()?;
        seats.of_role(roles.count()).is_empty().then(|| Self::with_seats(roles, &by_role, Arc::clone(seats)))
    }

    /// Hosts of these tasks, each once, in ascending order.
    pub fn hosts_of(&self, tasks: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut hosts: Vec<usize> = tasks.into_iter().map(|task| self.of_task[task]).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }
}
