//! What is to be done to a host, by what it is and what a cell asks for.

use std::time::Duration;

use drover_matrix::{Boot, BootKernel, BootMethod, CpuWord, CpusBy};
use drover_model::{Cell, CellKey, CpuCore, HostFacts};
use drover_vm::Found;

use super::{
    ledger::{Asked, Golden, Standing, Wanted},
    real::{Change, Judged, Real},
};

fn cell(values: &[(&str, &str)]) -> Cell {
    let values = values.iter().map(|(axis, value)| (axis.parse().unwrap(), (*value).into()));
    Cell { index: 0, key: CellKey::of([]), values: values.collect() }
}

fn facts(release: &str, cpus: u32, cmdline: &str, boot_id: &str) -> HostFacts {
    let cores = (0..cpus).map(|cpu| CpuCore { cpu, core: cpu, package: 0, node: 0 }).collect();
    HostFacts {
        kernel_release: release.into(),
        cpus: cores,
        cpus_present: 4,
        cmdline: cmdline.into(),
        boot_id: boot_id.into(),
        ..HostFacts::default()
    }
}

fn kernel(label: &str, release: &str, cmdline: Option<&str>) -> BootKernel {
    BootKernel {
        label: label.into(),
        entry: format!("entry of {label}"),
        initrd: None,
        cmdline: cmdline.map(str::to_owned),
        release: release.into(),
    }
}

fn boot() -> Boot {
    Boot {
        by: BootMethod::Grub { folder: None },
        within: Duration::from_secs(60),
        times: 3,
        reboot: vec![],
        kernels: vec![
            kernel("stable", "6.1.0", None),
            kernel("next", "6.12.0", None),
            kernel("quiet", "6.18.0", Some("quiet")),
            kernel("twin", "6.18.0", None),
        ],
    }
}

/// A host that ran 6.1.0 with four CPUs before the run, and was booted as this.
fn standing(last: Option<(Wanted, Option<&str>)>) -> Standing {
    let asked = |(wanted, nonce): (Wanted, Option<&str>)| Asked {
        attempt: None,
        wanted,
        nonce: nonce.map(str::to_owned),
        leaves: "1".into(),
        at_unix_ms: 1,
    };
    let up = last.is_some().then(|| "2".to_owned());
    let golden = Golden { release: "6.1.0".into(), cpus: 4, ..Golden::default() };
    Standing { golden: Some(golden), times: 1, last: last.map(asked), up, astray: true }
}

fn wanted(kernel: Option<&str>, cpus: Option<u32>) -> Wanted {
    Wanted { kernel: kernel.map(str::to_owned), cpus }
}

struct Place {
    boot: Option<Boot>,
    cpus: Option<CpusBy>,
    standing: Standing,
    facts: HostFacts,
}

impl Place {
    fn judge(&self, values: &[(&str, &str)]) -> Judged {
        let host = "h".parse().unwrap();
        let Self { boot, cpus, standing, facts } = self;
        Real { host: &host, boot: boot.as_ref(), cpus: *cpus, standing, facts }.judge(&cell(values))
    }

    fn cause(&self, values: &[(&str, &str)]) -> (&'static str, String) {
        match self.judge(values) {
            Judged::Wrong(verdict) => (verdict.cause(), verdict.detail()),
            other => panic!("{other:?}"),
        }
    }
}

/// As it was before the run.
fn golden(cpus: Option<CpusBy>) -> Place {
    Place { boot: Some(boot()), cpus, standing: standing(None), facts: facts("6.1.0", 4, "", "1") }
}

fn needs(kernel: Option<&str>, cpus: Option<u32>) -> Judged {
    Judged::Needs(Change::Boot(wanted(kernel, cpus)))
}

#[test]
fn expect_a_host_checked_and_not_made_when_its_file_says_nothing() {
    let standing = Standing::default();
    let bare = Place { boot: None, cpus: None, standing, facts: facts("6.1.0", 2, "", "1") };
    for right in
        [&[("kernel", "running")][..], &[("kernel", "6.1.0")], &[("cpus", "2")], &[("cpus", "1")], &[]]
    {
        assert_eq!(bare.judge(right), Judged::Right, "{right:?}");
    }
    let (cause, detail) = bare.cause(&[("kernel", "6.10")]);
    assert!(cause == "wrong-kernel" && detail.contains("runs 6.1.0"), "{detail}");
    for bad in ["3", "0", "two", "-1"] {
        let (cause, detail) = bare.cause(&[("cpus", bad)]);
        assert_eq!(cause, "wrong-cpus");
        assert!(detail.ends_with("host h has 2 online"), "{detail}");
    }
}

#[test]
fn expect_a_boot_only_when_another_kernel_than_the_present_one_is_asked_for() {
    let place = golden(None);
    for right in ["running", "stable", "6.1.0"] {
        assert_eq!(place.judge(&[("kernel", right)]), Judged::Right, "{right}");
    }
    assert_eq!(place.judge(&[("kernel", "next")]), needs(Some("next"), None));
    let (cause, detail) = place.cause(&[("kernel", "nexd")]);
    assert!(cause == "wrong-kernel" && detail.ends_with("which has: stable, next, quiet, twin"), "{detail}");

    let on_next = |nonce: &str, release: &str, boot_id: &str| Place {
        standing: standing(Some((wanted(Some("next"), None), Some("n")))),
        facts: facts(release, 4, &format!("ro drover.nonce={nonce}"), boot_id),
        ..golden(None)
    };
    let made = on_next("n", "6.12.0", "2");
    assert_eq!(made.judge(&[("kernel", "next")]), Judged::Right);
    assert_eq!(made.judge(&[("kernel", "running")]), needs(None, None));
    assert_eq!(made.judge(&[("kernel", "6.1.0")]), needs(None, None));
    assert_eq!(made.judge(&[("kernel", "stable")]), needs(Some("stable"), None));
    assert_eq!(made.judge(&[]), needs(None, None), "without an axis, it is what it was");
    let fell_back = on_next("x", "6.1.0", "2");
    assert_eq!(fell_back.judge(&[("kernel", "next")]), needs(Some("next"), None));
    assert_eq!(fell_back.judge(&[("kernel", "running")]), Judged::Right);
    let other_boot = on_next("old", "6.12.0", "3");
    assert_eq!(other_boot.judge(&[("kernel", "next")]), needs(Some("next"), None), "not our boot");
}

