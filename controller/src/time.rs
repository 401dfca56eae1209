//! Times for people, and stamps for the store.

use std::time::Duration;

pub use drover_agent::unix_us;

/// Milliseconds since the Unix epoch.
pub fn unix_ms() -> u64 {
    unix_us() / 1000
}

/// A duration in at most two units: `3h 20m`, `2m 5s`, `12s`, `0.3s`.
pub fn brief(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{:.1}s", duration.as_secs_f64()),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d {}h", seconds / 86400, seconds % 86400 / 3600),
    }
}

/// A stamp in UTC, to the second.
pub fn utc(unix_ms: u64) -> String {
    let stamp = i64::try_from(unix_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    stamp.map_or_else(String::new, |stamp| stamp.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_two_units_at_most() {
        let text = |seconds| brief(Duration::from_secs(seconds));
        assert_eq!(text(59), "59s");
        assert_eq!(text(60), "1m 0s");
        assert_eq!(text(3 * 3600 + 20 * 60 + 7), "3h 20m");
        assert_eq!(text(2 * 86400 + 3600), "2d 1h");
        assert_eq!(brief(Duration::from_millis(300)), "0.3s");
    }
}
