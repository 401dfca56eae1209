//! `/proc/sys/kernel/tainted`: what happened to this kernel since it was booted that makes its makers doubt its reports.

use std::{fs, io};

use drover_model::{DoubtKind, NgCause};

use crate::console::Hint;

/// Where the kernel shows its taint.
pub const TAINT_FILE: &str = "/proc/sys/kernel/tainted";

/// One bit of the kernel's taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Its number.
    pub bit: u32,
    /// The letter in the first lines of reports; `?` if this table does not know the bit.
    pub letter: char,
    /// What it says.
    pub meaning: &'static str,
}

/// By `Documentation/admin-guide/tainted-kernels.rst` of Linux. The index is the bit.
const TAINTS: [(char, &str); 20] = [
    ('P', "a proprietary module was loaded"),
    ('F', "a module was loaded by force"),
    ('S', "the kernel runs on hardware out of its specification"),
    ('R', "a module was unloaded by force"),
    ('M', "the processor reported a machine check"),
    ('B', "a bad page was found"),
    ('U', "a process asked for the taint"),
    ('D', "the kernel died: an oops or an assertion that failed"),
    ('A', "an ACPI table was replaced"),
    ('W', "the kernel warned"),
    ('C', "a driver that is not ready was loaded"),
    ('I', "the kernel works around a severe fault of the firmware"),
    ('O', "a module from outside of the kernel was loaded"),
    ('E', "a module without signature was loaded"),
    ('L', "a soft lockup occurred"),
    ('K', "the kernel was patched while it ran"),
    ('X', "the distribution says that it is of its own kind"),
    ('T', "the kernel was built with random structure layout"),
    ('N', "a test of the kernel was run in it"),
    ('J', "a process used a debugging interface that changes the firmware"),
];

/// Why the taint is not known.
#[derive(Debug, thiserror::Error)]
pub enum TaintError {
    /// The file cannot be read.
    #[error("cannot read {TAINT_FILE}")]
    Read(#[source] io::Error),
    /// It has no number.
    #[error("{TAINT_FILE} does not hold a number but {text:?}")]
    Number {
        /// What it holds.
        text: String,
    },
}

impl Taint {
    /// What it means for a trial in which the bit came up.
    #[must_use]
    pub fn hint(self) -> Hint {
        match self.letter {
            'D' | 'B' => Hint::Ng(NgCause::Oops),
            'L' => Hint::Ng(NgCause::Lockup),
            'W' => Hint::Doubt(DoubtKind::KernelWarning),
            'M' => Hint::Doubt(DoubtKind::Hardware),
            _ => Hint::Nothing,
        }
    }
}

/// The mask now; 0 if nothing happened.
///
/// # Errors
///
/// When it cannot be read.
pub fn read_taint() -> Result<u64, TaintError> {
    parse(&fs::read_to_string(TAINT_FILE).map_err(TaintError::Read)?)
}

fn parse(text: &str) -> Result<u64, TaintError> {
    let text = text.trim();
    text.parse().map_err(|_| TaintError::Number { text: text.chars().take(100).collect() })
}

/// The bits of a mask, lowest first. What came up between two masks is `taints(after & !before)`.
pub fn taints(mask: u64) -> impl Iterator<Item = Taint> {
    (0..u64::BITS).filter(move |bit| (mask >> bit) & 1 == 1).map(|bit| {
        let known = usize::try_from(bit).ok().and_then(|bit| TAINTS.get(bit));
        let (letter, meaning) = known.copied().unwrap_or(('?', "something newer than this table"));
        Taint { bit, letter, meaning }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_letters_when_a_mask_is_decoded() {
        let letters = |mask| taints(mask).map(|taint| taint.letter).collect::<String>();
        assert_eq!(letters(0), "");
        // From the kernel's own documentation.
        assert_eq!(letters(4609), "PWO");
        assert_eq!(letters(1 << 7 | 1 << 14 | 1 << 40), "DL?");
        assert_eq!(taints(u64::MAX).count(), 64);
    }

    #[test]
    fn expect_an_ng_when_the_kernel_died_or_locked_up() {
        let hints: Vec<Hint> = taints(1 << 7 | 1 << 9 | 1 << 12 | 1 << 14).map(Taint::hint).collect();
        let doubt = Hint::Doubt(DoubtKind::KernelWarning);
        assert_eq!(hints, [Hint::Ng(NgCause::Oops), doubt, Hint::Nothing, Hint::Ng(NgCause::Lockup)]);
    }

    #[test]
    fn expect_a_number_or_an_error_when_the_file_is_read() {
        assert_eq!(parse("4609\n").unwrap(), 4609);
        assert!(parse("x").is_err() && parse("").is_err());
        assert!(read_taint().is_ok());
    }
}
