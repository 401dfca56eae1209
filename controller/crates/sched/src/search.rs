//! The search for hosts, by trial and error in the order of preference. Called by `pack`.
//!
//! Hosts that are in the same pools, and were given to the same roles so far, are alike: where one of them was of no use,
//! another will not be. The search keeps its own stack, so that a role may run on as many hosts as there are.

use std::collections::HashMap;

use crate::pack::Rules;

/// Choices that are looked at before a search is given up, beyond those that are needed anyway: far more than any sensible
/// plan needs.
const PATIENCE: usize = 50_000;

/// A search that takes a certain number of hosts at most.
pub(crate) struct Search<'a> {
    rules: &'a Rules,
    /// The host of the group.
    pin: Option<usize>,
    /// The hosts that are looked at, in the order of preference.
    hosts: &'a [usize],
    /// By place in `hosts`: the classes that have it.
    users: Vec<Vec<usize>>,
    /// Hosts that any class has.
    taken: usize,
    most: usize,
    patience: usize,
    /// The furthest class that could not be served.
    deepest: usize,
}

/// The choice for one class.
struct Turn {
    /// Places in `hosts` that are allowed: first those that other classes have.
    choice: Vec<usize>,
    /// By position in `choice`: those with the same number are alike.
    group: Vec<usize>,
    /// By position in `choice`: the next one that is not alike.
    next: Vec<usize>,
    /// How many hosts are to be chosen.
    wanted: usize,
    /// One for each host that is chosen so far, and the one that is being chosen.
    levels: Vec<Level>,
}

#[derive(Default)]
struct Level {
    /// The position in `choice` that is tried next.
    from: usize,
    picked: Option<usize>,
    /// Groups that were of no use here.
    failed: Vec<usize>,
}

impl<'a> Search<'a> {
    /// Chooses hosts for every class, from these in the order of preference: as few in all as will do. Those of each class
    /// are in ascending order.
    ///
    /// # Errors
    ///
    /// The class whose hosts could not be found.
    pub fn fewest(
        rules: &'a Rules,
        hosts: &'a [usize],
        pin: Option<usize>,
    ) -> Result<Vec<Vec<usize>>, usize> {
        let needed = || rules.classes.iter().map(|class| class.hosts);
        let begin = |most: usize| Self {
            rules,
            pin,
            hosts,
            users: vec![Vec::new(); hosts.len()],
            taken: 0,
            most,
            patience: PATIENCE.saturating_add(most.saturating_mul(2)),
            deepest: 0,
        };
        let mut widest = begin(needed().fold(0, usize::saturating_add));
        let mut found = widest.run().ok_or(widest.deepest)?;
        // What a search finds within some number of hosts it finds as well where no more than that may be taken.
        let (mut fewest, mut most) = (needed().max().unwrap_or_default(), widest.taken);
        while fewest < most {
            let middle = fewest.midpoint(most);
            let mut search = begin(middle);
            match search.run() {
                Some(better) => (found, most) = (better, search.taken),
                None => fewest = middle + 1,
            }
        }
        Ok(found)
    }

    /// Serves every class, or none.
    fn run(&mut self) -> Option<Vec<Vec<usize>>> {
        let mut turns = vec![self.turn(0)?];
        loop {
            let class = turns.len().checked_sub(1)?;
            let turn = turns.last_mut()?;
            if !self.pick(class, turn) {
                self.deepest = self.deepest.max(class);
                turn.levels.pop();
                if turn.levels.is_empty() {
                    turns.pop();
                }
                self.put_back(turns.last_mut()?);
            } else if turn.levels.len() < turn.wanted {
                let from = turn.levels.last().map_or(0, |level| level.from);
                turn.levels.push(Level { from, ..Level::default() });
            } else if class + 1 == self.rules.classes.len() {
                return Some(turns.iter().map(|turn| self.picks(turn)).collect());
            } else {
                match self.turn(class + 1) {
                    Some(next) => turns.push(next),
                    None => self.put_back(turn),
                }
            }
        }
    }

    /// What a class may choose from; `None` if that is not enough.
    fn turn(&mut self, class: usize) -> Option<Turn> {
        self.deepest = self.deepest.max(class);
        let entry = self.rules.classes.get(class)?;
        let bound = self.pin.filter(|_| entry.pinned);
        if bound.is_some() && entry.hosts != 1 {
            return None;
        }
        let fits = |at: &usize| {
            let host = self.hosts[*at];
            let allowed = bound
                .map_or_else(|| self.rules.kinds[self.rules.kind_of[host]][class], |bound| bound == host);
            allowed && !self.users[*at].iter().any(|user| entry.apart.contains(user))
        };
        let (mut choice, unused): (Vec<usize>, Vec<usize>) =
            (0..self.hosts.len()).filter(fits).partition(|at| !self.users[*at].is_empty());
        if choice.len().saturating_add(unused.len().min(self.most.saturating_sub(self.taken))) < entry.hosts {
            return None;
        }
        choice.extend(unused);
        let mut groups = HashMap::new();
        let mut group = Vec::with_capacity(choice.len());
        for at in &choice {
            let host = self.hosts[*at];
            // Roles that are bound to the host of the group make it unlike the others of its kind.
            let key = (self.rules.kind_of[host], &self.users[*at], self.pin == Some(host));
            let number = groups.len();
            group.push(*groups.entry(key).or_insert(number));
        }
        let mut next = vec![choice.len(); choice.len()];
        for position in (1..choice.len()).rev() {
            let is_alike = group[position - 1] == group[position];
            next[position - 1] = if is_alike { next[position] } else { position };
        }
        Some(Turn { choice, group, next, wanted: entry.hosts, levels: vec![Level::default()] })
    }

    /// Takes the next host that is of any use; `false` if none is left.
    fn pick(&mut self, class: usize, turn: &mut Turn) -> bool {
        let missing = turn.wanted.saturating_sub(turn.levels.len());
        let Some(level) = turn.levels.last_mut() else { return false };
        while level.from.saturating_add(missing) < turn.choice.len() {
            let at = turn.choice[level.from];
            let is_unused = self.users[at].is_empty();
            if (is_unused && self.taken >= self.most) || level.failed.contains(&turn.group[level.from]) {
                level.from = turn.next[level.from];
                continue;
            }
            let Some(patience) = self.patience.checked_sub(1) else { return false };
            self.patience = patience;
            self.taken += usize::from(is_unused);
            self.users[at].push(class);
            level.picked = Some(level.from);
            level.from += 1;
            return true;
        }
        false
    }

    /// The last host that was taken was of no use.
    fn put_back(&mut self, turn: &mut Turn) {
        let Some(level) = turn.levels.last_mut() else { return };
        let Some(position) = level.picked.take() else { return };
        let users = &mut self.users[turn.choice[position]];
        users.pop();
        self.taken -= usize::from(users.is_empty());
        level.failed.push(turn.group[position]);
    }

    fn picks(&self, turn: &Turn) -> Vec<usize> {
        let picked = turn.levels.iter().filter_map(|level| level.picked);
        let mut hosts: Vec<usize> = picked.map(|position| self.hosts[turn.choice[position]]).collect();
        hosts.sort_unstable();
        hosts
    }
}