#[test]
fn expect_kernels_of_one_release_told_apart_by_the_boot_that_was_asked_for() {
    let on = |label: &str, nonce: Option<&str>| Place {
        standing: standing(Some((wanted(Some(label), None), nonce))),
        facts: facts("6.18.0", 4, "quiet drover.nonce=n", "2"),
        ..golden(None)
    };
    assert_eq!(on("quiet", Some("n")).judge(&[("kernel", "quiet")]), Judged::Right);
    assert_eq!(on("quiet", None).judge(&[("kernel", "quiet")]), Judged::Right, "by its boot id");
    assert_eq!(on("quiet", Some("n")).judge(&[("kernel", "twin")]), needs(Some("twin"), None));
    let mut place = golden(None);
    place.standing.golden = Some(Golden { release: "6.18.0".into(), cpus: 4, ..Golden::default() });
    place.facts = facts("6.18.0", 4, "", "1");
    for label in ["quiet", "twin"] {
        assert_eq!(place.judge(&[("kernel", label)]), needs(Some(label), None), "what runs may be either");
    }
}

#[test]
fn expect_cpus_taken_offline_after_the_boot_when_that_is_how_they_are_made() {
    let place = golden(Some(CpusBy::Hotplug));
    assert_eq!(place.judge(&[("cpus", "4")]), Judged::Right);
    assert_eq!(place.judge(&[("cpus", "2")]), Judged::Needs(Change::Cpus(2)));
    let both = &[("kernel", "next"), ("cpus", "2")];
    assert_eq!(place.judge(both), needs(Some("next"), None), "first the kernel");
    assert_eq!(
        place.cause(&[("cpus", "5")]),
        ("wrong-cpus", "the cell asks for 5 CPUs, host h has 4".to_owned())
    );
    let fewer = Place { facts: facts("6.1.0", 1, "", "1"), ..golden(Some(CpusBy::Hotplug)) };
    assert_eq!(fewer.judge(&[("cpus", "3")]), Judged::Needs(Change::Cpus(3)), "they come back");
    let affinity = Place { facts: facts("6.1.0", 2, "", "1"), ..golden(Some(CpusBy::Affinity)) };
    assert_eq!(affinity.judge(&[("cpus", "1")]), Judged::Right, "tasks are kept to some");
    assert_eq!(affinity.cause(&[("cpus", "3")]).0, "wrong-cpus");
}

#[test]
fn expect_a_boot_with_words_when_that_is_how_cpus_are_made() {
    let by = Some(CpusBy::Boot(CpuWord::NrCpus));
    let place = golden(by);
    assert_eq!(place.judge(&[("cpus", "4")]), Judged::Right, "all of them");
    assert_eq!(place.judge(&[("cpus", "2")]), needs(Some("stable"), Some(2)), "the same kernel again");
    assert_eq!(place.judge(&[("kernel", "next"), ("cpus", "2")]), needs(Some("next"), Some(2)));
    assert_eq!(place.judge(&[("kernel", "next"), ("cpus", "4")]), needs(Some("next"), None));
    assert_eq!(place.cause(&[("cpus", "5")]).0, "wrong-cpus");
    let on = |online: u32| Place {
        standing: standing(Some((wanted(Some("stable"), Some(2)), Some("n")))),
        facts: facts("6.1.0", online, "drover.nonce=n nr_cpus=2", "2"),
        ..golden(by)
    };
    assert_eq!(on(2).judge(&[("cpus", "2")]), Judged::Right);
    assert_eq!(on(2).judge(&[("cpus", "1")]), needs(Some("stable"), Some(1)));
    assert_eq!(on(2).judge(&[("cpus", "4")]), needs(None, None), "what it was has all of them");
    let (cause, detail) = on(4).cause(&[("cpus", "2")]);
    assert!(cause == "wrong-cpus" && detail.contains("has 4 online"), "{detail}");
    let mut unknown = golden(by);
    unknown.boot = Some(Boot { kernels: vec![kernel("next", "6.12.0", None)], ..boot() });
    let (cause, detail) = unknown.cause(&[("cpus", "2")]);
    assert!(cause == "wrong-cpus" && detail.contains("no kernel with `release: 6.1.0`"), "{detail}");
}

#[test]
fn expect_what_a_host_says_before_a_trial_to_hold_after_it() {
    let Place { standing, facts: before, .. } = golden(None);
    let host = "h".parse().unwrap();
    let expected =
        Real { host: &host, boot: None, cpus: None, standing: &standing, facts: &before }.expected();
    expected.compare(&Found::of_facts(&before)).unwrap();
    let mut changed = facts("6.1.0", 4, "", "1");
    changed.kernel_version = "#2".into();
    for other in [facts("6.1.1", 4, "", "1"), facts("6.1.0", 3, "", "1"), facts("6.1.0", 4, "", "2"), changed]
    {
        assert!(expected.compare(&Found::of_facts(&other)).is_err(), "{other:?}");
    }
}
