//! Makes a set of CPUs the online one. What the kernel says afterwards counts, not what was written.

use std::{collections::BTreeSet, io, thread, time::Duration};

use rustix::io::Errno;

use crate::source::list_of;

/// How often a CPU is tried that does not come back: the kernel refuses for moments in which it looks for devices.
const TRIES: u32 = 20;
/// Pause between them.
const PAUSE: Duration = Duration::from_millis(50);

/// The switches of CPUs: the kernel's, or those of a test.
pub trait Switches {
    /// The CPUs that are online.
    ///
    /// # Errors
    /// When the kernel does not say.
    fn online(&self) -> io::Result<BTreeSet<u32>>;

    /// Brings a CPU online, or takes it offline.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn switch(&self, cpu: u32, on: bool) -> io::Result<()>;
}

/// Why the wanted CPUs are not the online ones.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The kernel does not say which CPUs are online.
    #[error("cannot read which CPUs are online from /sys/devices/system/cpu/online")]
    Read(#[source] io::Error),
    /// The kernel refuses.
    #[error("CPU {cpu} cannot be {}{}", verb(*on), advice(source))]
    Switch {
        /// The CPU.
        cpu: u32,
        /// Whether it was to come online.
        on: bool,
        /// Why.
        source: io::Error,
    },
    /// The switches did as they were told, and the kernel says otherwise.
    #[error(
        "CPUs {} were to be online, and the kernel says {}; does something else on this host switch CPUs?",
        list_of(wanted.iter().copied()), list_of(online.iter().copied())
    )]
    Other {
        /// The CPUs that were to be online.
        wanted: BTreeSet<u32>,
        /// Those that are.
        online: BTreeSet<u32>,
    },
}

/// CPUs do not come back.
#[derive(Debug, thiserror::Error)]
#[error(
    "CPUs {} do not come back online; bring each back with `echo 1 > /sys/devices/system/cpu/cpuN/online`, or reboot",
    list_of(missing.iter().copied())
)]
pub struct PutBackError {
    /// Those that are offline, or may be.
    pub missing: BTreeSet<u32>,
    /// What was found last.
    pub source: ChangeError,
}

fn verb(on: bool) -> &'static str {
    if on { "brought online" } else { "taken offline" }
}

/// What to do about a refusal, as the middle of a sentence.
fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::BUSY) => {
            " (the kernel or a real-time deadline task needs it; end that, or boot with fewer CPUs)"
        }
        Some(Errno::PERM) => {
            " (the kernel forbids it; is SMT switched off in /sys/devices/system/cpu/smt/control?)"
        }
        Some(Errno::ACCESS) => " (run the agent as root)",
        Some(Errno::ROFS) => " (/sys is read-only; run the agent outside of the container)",
        _ => "",
    }
}

/// Makes `wanted` the online CPUs, out of `before`, those that were online when nothing was changed; no other CPU is touched.
/// More come first, then others go, the highest first. Writes nothing where nothing is to be changed.
///
/// # Errors
/// At the first CPU that cannot be switched, or when the kernel does not say in the end that just these are online. Some may be
/// changed then: [`put_back`].
pub fn change(
    switches: &impl Switches,
    before: &BTreeSet<u32>,
    wanted: &BTreeSet<u32>,
) -> Result<(), ChangeError> {
    let online = switches.online().map_err(ChangeError::Read)?;
    let switch = |cpu: u32, on: bool| {
        switches.switch(cpu, on).map_err(|source| ChangeError::Switch { cpu, on, source })
    };
    for cpu in wanted.difference(&online) {
        switch(*cpu, true)?;
    }
    let surplus: Vec<u32> = online.difference(wanted).filter(|cpu| before.contains(cpu)).copied().collect();
    for cpu in surplus.into_iter().rev() {
        switch(cpu, false)?;
    }
    let online = switches.online().map_err(ChangeError::Read)?;
    if online == *wanted { Ok(()) } else { Err(ChangeError::Other { wanted: wanted.clone(), online }) }
}

/// Brings all of these CPUs online again that are not, as often as it takes within a second; those that come are not kept from it
/// by those that do not.
///
/// # Errors
/// When some do not come back.
pub fn put_back(switches: &impl Switches, before: &BTreeSet<u32>) -> Result<(), PutBackError> {
    let mut tries = 0;
    loop {
        let (missing, source) = match bring(switches, before) {
            Ok(()) => return Ok(()),
            Err(found) => found,
        };
        tries += 1;
        if tries >= TRIES {
            return Err(PutBackError { missing, source });
        }
        thread::sleep(PAUSE);
    }
}

