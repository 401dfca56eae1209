//! Times as people read them.

use std::time::Duration;

use jiff::Timestamp;

/// The two largest units, rounded down: `5 h 12 min`, `45 s`.
pub(super) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let Some(first) = units.iter().position(|(size, _)| seconds >= *size) else {
        return if time.is_zero() { "0 s".to_owned() } else { "less than 1 s".to_owned() };
    };
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (size, name) in units.iter().skip(first).take(2) {
        if rest >= *size {
            parts.push(format!("{} {name}", rest / size));
        }
        rest %= size;
    }
    parts.join(" ")
}

/// From one time to another, in microseconds; zero if it is before.
pub(super) fn between(from_unix_us: u64, to_unix_us: u64) -> Duration {
    Duration::from_micros(to_unix_us.saturating_sub(from_unix_us))
}

/// `2026-12-01 03:41:07 UTC`.
pub(super) fn stamp(unix_us: u64) -> String {
    if timestamp(unix_us).is_some() { format!("{} UTC", short(unix_us)) } else { short(unix_us) }
}

/// The same without the zone.
pub(super) fn short(unix_us: u64) -> String {
    let stamp = timestamp(unix_us);
    stamp.map_or_else(|| "date unknown".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// UTC, RFC 3339.
pub(super) fn rfc3339(unix_us: u64) -> Option<String> {
    timestamp(unix_us).map(|at| at.to_string())
}

fn timestamp(unix_us: u64) -> Option<Timestamp> {
    Timestamp::from_microsecond(i64::try_from(unix_us).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_two_units_rounded_down_when_a_time_is_shown() {
        let shown = |seconds| span(Duration::from_secs(seconds));
        assert_eq!(shown(5 * 3600 + 12 * 60 + 59), "5 h 12 min");
        assert_eq!(
            (shown(8 * 3600), shown(59), shown(61)),
            ("8 h".into(), "59 s".into(), "1 min 1 s".into())
        );
        assert_eq!(
            (shown(0), shown(3600 + 5), shown(90_000)),
            ("0 s".into(), "1 h".into(), "1 d 1 h".into())
        );
        assert_eq!(span(Duration::from_millis(999)), "less than 1 s");
        assert_eq!(stamp(1_732_984_200_000_000), "2024-11-30 16:30:00 UTC");
        assert_eq!(stamp(u64::MAX), "date unknown");
    }
}
