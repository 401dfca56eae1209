//! Gives out TCP ports to roles that ask for some.

use std::{collections::HashSet, fs, ops::RangeInclusive};

use super::{PortError, PortState, state_of};

/// Below are the ports of well-known services.
const LOWEST: u16 = 10_000;
/// What Linux takes ports for outgoing connections from, unless told otherwise.
const DEFAULT_LOCAL: RangeInclusive<u16> = 32_768..=60_999;

/// Gives out TCP ports that are free, outside of the range from which the kernel takes ports for outgoing connections, and
/// never one twice before it is given back.
#[derive(Debug)]
pub struct PortPool {
    /// In the order in which they are tried.
    candidates: Vec<u16>,
    /// Where the walk goes on.
    next: usize,
    reserved: HashSet<u16>,
}

impl PortPool {
    /// A pool that starts its walk at a place that depends on `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok();
        Self::outside(range.as_deref().and_then(parse_range).unwrap_or(DEFAULT_LOCAL), seed)
    }

    fn outside(local: RangeInclusive<u16>, seed: u64) -> Self {
        let free = |port: &u16| !local.contains(port);
        let mut candidates: Vec<u16> = (LOWEST..=u16::MAX).filter(free).collect();
        if candidates.is_empty() {
            // The kernel's range covers all of it: then anything above the privileged ports must do; each is checked anyway.
            candidates = (1024..LOWEST).filter(free).collect();
        }
        if candidates.is_empty() {
            candidates = (1024..=u16::MAX).collect();
        }
        let count = u64::try_from(candidates.len()).unwrap_or(1);
        let next = usize::try_from(scatter(seed) % count).unwrap_or(0);
        Self { candidates, next, reserved: HashSet::new() }
    }

    /// Reserves `count` free ports. Walks forward, so that a port is used again as late as possible.
    ///
    /// # Errors
    ///
    /// When there are not that many; then none is reserved.
    pub fn reserve(&mut self, count: usize) -> Result<Vec<u16>, PortError> {
        let mut found = Vec::with_capacity(count.min(self.candidates.len()));
        for _ in 0..self.candidates.len() {
            if found.len() == count {
                break;
            }
            let Some(&port) = self.candidates.get(self.next) else { break };
            self.next = (self.next + 1) % self.candidates.len();
            if !self.reserved.contains(&port) && state_of(port)? == PortState::Free {
                found.push(port);
            }
        }
        if found.len() < count {
            return Err(PortError::Exhausted { asked: count });
        }
        self.reserved.extend(&found);
        Ok(found)
    }

    /// Gives ports back.
    pub fn release(&mut self, ports: &[u16]) {
        for port in ports {
            self.reserved.remove(port);
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): neighbouring seeds start far apart.
fn scatter(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn parse_range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut bounds = text.split_ascii_whitespace().map(str::parse);
    match (bounds.next(), bounds.next()) {
        (Some(Ok(low)), Some(Ok(high))) => Some(low..=high),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_distinct_ports_outside_of_the_kernels_range_when_reserved() {
        let mut pool = PortPool::outside(DEFAULT_LOCAL, 7);
        let first = pool.reserve(20).unwrap();
        let second = pool.reserve(20).unwrap();
        let all: HashSet<u16> = first.iter().chain(&second).copied().collect();
        assert_eq!(all.len(), 40);
        assert!(all.iter().all(|port| *port >= LOWEST && !DEFAULT_LOCAL.contains(port)));
    }

    #[test]
    fn expect_a_port_again_only_when_it_was_given_back() {
        let mut pool = PortPool::outside(DEFAULT_LOCAL, 7);
        pool.candidates.truncate(3);
        pool.next = 0;
        let ports = pool.reserve(3).unwrap();
        assert!(matches!(pool.reserve(1), Err(PortError::Exhausted { asked: 1 })));
        pool.release(&ports[1..2]);
        assert_eq!(pool.reserve(1).unwrap(), ports[1..2]);
    }

    #[test]
    fn expect_other_ports_when_the_kernel_uses_nearly_all() {
        assert_eq!(parse_range("32768\t60999\n"), Some(32_768..=60_999));
        assert_eq!(parse_range("nonsense"), None);
        assert!(
            PortPool::outside(5_000..=u16::MAX, 0).candidates.iter().all(|port| (1024..5_000).contains(port))
        );
        assert!(!PortPool::outside(1024..=u16::MAX, 0).candidates.is_empty());
    }
}
