//! Wrong files and wrong command lines: one clear message, exit status 2, nothing run, nothing left behind.

use std::{fs, path::Path};

use crate::harness::Lab;

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[test]
fn expect_place_and_remedy_when_any_of_the_faulty_matrices_is_run() {
    let lab = Lab::new();
    let mut seen = 0;
    for entry in fs::read_dir(repository().join("matrices/bad")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let name = path.to_str().unwrap();
        let ran = lab.run(&["run", name]).expect(2);
        let first = ran.stderr.lines().next().unwrap_or_default();
        let place = first.strip_prefix(name).unwrap_or_else(|| panic!("no file name in {first}"));
        let mut numbers = place.split(':').skip(1);
        for what in ["line", "column"] {
            let number = numbers.next().and_then(|number| number.parse::<u32>().ok());
            assert!(number.is_some_and(|number| number > 0), "no {what} in {first}");
        }
        seen += 1;
    }
    assert!(seen >= 30, "only {seen} faulty matrices");
    assert!(!lab.results().exists(), "a faulty matrix left results behind");
    assert!(!lab.agent_dir().exists(), "a faulty matrix started an agent");
}

#[test]
fn expect_the_reason_when_the_matrix_cannot_be_read() {
    let lab = Lab::new();
    lab.run(&["run", "nowhere.yaml"]).expect(2).says("nowhere.yaml").says("No such file");
    lab.run(&["check", "."]).expect(2).says("it is a folder");
}

#[test]
fn expect_suggestions_when_the_command_line_is_wrong() {
    let lab = Lab::new();
    lab.run(&["runn", "m.yaml"]).expect(2).says("run");
    let matrix = lab.matrix_of_one_role("    run: [/bin/true]");
    let matrix = matrix.to_str().unwrap();
    lab.run(&["run", matrix, "--set", "m=1"]).expect(2).says("`m`").says("n");
    lab.run(&["run", matrix, "--only", "m > 1"]).expect(2).says("m");
    lab.run(&["run", matrix, "--only", "n > 1"]).expect(2);
    lab.run(&["report"]).expect(2).says("no results");
}

#[test]
fn expect_the_package_to_install_when_a_required_command_is_missing() {
    let lab = Lab::new();
    let text = "version: 1\nname: m\nrequires: [{ command: no-such-tool, package: no-such-package }]\n\
                axes: { n: [1] }\nroles: { job: { run: [/bin/true] } }\n";
    let matrix = lab.write("m.yaml", text);
    lab.run(&["run", matrix.to_str().unwrap()])
        .expect(4)
        .says("`no-such-tool`")
        .says("apt-get install no-such-package");
    lab.run(&["doctor", matrix.to_str().unwrap()]).expect(4).says("no-such-package");
}
