//! Chooses hosts for roles: pools, numbers of hosts, roles that share hosts and roles that share none. Deterministic; asked
//! whenever a lane is made.
//!
//! The fewest hosts are taken that will do; among equal choices the earliest in the order of the plan. Hosts that are in the
//! very same pools are interchangeable, so only a few of each kind are looked at, however many there are.

use std::collections::BTreeSet;

use crate::{PlanError, RoleShape, roles::leader_of, search::Search};

/// What the plan asks of every choice of hosts.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Roles that share all their hosts are one class.
    pub classes: Vec<Class>,
    /// Role -> its class.
    class_of: Vec<usize>,
    /// Host -> its kind.
    pub kind_of: Vec<usize>,
    /// Kind -> by class, whether its hosts are in that class's pool.
    pub kinds: Vec<Vec<bool>>,
}

/// Roles that share all their hosts.
#[derive(Debug)]
pub(crate) struct Class {
    /// The role that says what it needs.
    leader: usize,
    /// How many it needs.
    pub hosts: usize,
    /// It is bound to the host of the group, where there is one.
    pub pinned: bool,
    /// Classes that it shares no host with.
    pub apart: Vec<usize>,
}

/// The hosts that are left, by kind and by the number of lanes that use them.
#[derive(Debug)]
pub(crate) struct Stock {
    /// Kind -> load and host.
    by_kind: Vec<BTreeSet<(usize, usize)>>,
    load: Vec<usize>,
    usable: Vec<bool>,
}

/// Which hosts a choice may be made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// Those that no lane uses.
    Unused,
    /// All, preferring those that fewer lanes use.
    All,
}

impl Rules {
    /// Reads the rules of checked roles.
    pub fn new(shapes: &[RoleShape], hosts: usize) -> Result<Self, PlanError> {
        let no_seats = |role: usize, why: String| PlanError::NoSeats { role: shapes[role].name.clone(), why };
        let leaders: Vec<usize> = (0..shapes.len()).map(|role| leader_of(shapes, role)).collect();
        let mut firsts = leaders.clone();
        firsts.sort_unstable();
        firsts.dedup();
        let class_of: Vec<usize> = leaders
            .iter()
            .map(|leader| firsts.iter().position(|first| first == leader).unwrap_or_default())
            .collect();
        let mut classes = Vec::new();
        for (class, leader) in firsts.iter().enumerate() {
            let shape = &shapes[*leader];
            if let Some(host) = shape.pool.iter().find(|host| **host >= hosts) {
                let why = format!("its pool has host number {host}, and the plan has {hosts}");
                return Err(no_seats(*leader, why));
            }
            if shape.hosts == 0 {
                return Err(no_seats(*leader, "it runs on no host".to_owned()));
            }
            let inside = (0..shapes.len()).filter(|role| class_of[*role] == class);
            classes.push(Class {
                leader: *leader,
                hosts: usize::try_from(shape.hosts).unwrap_or(usize::MAX),
                pinned: inside.clone().any(|role| shapes[role].pinned),
                apart: inside.flat_map(|role| &shapes[role].other_host_than).map(|o| class_of[*o]).collect(),
            });
        }
        for class in 0..classes.len() {
            if classes[class].apart.contains(&class) {
                let why = "it is to share its hosts with a role that it must share none with".to_owned();
                return Err(no_seats(classes[class].leader, why));
            }
            for other in classes[class].apart.clone() {
                classes[other].apart.push(class);
            }
        }
        let mut kinds: Vec<Vec<bool>> = Vec::new();
        let mut masks = vec![vec![false; classes.len()]; hosts];
        for (class, entry) in classes.iter().enumerate() {
            for host in &shapes[entry.leader].pool {
                masks[*host][class] = true;
            }
        }
        let kind_of = masks
            .into_iter()
            .map(|mask| match kinds.iter().position(|kind| *kind == mask) {
                Some(kind) => kind,
                None => {
                    kinds.push(mask);
                    kinds.len() - 1
                }
            })
            .collect();
        Ok(Self { classes, class_of, kind_of, kinds })
    }

    /// Whether any role is bound to the host of its group.
    pub fn has_pinned(&self) -> bool {
        self.classes.iter().any(|class| class.pinned)
    }

