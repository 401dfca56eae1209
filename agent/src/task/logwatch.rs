//! Looks for texts in a task's output while it is captured, for `log` ready checks. Pure but for the wake-up.

use std::sync::Mutex;
use std::sync::PoisonError;

use drover_model::ReadyCheck;
use tokio::sync::Notify;

/// Texts that have to appear, each on one line of either output stream.
#[derive(Debug)]
pub(super) struct LogWatch {
    state: Mutex<State>,
    found: Notify,
}

#[derive(Debug, Default)]
struct State {
    missing: Vec<Vec<u8>>,
    /// For each stream, the end of what was seen: as long as a text can reach over from one piece to the next.
    tails: [Vec<u8>; 2],
}

impl LogWatch {
    /// Watches for the texts of all `log` checks.
    pub(super) fn new(checks: &[ReadyCheck]) -> Self {
        let texts = checks.iter().filter_map(|check| match check {
            ReadyCheck::Log(text) => Some(text.as_bytes().to_vec()),
            _ => None,
        });
        let state = State { missing: texts.collect(), tails: Default::default() };
        Self { state: Mutex::new(state), found: Notify::new() }
    }

    /// Takes in the next piece of a stream (0 or 1).
    pub(super) fn feed(&self, stream: usize, piece: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { missing, tails } = &mut *state;
        let Some(longest) = missing.iter().map(Vec::len).max() else { return };
        let Some(tail) = tails.get_mut(stream) else { return };
        tail.extend_from_slice(piece);
        let before = missing.len();
        missing.retain(|text| !contains(tail, text));
        let kept = longest.saturating_sub(1).min(tail.len());
        tail.drain(..tail.len() - kept);
        if missing.len() < before {
            self.found.notify_waiters();
        }
    }

    /// Returns once `text` was seen.
    pub(super) async fn wait_for(&self, text: &str) {
        loop {
            let found = self.found.notified();
            if !self.is_missing(text) {
                return;
            }
            found.await;
        }
    }

    fn is_missing(&self, text: &str) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.missing.iter().any(|missing| missing == text.as_bytes())
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn watch(text: &str) -> LogWatch {
        LogWatch::new(&[ReadyCheck::Log(text.to_owned())])
    }

    proptest! {
        #[test]
        fn a_text_is_found_however_the_stream_is_cut(
            before in "[a-c\\n]{0,30}", text in "[a-c]{1,5}", after in "[a-c\\n]{0,30}", cuts in vec(1_usize..9, 1..80),
        ) {
            let (log, stream) = (watch(&text), format!("{before}{text}{after}"));
            let (mut rest, mut cuts) = (stream.as_bytes(), cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (piece, later) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                log.feed(0, piece);
                rest = later;
            }
            prop_assert!(!log.is_missing(&text));
        }
    }

    #[test]
    fn expect_a_text_missing_when_its_halves_are_on_different_streams() {
        let log = watch("ready");
        log.feed(0, b"rea");
        log.feed(1, b"dy");
        assert!(log.is_missing("ready"));
        log.feed(0, b"dy");
        assert!(!log.is_missing("ready"));
    }
}
