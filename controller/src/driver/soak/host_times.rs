//! Tells when something happened on a host by the controller's clock: the host's own may be wrong by any amount. Pure.

use std::collections::BTreeMap;

use drover_model::Name;

/// Clocks that are closer than this are taken for the same, in microseconds: what is between them is the way of the report.
const SAME: i64 = 2_000_000;

/// How far the clocks of hosts are behind the controller's, as far as reports show it: the one that came fastest does.
#[derive(Debug, Default)]
pub struct HostTimes(BTreeMap<Name, i64>);

impl HostTimes {
    /// When something was that a host reports, in microseconds since the Unix epoch by the controller's clock, which shows
    /// `now`.
    pub fn of(&mut self, host: &Name, at_unix_us: u64, now_unix_us: u64) -> u64 {
        let signed = |us: u64| i64::try_from(us).unwrap_or(i64::MAX);
        let lag = signed(now_unix_us).saturating_sub(signed(at_unix_us));
        let least = self.0.entry(host.clone()).or_insert(lag);
        *least = lag.min(*least);
        let behind = if least.abs() < SAME { 0 } else { *least };
        at_unix_us.saturating_add_signed(behind).min(now_unix_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const HOUR: u64 = 3600 * SECOND;

    #[test]
    fn expect_the_hosts_own_time_when_its_clock_is_right_even_if_a_report_is_late() {
        let (mut times, host) = (HostTimes::default(), "h".parse().unwrap());
        assert_eq!(times.of(&host, 10 * SECOND, 10 * SECOND + 500), 10 * SECOND);
        assert_eq!(times.of(&host, 20 * SECOND, 300 * SECOND), 20 * SECOND);
    }

    #[test]
    fn expect_the_controllers_time_when_the_hosts_clock_is_wrong() {
        let (mut times, host) = (HostTimes::default(), "h".parse().unwrap());
        assert_eq!(times.of(&host, HOUR + SECOND, SECOND + 5), SECOND + 5);
        // The report was held up for a minute.
        assert_eq!(times.of(&host, HOUR + 10 * SECOND, 70 * SECOND), 10 * SECOND + 5);
        let behind = "i".parse().unwrap();
        assert_eq!(times.of(&behind, SECOND, HOUR), HOUR);
        assert_eq!(times.of(&behind, 2 * SECOND, HOUR + SECOND + 7), HOUR + SECOND);
    }
}