    /// Chooses hosts for every role; `pin` is the host of the group.
    ///
    /// # Errors
    ///
    /// The role whose hosts could not be found, and why.
    pub fn choose(
        &self,
        stock: &Stock,
        from: From,
        pin: Option<usize>,
    ) -> Result<Vec<Vec<usize>>, (usize, String)> {
        let needed: usize = self.classes.iter().map(|class| class.hosts).sum();
        let mut seen: Vec<(usize, usize)> = stock
            .by_kind
            .iter()
            .flat_map(|hosts| hosts.iter().take(needed))
            .filter(|(load, _)| *load == 0 || from == From::All)
            .copied()
            .collect();
        if let Some(pin) = pin.filter(|pin| stock.usable[*pin])
            && !seen.contains(&(stock.load[pin], pin))
        {
            seen.push((stock.load[pin], pin));
        }
        seen.sort_unstable();
        let hosts: Vec<usize> = seen.into_iter().map(|(_, host)| host).collect();
        match Search::fewest(self, &hosts, pin) {
            Ok(picks) => Ok(self.class_of.iter().map(|class| picks[*class].clone()).collect()),
            Err(class) => Err((self.classes[class].leader, self.why_not(class, stock, pin))),
        }
    }

    fn why_not(&self, class: usize, stock: &Stock, pin: Option<usize>) -> String {
        let this = &self.classes[class];
        if this.pinned && pin.is_some() && this.hosts != 1 {
            return format!("it runs on {} hosts, and is bound to one", this.hosts);
        }
        let pool = |kind: &usize| if self.kinds[*kind][class] { stock.by_kind[*kind].len() } else { 0 };
        let pool: usize = (0..self.kinds.len()).map(|kind| pool(&kind)).sum();
        let others = this.apart.iter().map(|other| self.classes[*other].hosts).sum::<usize>();
        match (this.pinned, pin) {
            (true, Some(_)) => "the host it is bound to is not free for it".to_owned(),
            _ if others == 0 => format!("it runs on {} hosts, and its pool has {pool}", this.hosts),
            _ => format!(
                "it runs on {} hosts, and its pool has {pool}, of which roles that it shares no host with may take \
                 up to {others}",
                this.hosts
            ),
        }
    }
}

impl Stock {
    /// All hosts, unused.
    pub fn new(rules: &Rules) -> Self {
        let mut by_kind = vec![BTreeSet::new(); rules.kinds.len()];
        for (host, kind) in rules.kind_of.iter().enumerate() {
            by_kind[*kind].insert((0, host));
        }
        let hosts = rules.kind_of.len();
        Self { by_kind, load: vec![0; hosts], usable: vec![true; hosts] }
    }

    /// Another lane uses the host, or one less does.
    pub fn weigh(&mut self, rules: &Rules, host: usize, more: bool) {
        let before = self.load[host];
        let load = if more { before.saturating_add(1) } else { before.saturating_sub(1) };
        self.load[host] = load;
        let hosts = &mut self.by_kind[rules.kind_of[host]];
        if hosts.remove(&(before, host)) {
            hosts.insert((load, host));
        }
    }

    /// The host is not to be had any more.
    pub fn remove(&mut self, rules: &Rules, host: usize) {
        self.by_kind[rules.kind_of[host]].remove(&(self.load[host], host));
        self.usable[host] = false;
    }

    /// Whether all these hosts can be had.
    pub fn has_all(&self, hosts: &[usize]) -> bool {
        hosts.iter().all(|host| self.usable[*host])
    }

