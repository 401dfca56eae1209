//! Local ports: how many a run needs, how many there are, and over how many source addresses it is spread.
//!
//! A connection is named by source address and port, destination address and port. Whoever closes first keeps that name
//! in TIME_WAIT for 60 s; when that is the client, its port is not free again until then, or, with `tcp_tw_reuse`, for
//! one second. With one source address and the default range a fast client is out of ports before the first second
//! is over. On loopback all of 127.0.0.0/8 are addresses of this machine, so more of them make more ports.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::report::count_to_f64;

/// Most source addresses a client uses.
pub(crate) const MAX_SOURCES: u32 = 60_000;

/// How long the kernel keeps a closed connection's name (TCP_TIMEWAIT_LEN, fixed in Linux).
const TIME_WAIT: Duration = Duration::from_secs(60);
/// Connections per second that a closed loop is not expected to exceed.
const FASTEST: f64 = 150_000.0;

/// What the machine allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortFacts {
    /// Ports the kernel chooses from, for each source address.
    pub per_address: u64,
    /// How soon a port in TIME_WAIT may be used again for a new connection.
    pub reusable_after: Duration,
}

impl PortFacts {
    /// Reads the kernel's settings; the defaults of Linux where they cannot be read.
    pub(crate) fn read(target: IpAddr) -> Self {
        let setting =
            |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
        Self::parse(
            target,
            &setting("ip_local_port_range"),
            &setting("tcp_tw_reuse"),
            &setting("tcp_tw_reuse_delay"),
        )
    }

    /// `range`, `reuse`, `delay` as in ip-sysctl: two ports; 0 never, 1 always, 2 on loopback; milliseconds.
    fn parse(target: IpAddr, range: &str, reuse: &str, delay: &str) -> Self {
        let mut bounds = range.split_whitespace().map(str::parse::<u64>);
        let (low, high) = match (bounds.next(), bounds.next()) {
            (Some(Ok(low)), Some(Ok(high))) if low <= high => (low, high),
            _ => (32_768, 60_999),
        };
        let reused = match reuse.trim() {
            "0" => false,
            "1" => true,
            _ => target.is_loopback(),
        };
        let delay = Duration::from_millis(delay.trim().parse().unwrap_or(1000));
        Self { per_address: high - low + 1, reusable_after: if reused { delay } else { TIME_WAIT } }
    }
}

/// What the client is about to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Address of the server.
    pub target: IpAddr,
    /// Connections, if their number is fixed.
    pub connections: Option<u64>,
    /// Time, if that is fixed.
    pub duration: Option<Duration>,
    /// Connections per second, if that is fixed.
    pub rate: Option<f64>,
    /// Connections open at once.
    pub concurrency: u32,
    /// Whether the client is the one to close first.
    pub client_closes_first: bool,
    /// Source addresses the user insists on.
    pub sources: Option<u32>,
}

/// What follows from both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortPlan {
    /// Ports that may be taken at once: open connections, and closed ones not yet reusable.
    pub needed: u64,
    /// Addresses to connect from, in turn; empty if the kernel chooses.
    pub sources: Vec<Ipv4Addr>,
    /// What to tell the user; `None` if there is nothing remarkable.
    pub message: Option<String>,
}

impl PortPlan {
    /// Number of source addresses, counting the kernel's choice as one.
    pub(crate) fn source_count(&self) -> u32 {
        u32::try_from(self.sources.len()).unwrap_or(u32::MAX).max(1)
    }
}

/// Plans the ports of a run.
pub(crate) fn plan(load: &Load, facts: &PortFacts) -> PortPlan {
    let needed = needed(load, facts.reusable_after);
    // The kernel first tries the half of the range that `bind` does not prefer, and searches longer and longer once
    // that is used up: a half is what one address gives at full speed.
    let comfortable = (facts.per_address / 2).max(1);
    let wanted = u32::try_from(needed.div_ceil(comfortable)).unwrap_or(u32::MAX).max(1);
    let spreadable = matches!(load.target, IpAddr::V4(address) if address.is_loopback());
    let count = match load.sources {
        Some(count) if spreadable => count,
        _ if spreadable => wanted.min(MAX_SOURCES),
        _ => 1,
    };
    let sources =
        if count > 1 || (spreadable && load.sources.is_some()) { first_addresses(count) } else { Vec::new() };
    let have = facts.per_address.saturating_mul(u64::from(count));
    let (each, wait) = (facts.per_address, facts.reusable_after.as_secs_f64());
    let message = if needed > have {
        Some(format!(
            "ports may run out: up to {needed} needed at once, {have} there ({count} source address(es) with {each} \
             ports, each reusable {wait} s after its connection); use fewer connections, a lower rate, --mode wait, \
             more clients, or widen net.ipv4.ip_local_port_range"
        ))
    } else if count > 1 {
        Some(format!(
            "up to {needed} ports needed at once, {each} per source address, each reusable {wait} s after its \
             connection: connecting from {count} addresses, 127.0.0.1 and up"
        ))
    } else if load.sources.is_some() && !spreadable {
        Some("--sources ignored: only IPv4 loopback has many source addresses".to_owned())
    } else {
        None
    };
    PortPlan { needed, sources, message }
}

