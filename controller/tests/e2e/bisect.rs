//! Searches for a culprit, each try a run of its own.

use rustix::process::Signal;

use crate::harness::{Lab, signal, wait_until};

/// A job that fails from the version 6 on; version 4 cannot be built.
const VERSIONS: &str = "
version: 1
name: versions
axes:
  version: ['1..9']
  mode: [plain]
roles:
  job:
    shell: |
      echo {{ version }} >> TRIES
      test {{ version }} = 4 && exit 7
      if test {{ version }} -ge 6; then echo rate 10; else echo rate 200; fi
    measure: { regex: 'rate (?<rate>[0-9]+)' }
metrics:
  rate: { unit: 1/s, better: higher, primary: true, must: '> 100' }
timeout: 20s
";

fn tries(lab: &Lab) -> Vec<String> {
    let text = std::fs::read_to_string(lab.path().join("tries")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn write(lab: &Lab, text: &str) -> String {
    let tries = lab.path().join("tries");
    lab.write("matrix.yaml", &text.replace("TRIES", tries.to_str().unwrap())).to_str().unwrap().to_owned()
}

#[test]
fn expect_the_first_bad_value_and_few_runs_when_an_axis_is_searched() {
    let lab = Lab::new();
    let matrix = write(&lab, VERSIONS);
    let ran = lab.run(&["bisect", &matrix, "--axis", "version"]).expect(0);
    assert!(
        ran.stdout.contains("first bad: version=6\nlast good: version=5\nconfidence: "),
        "{}",
        ran.stdout
    );
    let of = |version: &str| tries(&lab).iter().filter(|tried| *tried == version).count();
    assert_eq!((of("1"), of("9"), of("5"), of("2"), of("8")), (3, 3, 3, 0, 0), "{:?}", tries(&lab));
    // By a metric, the same; the check of the matrix makes it a failure before.
    let matrix = write(&lab, &VERSIONS.replace(", must: '> 100'", ""));
    lab.run(&["bisect", &matrix, "--axis", "version", "--bad", "rate < 100"])
        .expect(0)
        .says("first bad: version=6");
    lab.run(&["bisect", &matrix, "--axis", "version"])
        .expect(3)
        .says("the end that should be bad has not failed");
}

#[test]
fn expect_the_range_named_when_values_between_cannot_be_measured() {
    let lab = Lab::new();
    let matrix = write(&lab, &VERSIONS.replace("-ge 6", "-ge 4"));
    let ran = lab.run(&["bisect", &matrix, "--axis", "version"]).expect(3);
    let expected =
        "after version=3 and not after version=5; between them nothing could be told of: version=4";
    assert!(ran.stdout.contains(expected), "{}", ran.stdout);
}

#[test]
fn expect_the_pair_when_toggles_are_searched() {
    let lab = Lab::new();
    let matrix = write(
        &lab,
        "
version: 1
name: patches
axes: { a: ['off', 'on'], b: ['off', 'on'], c: ['off', 'on'], d: ['off', 'on'] }
roles:
  job: { shell: 'test {{ b }}{{ d }} = onon && echo rate 10 || echo rate 200', measure: { regex: 'rate (?<rate>[0-9]+)' } }
metrics: { rate: { unit: 1/s, better: higher, primary: true, must: '> 100' } }
timeout: 20s
",
    );
    let ran = lab.run(&["bisect", &matrix, "--toggle", "a", "b", "c", "d"]).expect(0);
    assert!(ran.stdout.contains("the smallest set that changes the outcome: on: b, d"), "{}", ran.stdout);
}

#[test]
fn expect_no_try_made_twice_when_a_search_is_killed_and_goes_on() {
    let lab = Lab::new();
    let matrix = write(&lab, &VERSIONS.replace("echo {{ version }}", "sleep 0.3; echo {{ version }}"));
    let mut searching = lab.spawn(&["bisect", &matrix, "--axis", "version", "--ends", "2"]);
    wait_until("three tries", || tries(&lab).len() >= 3);
    signal(&searching, Signal::KILL);
    searching.wait().unwrap();
    let ran = lab.run(&["bisect", "--resume"]).expect(0);
    assert!(ran.stdout.contains("first bad: version=6"), "{}", ran.stdout);
    // Every try is a run of one trial; the one that was in flight was adopted or begun again, not both.
    let runs: Vec<_> = lab.run(&["list"]).expect(0).stdout.lines().map(str::to_owned).collect();
    let counted = runs.iter().filter(|line| line.contains("versions")).count();
    let made = tries(&lab).len();
    assert!(made == counted || made == counted + 1, "{made} tries, {counted} runs");
    // It is over: asking again tries nothing.
    lab.run(&["bisect", "--resume"]).expect(0).says("first bad: version=6");
    assert_eq!(tries(&lab).len(), made);
    std::fs::write(&matrix, VERSIONS).unwrap();
    lab.run(&["bisect", "--resume"]).expect(2).says("has changed since the search began");
}

#[test]
fn expect_the_remedy_when_a_search_makes_no_sense() {
    let lab = Lab::new();
    let matrix = write(&lab, VERSIONS);
    lab.run(&["bisect", &matrix]).expect(2).says("--axis");
    lab.run(&["bisect", &matrix, "--axis", "versoin"]).expect(2).says("it has version, mode");
    lab.run(&["bisect", &matrix, "--axis", "mode"]).expect(2).says("one value");
    lab.run(&["bisect", &matrix, "--toggle", "version"]).expect(2).says("9 values");
    lab.run(&["bisect", &matrix, "--axis", "version", "--bad", "worse"]).expect(2).says("expected `ng`");
    lab.run(&["bisect", "--resume"]).expect(2).says("there is no search");
    assert!(tries(&lab).is_empty());
}
