//! What a heading says of a host that was several machines in the course of a run.

use drover_model::{CpuCore, HostFacts, MissingCause, Verdict};
use drover_report::Format;
use drover_store::{HostState, RunResults};

use crate::fixture::{attempt, empty_run, host_facts, missing, name, render_as};

/// A run on `local`, which was these machines one after the other: boot, release, CPUs.
fn run(labels: &[&str], states: &[(&str, &str, u32)]) -> RunResults {
    let mut results = empty_run(&[("kernel", labels), ("n", &["1"])], 1);
    let cpu = |cpu| CpuCore { cpu, core: cpu, package: 0, node: 0 };
    let facts = |(boot_id, release, cpus): &(&str, &str, u32)| HostFacts {
        boot_id: (*boot_id).to_owned(),
        kernel_release: (*release).to_owned(),
        cpus: (0..*cpus).map(cpu).collect(),
        ..host_facts()
    };
    let all: Vec<HostFacts> = states.iter().map(facts).collect();
    results.host_states = all.iter().map(|facts| HostState::of(&name("local"), facts)).collect();
    results.hosts[0].1 = all.last().unwrap().clone();
    results
}

fn heading(results: &RunResults) -> String {
    let text = render_as(results, Format::Text);
    let is_host = |line: &&str| line.starts_with("host ") || line.contains(" ran Linux ");
    text.lines().filter(is_host).collect::<Vec<_>>().join("\n")
}

#[test]
fn expect_all_kernels_and_cpu_counts_in_their_order_when_a_host_was_booted_as_several_machines() {
    let states = [
        ("a", "6.1.0-57-cloud-amd64", 1),
        ("b", "6.1.0-57-cloud-amd64", 4),
        ("c", "6.12.117+deb12-cloud-amd64", 1),
        ("d", "6.12.117+deb12-rt-amd64", 2),
        // The way back.
        ("e", "6.1.0-57-cloud-amd64", 1),
    ];
    let mut results = run(&["6.1", "6.12", "6.12-rt"], &states);
    for (cell, boot_id) in [(0, "a"), (1, "c"), (2, "d")] {
        let mut attempt = attempt(cell, 1, 1, Verdict::Ok, Some(1.0));
        attempt.boot_ids = vec![boot_id.to_owned()];
        results.attempts.push(attempt);
    }
    // What came up instead of another kernel is not called by its name.
    results.attempts[2].verdict = missing(MissingCause::WrongKernel, "another one runs");
    assert_eq!(
        heading(&results),
        "host local: x86_64, 1, 4 and 2 CPUs (Imaginary 3000), under KVM\n\
         local ran Linux 6.1.0-57-cloud-amd64 (6.1), 6.12.117+deb12-cloud-amd64 (6.12), 6.12.117+deb12-rt-amd64"
    );
    insta::assert_snapshot!(render_as(&results, Format::Markdown));
    let json: serde_json::Value = serde_json::from_str(&render_as(&results, Format::Json)).unwrap();
    assert_eq!(json["hosts"][0]["states"][3]["kernel_release"], "6.12.117+deb12-rt-amd64");
    assert_eq!(
        (&json["hosts"][0]["states"][3]["cpus"], &json["hosts"][0]["states"][3]["boot_id"]),
        (&2.into(), &"d".into())
    );
}

#[test]
fn expect_one_line_when_a_host_was_one_machine() {
    let mut results = run(&["running"], &[("a", "6.12.48-amd64", 2)]);
    results.attempts.push(attempt(0, 1, 1, Verdict::Ok, Some(1.0)));
    results.attempts[0].boot_ids = vec!["a".to_owned()];
    let one = "host local: Linux 6.12.48-amd64 x86_64, 2 CPUs (Imaginary 3000), under KVM";
    assert_eq!(heading(&results), one);
    // Of older stores, only the last facts are known.
    results.host_states.clear();
    assert_eq!(heading(&results), one);
    // What a matrix calls by its release needs no other name.
    let mut by_release = run(&["6.12.48-amd64"], &[("a", "6.12.48-amd64", 2)]);
    by_release.attempts.push(attempt(0, 1, 1, Verdict::Ok, Some(1.0)));
    by_release.attempts[0].boot_ids = vec!["a".to_owned()];
    assert_eq!(heading(&by_release), one);
    let hotplug = run(&["running"], &[("a", "6.12.48-amd64", 2), ("a", "6.12.48-amd64", 1)]);
    assert_eq!(heading(&hotplug), one.replace("2 CPUs", "2 and 1 CPUs"));
}

#[test]
fn expect_few_words_when_a_host_was_many_machines() {
    let releases: Vec<String> = (0..30).map(|minor| format!("6.{minor}.0")).collect();
    let states: Vec<(&str, &str, u32)> =
        releases.iter().zip(1..).map(|(release, cpus)| ("a", release.as_str(), cpus)).collect();
    let text = heading(&run(&["x"], &states));
    assert!(text.contains("x86_64, 30 numbers of CPUs from 1 to 30 (Imaginary"), "{text}");
    assert!(text.ends_with("6.11.0, 18 more"), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
}
