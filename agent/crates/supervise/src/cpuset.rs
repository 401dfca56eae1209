//! A set of CPU numbers, with the kernel's list format (`0-3,8`). Used for placement and for affinity masks.

use std::{fmt, str::FromStr};

const WORD: u32 = u64::BITS;

/// A set of CPU numbers.
///
/// Displayed and parsed in the kernel's list format: `0-3,8`; the empty set is the empty text.
#[derive(Clone, Debug, Default)]
pub struct CpuSet {
    /// Bit `n % 64` of word `n / 64` stands for CPU `n`; trailing words may be zero.
    words: Vec<u64>,
}

impl CpuSet {
    /// Highest CPU number that a set can hold: more than any kernel supports (8192 CPUs on x86-64).
    pub const MAX_CPU: u32 = 65_535;

    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a CPU; numbers above [`Self::MAX_CPU`] are ignored.
    pub fn insert(&mut self, cpu: u32) {
        if cpu > Self::MAX_CPU {
            return;
        }
        let (word, bit) = split(cpu);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        if let Some(slot) = self.words.get_mut(word) {
            *slot |= bit;
        }
    }

    /// Whether a CPU is in the set.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        let (word, bit) = split(cpu);
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    /// Number of CPUs in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether the set has no CPU.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&w| w == 0)
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0_u32..).zip(&self.words).flat_map(|(index, &word)| {
            (0..WORD).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * WORD + bit)
        })
    }

    /// Whether every CPU of this set is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter().all(|cpu| other.contains(cpu))
    }

    /// CPUs in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// CPUs of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.iter().filter(|&cpu| !other.contains(cpu)).collect()
    }

    /// CPUs in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.iter().filter(|&cpu| other.contains(cpu)).collect()
    }

    /// The set as words of a kernel mask, lowest CPUs first.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// The set that a kernel mask stands for.
    pub(crate) fn from_words(words: Vec<u64>) -> Self {
        Self { words }
    }
}

/// Index of the word and the bit in it.
fn split(cpu: u32) -> (usize, u64) {
    (usize::try_from(cpu / WORD).unwrap_or(usize::MAX), 1 << (cpu % WORD))
}

impl PartialEq for CpuSet {
    fn eq(&self, other: &Self) -> bool {
        self.is_subset(other) && other.is_subset(self)
    }
}

impl Eq for CpuSet {}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::new();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut gap = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{gap}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            gap = ",";
        }
        Ok(())
    }
}

/// Why a text is not a list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuSetError {
    /// A part is neither a number nor a range.
    #[error("`{0}` is not a CPU number or a range such as `0-3`")]
    NotANumber(String),
    /// A range whose end is before its start.
    #[error("`{0}` is a range that ends before it starts")]
    Backwards(String),
    /// A number no kernel has.
    #[error("CPU {0} is above the highest number supported, {max}", max = CpuSet::MAX_CPU)]
    TooHigh(u32),
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        let mut set = Self::new();
        for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let number = |text: &str| text.parse().map_err(|_| CpuSetError::NotANumber(part.to_owned()));
            let (first, last): (u32, u32) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if last < first {
                return Err(CpuSetError::Backwards(part.to_owned()));
            }
            if last > Self::MAX_CPU {
                return Err(CpuSetError::TooHigh(last));
            }
            (first..=last).for_each(|cpu| set.insert(cpu));
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn expect_kernel_lists_when_sets_are_written_and_read() {
        for (text, canonical) in [
            ("0-3,8", "0-3,8"),
            ("", ""),
            ("8,0-1,1-3\n", "0-3,8"),
            ("63-64", "63-64"),
            ("5", "5"),
            ("0,2", "0,2"),
        ] {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), canonical, "{text:?}");
        }
    }

    #[test]
    fn expect_a_named_mistake_when_a_list_is_wrong() {
        assert_eq!("a".parse::<CpuSet>(), Err(CpuSetError::NotANumber("a".into())));
        assert_eq!("0-".parse::<CpuSet>(), Err(CpuSetError::NotANumber("0-".into())));
        assert_eq!("3-1".parse::<CpuSet>(), Err(CpuSetError::Backwards("3-1".into())));
        assert_eq!("4294967295".parse::<CpuSet>(), Err(CpuSetError::TooHigh(u32::MAX)));
    }

    proptest! {
        #[test]
        fn sets_survive_their_text_form(cpus in proptest::collection::btree_set(0_u32..300, 0..40)) {
            let set: CpuSet = cpus.iter().copied().collect();
            prop_assert_eq!(set.len(), cpus.len());
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set.clone());
            prop_assert!(set.iter().eq(cpus.iter().copied()));
        }

        #[test]
        fn difference_and_union_split_a_set(
            a in proptest::collection::btree_set(0_u32..100, 0..40),
            b in proptest::collection::btree_set(0_u32..100, 0..40),
        ) {
            let (x, y): (CpuSet, CpuSet) = (a.iter().copied().collect(), b.iter().copied().collect());
            let rest = x.difference(&y);
            prop_assert!(rest.iter().eq(a.difference(&b).copied()));
            prop_assert_eq!(rest.union(&y), x.union(&y));
            prop_assert_eq!(rest.union(&x.intersection(&y)), x);
        }
    }
}
