//! A command of the user's has the host boot another kernel.

use std::time::Duration;

use super::{
    Words,
    run::{RunError, run},
};

/// Longest time that it may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Whether the command is told the nonce: then it is taken to pass it on.
pub(super) fn takes_words(argv: &[String], words: &Words) -> bool {
    argv.iter().any(|arg| arg.contains(words.nonce()))
}

/// Runs it to its end, which has to be a good one.
pub(super) fn carry_out(argv: &[String]) -> Result<(), RunError> {
    run(argv, LIMIT).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_words_taken_only_when_the_command_is_told_them() {
        let words = Words::new("n1", &[]).unwrap();
        let argv = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(takes_words(&argv("set-next 6.1 drover.nonce=n1"), &words));
        assert!(!takes_words(&argv("set-next 6.1"), &words));
    }

    #[test]
    fn expect_what_it_said_when_a_command_fails() {
        let argv = ["sh", "-c", "echo no such kernel; exit 2"].map(str::to_owned);
        let text = carry_out(&argv).unwrap_err().to_string();
        assert_eq!(text, "`sh` ended with exit status 2; it said: no such kernel");
    }
}
