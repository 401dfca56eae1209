//! A host as such: it boots its golden kernel, and is a host like any other.

use crate::{
    host::Host,
    tree::{GOLDEN, kernel},
};

const MATRIX: &str = r#"
version: 1
name: plain
axes: { n: [1] }
roles:
  job:
    run: [/bin/sh, -c, "echo rate 7"]
    measure: { regex: 'rate (?<rate>[0-9]+)' }
metrics:
  rate: { unit: 1/s, better: higher, primary: true }
timeout: 3m
"#;

#[tokio::test]
async fn expect_a_trial_on_the_golden_kernel_when_nothing_else_is_asked_for() {
    let host = Host::with_grub(2, |_| {});
    let hello = host.agent().await.hello;
    let release = kernel(GOLDEN).release;
    assert_eq!(hello.facts.kernel_release, release);

    let listed = host.run(&["hosts"]);
    assert_eq!(listed.status, 0, "{}\n{}", listed.stdout, listed.stderr);
    assert!(listed.stdout.contains(&release), "{}", listed.stdout);
    host.write("m.yaml", MATRIX);
    let ran = host.run(&["run", "m.yaml"]);
    assert_eq!(ran.status, 0, "{}\n{}", ran.stdout, ran.stderr);
    let verdicts = host.verdicts();
    assert!(verdicts.len() == 1 && ["ok", "suspect"].contains(&verdicts[0].1.as_str()), "{verdicts:?}");
}
