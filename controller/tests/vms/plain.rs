//! A virtual machine as a host like any other, and the catalogue's command.

use crate::harness::{Lab, NEW, OLD, kernel};

const MATRIX: &str = r#"
version: 1
name: plain
axes: { servers: [2] }
roles:
  server:
    run: [drover-agent, workload, server, --listen, "{{ address }}:{{ port }}", --servers, "{{ servers }}"]
    ports: [port]
    ready: { tcp: port, within: 60s }
  client:
    after: server
    run: [drover-agent, workload, client, --connect, "{{ server.address }}:{{ server.port }}", --connections, 50]
    measure: workload
  shell:
    run: [/bin/sh, -c, "echo here > here; echo $((6 * 7))"]
    after: client
    artifacts: [here]
metrics:
  conn_per_s: { unit: conn/s, better: higher, primary: true, from: client }
timeout: 3m
"#;

#[test]
fn expect_a_table_with_the_kernels_release_when_a_matrix_runs_in_a_virtual_machine() {
    let lab = Lab::new(&format!("kernel: {NEW}, cpus: 2, files: [/bin/sh]"), "");
    lab.write("m.yaml", MATRIX);
    let ran = lab.run(&["run", "m.yaml"]);
    assert_eq!(ran.status, 0, "{}\n{}", ran.stdout, ran.stderr);
    let release = kernel(NEW).release;
    let host = format!("host vm1: Linux {release} x86_64, 2 CPUs");
    assert!(ran.stdout.contains(&host) && ran.stdout.contains("qemu-tcg"), "{}", ran.stdout);
    let verdicts = lab.verdicts();
    assert_eq!(verdicts.len(), 1, "{verdicts:?}");
    assert!(verdicts[0].0 == "c0r1" && ["ok", "suspect"].contains(&verdicts[0].1.as_str()), "{verdicts:?}");
    let left: Vec<_> = lab.path().read_dir().unwrap().flatten().map(|entry| entry.file_name()).collect();
    let is_left = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("drover-vm-");
    assert!(!left.iter().any(is_left), "{left:?}");
}

#[test]
fn expect_the_label_and_what_is_alike_when_a_host_names_no_kernel_that_is_there() {
    let lab = Lab::new("kernel: odd", "kernels: { torn: { image: /etc/passwd } }\n");
    let ran = lab.run(&["hosts"]);
    assert_eq!(ran.status, 4, "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("host vm1 has no kernel `odd`"), "{}", ran.stdout);
    assert!(ran.stdout.contains("did you mean `old`?"), "{}", ran.stdout);

    let lab = Lab::new("kernel: torn", "kernels: { torn: { image: /etc/passwd } }\n");
    let ran = lab.run(&["hosts"]);
    assert!(ran.stdout.contains("`/etc/passwd` cannot be booted"), "{}", ran.stdout);
}

#[test]
fn expect_kernels_listed_and_removed_when_the_catalogue_has_some() {
    let lab = Lab::new(&format!("kernel: {OLD}"), "");
    let listed = lab.run(&["kernels", "list"]);
    for label in [OLD, NEW] {
        let kernel = kernel(label);
        let hash = &kernel.hash[..12];
        let has = |line: &str| [label, &kernel.release, hash].iter().all(|word| line.contains(word));
        assert!(listed.stdout.lines().any(has), "{}", listed.stdout);
    }
    let own = lab.path().join("kernels");
    let own = own.to_str().unwrap();
    let none = lab.run(&["kernels", "--dir", own, "list"]);
    assert!(none.status == 0 && none.stderr.contains("drover kernels fetch"), "{}", none.stderr);
    let removed = lab.run(&["kernels", "remove", "--dir", own, "x"]);
    assert!(removed.status == 2 && removed.stderr.contains("no kernel is called `x`"), "{}", removed.stderr);
    let fetched = lab.run(&["kernels", "fetch", "--dir", own, "linux-image-amd64"]);
    assert!(fetched.status == 2 && fetched.stderr.contains("`debian:`"), "{}", fetched.stderr);
}
