//! Waits for what has to come.

use std::time::{Duration, Instant};

/// Longest wait for a condition that has to come true.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(3);

/// Waits until a condition holds.
pub fn until(what: &str, holds: impl FnMut() -> bool) -> Result<(), String> {
    within(PATIENCE, what, holds)
}

/// The same, for a time.
pub fn within(patience: Duration, what: &str, mut holds: impl FnMut() -> bool) -> Result<(), String> {
    let begun = Instant::now();
    while !holds() {
        if begun.elapsed() >= patience {
            return Err(format!("waited {patience:?} in vain until {what}"));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