    /// Whether no lane uses any of these hosts.
    pub fn are_unused(&self, hosts: &[usize]) -> bool {
        hosts.iter().all(|host| self.load[*host] == 0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{RoleKind, StatusPolicy};

    fn role(name: &str, hosts: u32, pool: &[usize], apart: &[usize]) -> RoleShape {
        RoleShape {
            name: name.parse().unwrap(),
            kind: RoleKind::Awaited,
            after: vec![],
            instances: 1,
            hosts,
            pool: pool.to_vec(),
            pinned: false,
            same_host_as: None,
            other_host_than: apart.to_vec(),
            reach: false,
            outlasts: false,
            status: StatusPolicy::Any,
            backstop: Duration::ZERO,
            stop_backstop: Duration::ZERO,
        }
    }

    fn choose(
        shapes: &[RoleShape],
        hosts: usize,
        pin: Option<usize>,
    ) -> Result<Vec<Vec<usize>>, (usize, String)> {
        let rules = Rules::new(shapes, hosts).unwrap();
        rules.choose(&Stock::new(&rules), From::All, pin)
    }

    #[test]
    fn expect_one_host_when_roles_can_share_it() {
        let all = [0, 1, 2];
        assert_eq!(choose(&[role("a", 1, &all, &[]), role("b", 1, &all, &[])], 3, None).unwrap(), [[0], [0]]);
        let shapes = [role("a", 1, &[0, 1], &[]), role("b", 1, &[1], &[])];
        assert_eq!(
            choose(&shapes, 2, None).unwrap(),
            [[1], [1]],
            "one is enough, though it is not the first"
        );
    }

    #[test]
    fn expect_different_hosts_when_roles_must_not_share_them() {
        let shapes =
            [role("a", 1, &[0, 1, 2], &[]), role("b", 2, &[0, 1], &[0]), role("c", 1, &[0, 1, 2], &[])];
        assert_eq!(choose(&shapes, 3, None).unwrap(), [vec![2], vec![0, 1], vec![0]]);
        let follower = RoleShape { same_host_as: Some(1), ..role("d", 9, &[], &[]) };
        let shapes = [role("a", 1, &[0, 1, 2], &[]), role("b", 2, &[0, 1, 2], &[0]), follower];
        assert_eq!(choose(&shapes, 3, None).unwrap(), [vec![0], vec![1, 2], vec![1, 2]]);
    }

    #[test]
    fn expect_the_host_of_the_group_when_a_role_is_pinned() {
        let pinned = RoleShape { pinned: true, ..role("b", 1, &[], &[0]) };
        let shapes = [role("a", 1, &[0, 1], &[]), pinned];
        assert_eq!(choose(&shapes, 2, Some(0)).unwrap(), [[1], [0]], "the other makes room");
    }

    #[test]
    fn expect_the_role_and_the_figures_when_hosts_are_too_few() {
        let (role_index, why) = choose(&[role("a", 3, &[0, 1], &[])], 2, None).unwrap_err();
        assert_eq!((role_index, why.as_str()), (0, "it runs on 3 hosts, and its pool has 2"));
        let shapes = [role("a", 1, &[0, 1], &[]), role("b", 2, &[0, 1], &[0])];
        let (role_index, why) = choose(&shapes, 2, None).unwrap_err();
        let expected = "it runs on 2 hosts, and its pool has 2, of which roles that it shares no host with may take up to 1";
        assert_eq!((role_index, why.as_str()), (1, expected));
        assert!(Rules::new(&[role("a", 1, &[0], &[0])], 1).is_err(), "apart from itself");
    }

    #[test]
    fn expect_hosts_that_fewer_lanes_use_when_all_may_be_taken() {
        let rules = Rules::new(&[role("a", 1, &[0, 1, 2], &[])], 3).unwrap();
        let mut stock = Stock::new(&rules);
        stock.weigh(&rules, 0, true);
        stock.remove(&rules, 1);
        assert_eq!(rules.choose(&stock, From::All, None).unwrap(), [[2]]);
        stock.weigh(&rules, 2, true);
        assert!(rules.choose(&stock, From::Unused, None).is_err());
        assert_eq!(rules.choose(&stock, From::All, None).unwrap(), [[0]]);

        let rules = Rules::new(&[role("a", 1, &[0, 1, 2], &[]), role("b", 1, &[0, 1], &[0])], 3).unwrap();
        let mut stock = Stock::new(&rules);
        stock.weigh(&rules, 0, true);
        stock.weigh(&rules, 1, true);
        assert_eq!(rules.choose(&stock, From::All, None).unwrap(), [[2], [0]], "hosts in other pools, too");
    }

    #[test]
    fn expect_hosts_for_every_role_when_there_are_ten_thousand() {
        let all: Vec<usize> = (0..10_000).collect();
        assert_eq!(
            choose(&[role("a", 10_000, &all, &[])], 10_000, None).unwrap(),
            std::slice::from_ref(&all)
        );
        let shapes = [role("a", 5_000, &all, &[]), role("b", 5_000, &all, &[0])];
        assert_eq!(choose(&shapes, 10_000, None).unwrap(), [all[..5_000].to_vec(), all[5_000..].to_vec()]);
        let shapes = [role("a", 5_001, &all, &[]), role("b", 5_000, &all, &[0])];
        assert_eq!(choose(&shapes, 10_000, None).unwrap_err().0, 1, "one too many");
        let half: Vec<usize> = (0..10_000).step_by(2).collect();
        let shapes =
            [role("a", 7_500, &all, &[]), role("b", 5_000, &half, &[]), role("c", 2_500, &all, &[0])];
        let chosen = choose(&shapes, 10_000, None).unwrap();
        assert_eq!(chosen[1], half, "all of its pool");
        let others: Vec<usize> = all.iter().copied().filter(|host| !chosen[0].contains(host)).collect();
        assert_eq!(chosen[2], others, "the first role leaves them");
    }

    #[test]
    fn expect_the_fewest_hosts_when_the_first_choice_would_take_more() {
        let shapes = [role("a", 2, &[0, 1, 2, 3], &[]), role("b", 1, &[3], &[]), role("c", 1, &[2, 3], &[1])];
        assert_eq!(choose(&shapes, 4, None).unwrap(), [vec![2, 3], vec![3], vec![2]]);
    }
}