fn needed(load: &Load, reusable_after: Duration) -> u64 {
    let open = u64::from(load.concurrency);
    let total = load.connections.unwrap_or(u64::MAX);
    if !load.client_closes_first {
        return open.min(total);
    }
    let held_for = load.duration.map_or(reusable_after, |duration| duration.min(reusable_after));
    let per_second = load.rate.unwrap_or(FASTEST);
    // A float beyond u64 saturates through the formatted integer; both bounds are far above any port count.
    let closed = ceil_to_u64(per_second * held_for.as_secs_f64());
    closed.saturating_add(open).min(total)
}

/// The least integer that is not below a finite, non-negative `value` (up to 2^40, which no port count reaches).
fn ceil_to_u64(value: f64) -> u64 {
    let (mut low, mut high) = (0_u64, 1 << 40);
    while low < high {
        let middle = low.midpoint(high);
        if count_to_f64(middle) < value { low = middle + 1 } else { high = middle }
    }
    low
}

fn first_addresses(count: u32) -> Vec<Ipv4Addr> {
    let first = Ipv4Addr::LOCALHOST.to_bits();
    (0..count).map(|offset| Ipv4Addr::from_bits(first + offset)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const REMOTE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn load() -> Load {
        Load {
            target: LOOPBACK,
            connections: Some(10_000),
            duration: None,
            rate: None,
            concurrency: 10,
            client_closes_first: true,
            sources: None,
        }
    }

    fn facts(reusable_after: u64) -> PortFacts {
        PortFacts { per_address: 28_232, reusable_after: Duration::from_secs(reusable_after) }
    }

    #[test]
    fn expect_the_kernels_choice_when_ports_suffice() {
        let plan = plan(&load(), &facts(1));
        assert_eq!(plan, PortPlan { needed: 10_000, sources: Vec::new(), message: None });
        assert_eq!(plan.source_count(), 1);
    }

    #[test]
    fn expect_spreading_when_more_ports_are_needed_than_one_address_gives() {
        let plan = plan(&Load { connections: Some(1_000_000), ..load() }, &facts(60));
        assert_eq!(plan.needed, 1_000_000);
        assert_eq!(plan.source_count(), 71);
        assert_eq!(plan.sources[70], Ipv4Addr::new(127, 0, 0, 71));
        assert!(plan.message.unwrap().contains("71 addresses"));
    }

    #[test]
    fn expect_only_open_connections_to_count_when_the_server_closes_first() {
        let load = Load { connections: Some(1_000_000), client_closes_first: false, ..load() };
        assert_eq!(plan(&load, &facts(60)).needed, 10);
    }

    #[test]
    fn expect_the_rate_and_the_reuse_delay_to_bound_the_ports() {
        let load =
            Load { connections: None, duration: Some(Duration::from_secs(30)), rate: Some(500.0), ..load() };
        assert_eq!(plan(&load, &facts(1)).needed, 510);
        assert_eq!(plan(&load, &facts(60)).needed, 15_010);
    }

    #[test]
    fn expect_a_warning_when_a_remote_server_needs_more_than_there_are() {
        let plan = plan(&Load { target: REMOTE, connections: Some(100_000), ..load() }, &facts(60));
        assert!(plan.sources.is_empty());
        assert!(
            plan.message.unwrap().starts_with("ports may run out: up to 100000 needed at once, 28232 there")
        );
    }

    #[test]
    fn expect_the_users_count_when_sources_are_given() {
        let asked = plan(&Load { sources: Some(1), ..load() }, &facts(1));
        assert_eq!(asked.sources, [Ipv4Addr::LOCALHOST]);
        let remote = plan(&Load { target: REMOTE, sources: Some(3), ..load() }, &facts(1));
        assert!(remote.sources.is_empty());
        assert!(remote.message.unwrap().contains("ignored"));
    }

    #[test]
    fn expect_kernel_settings_to_be_read_as_documented() {
        let seconds = |target, reuse| {
            PortFacts::parse(target, "32768\t60999\n", reuse, "1000\n").reusable_after.as_secs()
        };
        assert_eq!(seconds(LOOPBACK, "2\n"), 1);
        assert_eq!(seconds(REMOTE, "2\n"), 60);
        assert_eq!(seconds(REMOTE, "1\n"), 1);
        assert_eq!(seconds(LOOPBACK, "0\n"), 60);
        assert_eq!(PortFacts::parse(LOOPBACK, "1024 65535", "2", "").per_address, 64_512);
        assert_eq!(PortFacts::parse(LOOPBACK, "nonsense", "2", "").per_address, 28_232);
    }

    #[test]
    fn expect_rounding_up_to_integers() {
        for (value, integer) in [(0.0, 0), (0.1, 1), (7.0, 7), (149_999.5, 150_000)] {
            assert_eq!(ceil_to_u64(value), integer);
        }
    }
}
