//! The shapes of trials that are simulated.

use std::time::Duration;

use drover_model::RunId;
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
        status: StatusPolicy::OneOf(vec![0]),
        backstop: Duration::from_secs(3600),
        stop_backstop: Duration::from_secs(60),
    }
}

pub fn roles(rng: &mut Rng) -> Vec<RoleShape> {
    use RoleKind::{Awaited, Service};
    match rng.below(5) {
        0 => vec![role("client", Awaited, &[], 1)],
        1 => vec![role("server", Service, &[], 1), role("client", Awaited, &[0], 3)],
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
        _ => vec![role("server", Service, &[], 1), role("client", Awaited, &[0], 1)],
    }
}
