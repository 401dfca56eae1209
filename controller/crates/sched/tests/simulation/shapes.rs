//! The shapes of trials that are simulated.

use std::time::Duration;

use drover_model::{RunId, TrialId};
use drover_sched::{RoleKind, RoleShape, StatusPolicy};

use crate::rng::Rng;

pub fn run() -> RunId {
    "00000000-0000-7000-8000-000000000001".parse().unwrap()
}

fn role(name: &str, kind: RoleKind, after: &[usize], instances: u32) -> RoleShape {
    RoleShape {
        name: name.parse().unwrap(),
        kind,
        after: after.to_vec(),
        instances,
        hosts: 1,
        pool: vec![],
        pinned: false,
        same_host_as: None,
        other_host_than: vec![],
        reach: false,
        outlasts: false,
        status: StatusPolicy::OneOf(vec![0]),
        backstop: Duration::from_secs(3600),
        stop_backstop: Duration::from_secs(60),
    }
}

/// Roles that so many hosts are enough for.
pub fn roles(rng: &mut Rng, hosts: usize) -> Vec<RoleShape> {
    use RoleKind::{Awaited, Service};
    let shape = if hosts > 1 && rng.chance(700) { 5 + rng.below(4) } else { rng.below(5) };
    let server = || role("server", Service, &[], 1);
    let client = || role("client", Awaited, &[0], 1);
    let mut roles = match shape {
        0 => vec![role("client", Awaited, &[], 1)],
        1 => vec![server(), role("client", Awaited, &[0], 3)],
        2 => vec![
            role("db", Service, &[], 1),
            role("server", Service, &[0], 2),
            role("fill", Awaited, &[1], 1),
            role("a", Awaited, &[1, 2], 1),
            role("b", Awaited, &[1, 2], 1),
        ],
        3 => vec![
            role("left", Awaited, &[], 2),
            role("one", Service, &[], 1),
            role("two", Service, &[], 1),
            role("right", Awaited, &[1, 2], 2),
        ],
        // A client elsewhere, that must reach the server.
        5 => vec![
            RoleShape { reach: true, pinned: rng.chance(500), ..server() },
            RoleShape { other_host_than: vec![0], ..client() },
        ],
        // Clients on several hosts, which start together.
        6 => {
            let hosts = if hosts > 2 { 2 } else { 1 };
            vec![
                RoleShape { reach: rng.chance(500), pinned: rng.chance(500), ..server() },
                RoleShape { hosts, other_host_than: vec![0], ..role("client", Awaited, &[0], 2) },
            ]
        }
        // Servers on two hosts, each with a client beside it.
        7 => vec![RoleShape { hosts: 2, ..server() }, RoleShape { same_host_as: Some(0), ..client() }],
        8 => vec![
            RoleShape { pinned: true, ..server() },
            RoleShape { hosts: 2, reach: true, ..role("proxy", Service, &[0], 1) },
            RoleShape { pinned: true, ..role("client", Awaited, &[1], 1) },
        ],
        _ => vec![server(), client()],
    };
    for role in &mut roles {
        role.pool = (0..hosts).collect();
    }
    roles
}

/// Some of the trials.
pub struct Share {
    pub trials: Vec<TrialId>,
    pub stay: bool,
    pub host: Option<usize>,
}

/// Divides trials into groups of all sorts.
pub fn groups(rng: &mut Rng, trials: &[TrialId], hosts: usize) -> Vec<Share> {
    let groups = 1 + rng.below(4);
    let pinned = rng.chance(300);
    let mut shares: Vec<Share> = (0..groups)
        .map(|_| Share {
            trials: vec![],
            stay: rng.chance(500),
            host: (pinned && rng.chance(800)).then(|| rng.below(hosts)),
        })
        .collect();
    for trial in trials {
        shares[rng.below(groups)].trials.push(*trial);
    }
    shares
}