/// One try: those that are missing after it, and why.
fn bring(switches: &impl Switches, before: &BTreeSet<u32>) -> Result<(), (BTreeSet<u32>, ChangeError)> {
    let unknown = |error| (before.clone(), ChangeError::Read(error));
    let online = switches.online().map_err(unknown)?;
    let mut refused = None;
    for &cpu in before.difference(&online) {
        if let Err(source) = switches.switch(cpu, true) {
            refused.get_or_insert(ChangeError::Switch { cpu, on: true, source });
        }
    }
    let online = switches.online().map_err(unknown)?;
    let missing: BTreeSet<u32> = before.difference(&online).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err((missing, refused.unwrap_or_else(|| ChangeError::Other { wanted: before.clone(), online })))
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::BTreeMap};

    use proptest::prelude::*;

    use super::*;

    /// A kernel whose CPUs refuse now and then.
    #[derive(Debug, Default)]
    struct Kernel {
        online: RefCell<BTreeSet<u32>>,
        /// What is written, in order.
        written: RefCell<Vec<(u32, bool)>>,
        /// How often a switch still refuses.
        refusals: RefCell<BTreeMap<(u32, bool), u32>>,
        /// Switches that do nothing.
        dead: BTreeSet<u32>,
    }

    impl Kernel {
        fn of(cpus: impl IntoIterator<Item = u32>) -> Self {
            Self { online: RefCell::new(cpus.into_iter().collect()), ..Self::default() }
        }
    }

    impl Switches for Kernel {
        fn online(&self) -> io::Result<BTreeSet<u32>> {
            Ok(self.online.borrow().clone())
        }

        fn switch(&self, cpu: u32, on: bool) -> io::Result<()> {
            self.written.borrow_mut().push((cpu, on));
            let mut refusals = self.refusals.borrow_mut();
            if let Some(left) = refusals.get_mut(&(cpu, on)).filter(|left| **left > 0) {
                *left -= 1;
                return Err(Errno::BUSY.into());
            }
            let mut online = self.online.borrow_mut();
            match (self.dead.contains(&cpu), on) {
                (true, _) => {}
                (false, true) => drop(online.insert(cpu)),
                (false, false) => drop(online.remove(&cpu)),
            }
            Ok(())
        }
    }

    fn set(cpus: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
        cpus.into_iter().collect()
    }

    #[test]
    fn expect_nothing_written_when_the_wanted_cpus_are_online_already() {
        let kernel = Kernel::of([0, 2]);
        change(&kernel, &set(0..4), &set([0, 2])).unwrap();
        put_back(&kernel, &set([0, 2])).unwrap();
        assert_eq!(*kernel.written.borrow(), []);
        // Straight from one set to another: what comes first, and what goes then.
        change(&kernel, &set(0..4), &set([0, 1])).unwrap();
        assert_eq!(*kernel.written.borrow(), [(1, true), (2, false)]);
    }

    #[test]
    fn expect_the_cpu_and_the_reason_and_all_back_when_one_refuses() {
        let kernel = Kernel::of(0..4);
        kernel.refusals.borrow_mut().insert((2, false), 1);
        let error = change(&kernel, &set(0..4), &set([0])).unwrap_err();
        assert!(error.to_string().starts_with("CPU 2 cannot be taken offline (the kernel"), "{error}");
        // One that hesitates to come back.
        kernel.refusals.borrow_mut().insert((3, true), 2);
        put_back(&kernel, &set(0..4)).unwrap();
        assert_eq!(*kernel.online.borrow(), set(0..4));
    }

    #[test]
    fn expect_the_truth_when_switches_do_as_told_and_cpus_do_not() {
        let kernel = Kernel { dead: set([3]), ..Kernel::of(0..4) };
        let error = change(&kernel, &set(0..4), &set(0..3)).unwrap_err();
        assert!(error.to_string().contains("CPUs 0-2 were to be online, and the kernel says 0-3"), "{error}");
        // One that somebody else has brought online is not ours to take, and the count is not what was asked for.
        let kernel = Kernel::of(0..5);
        let error = change(&kernel, &set(0..4), &set([0, 1])).unwrap_err();
        assert!(error.to_string().contains("the kernel says 0-1,4"), "{error}");
        put_back(&kernel, &set(0..4)).unwrap();
        // One that is gone for good does not keep the others.
        let kernel = Kernel { dead: set([2]), ..Kernel::of([0]) };
        let error = put_back(&kernel, &set(0..4)).unwrap_err();
        assert_eq!((error.missing.clone(), kernel.online.borrow().clone()), (set([2]), set([0, 1, 3])));
        assert!(error.to_string().starts_with("CPUs 2 do not come back"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn invariant_all_are_back_whatever_was_refused_and_others_are_never_touched(
            steps in proptest::collection::vec(proptest::collection::btree_set(0_u32..6, 1..6), 1..5),
            refusals in proptest::collection::btree_map((0_u32..6, any::<bool>()), 1_u32..3, 0..4),
        ) {
            let before = set(0..6);
            // CPUs 6 and 7 are there; 7 is online since we came, 6 was offline before.
            let kernel = Kernel { refusals: RefCell::new(refusals), ..Kernel::of((0..6).chain([7])) };
            for wanted in &steps {
                match change(&kernel, &before, wanted) {
                    Ok(()) => prop_assert!(false, "CPU 7 is one too many"),
                    Err(ChangeError::Other { online, .. }) => {
                        prop_assert_eq!(online, wanted.iter().copied().chain([7]).collect::<BTreeSet<_>>());
                    }
                    Err(_) => {
                        put_back(&kernel, &before).unwrap();
                        prop_assert!(kernel.online.borrow().is_superset(&before));
                    }
                }
            }
            put_back(&kernel, &before).unwrap();
            prop_assert_eq!(kernel.online.borrow().clone(), set((0..6).chain([7])));
            prop_assert!(kernel.written.borrow().iter().all(|(cpu, _)| *cpu < 6));
        }
    }
}
