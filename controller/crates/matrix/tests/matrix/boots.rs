//! How often a plan boots the hosts.

use super::common::{edited, read};
use drover_matrix::{Boots, HostFile, Matrix, Options, Source, boots, parse_hosts, plan};
use proptest::prelude::*;

const VM: &str = "vm1: { vm: { kernel: a, boot: 30s } }";

fn file(hosts: &str) -> HostFile {
    let text = format!("version: 1\nhosts:\n  {hosts}\n");
    parse_hosts(&Source::new("hosts.yaml", text)).unwrap_or_else(|found| panic!("{found}"))
}

/// Two kernels on one and two CPUs, with 18 trials for each of these four machines.
fn matrix(edits: &[(&str, &str)]) -> Matrix {
    let kernels = [("cpus: [1, 2]", "kernel: [a, b]\n  cpus: [1, 2]")];
    let text = edited(&[&kernels[..], edits].concat());
    read(&text, &Options::default()).unwrap_or_else(|found| panic!("{found}"))
}

fn count(matrix: &Matrix, hosts: &str) -> Boots {
    boots(matrix, &plan(matrix, 7), &file(hosts))
}

fn exactly(boots: Boots) -> u64 {
    assert!(boots.is_exact, "{boots:?}");
    boots.count
}

#[test]
fn expect_a_boot_for_each_kernel_and_cpu_count_when_the_host_is_a_virtual_machine() {
    let boots = count(&matrix(&[]), VM);
    assert_eq!(exactly(boots), 4);
    assert_eq!(boots.longest.as_secs(), 4 * 30);
    // Without the axes it is booted once, as whatever its file says.
    let plain = read(&edited(&[]).replace("cpus: [1, 2]", "load: [1, 2]"), &Options::default()).unwrap();
    assert_eq!(exactly(count(&plain, VM)), 1);
    // `running` is what its file names, and so is one CPU.
    let running = matrix(&[("kernel: [a, b]", "kernel: [running, a]"), ("cpus: [1, 2]", "cpus: [1]")]);
    assert_eq!(exactly(count(&running, VM)), 1);
}

#[test]
fn expect_no_boot_when_nobody_can_boot_the_host() {
    assert_eq!(count(&matrix(&[]), "here: { local: true }"), Boots { is_exact: true, ..Boots::default() });
}

#[test]
fn expect_the_way_back_counted_and_cpus_only_where_they_need_a_boot_when_a_host_is_real() {
    let host = |cpus: &str| {
        let boot = "by: grub, within: 2m, kernels: { a: { entry: A, release: \"6.1\" }, b: { entry: B, release: \"6.2\" } }";
        format!("web1: {{ ssh: web1, boot: {{ {boot} }}{cpus} }}")
    };
    // It may be found as one of these.
    let at_most = |matrix: &Matrix, hosts: &str| {
        let boots = count(matrix, hosts);
        assert!(!boots.is_exact, "{boots:?}");
        boots.count
    };
    assert_eq!(at_most(&matrix(&[]), &host("")), 3);
    assert_eq!(count(&matrix(&[]), &host("")).longest.as_secs(), 3 * 120);
    assert_eq!(at_most(&matrix(&[]), &host(", cpus: { by: hotplug }")), 3);
    assert_eq!(at_most(&matrix(&[]), &host(", cpus: { by: boot }")), 5);
    // What runs is what it was found with, and so is what it has no way to boot.
    for found in ["running", "6.0"] {
        let running = matrix(&[("kernel: [a, b]", &format!("kernel: [{found}, b]"))]);
        assert_eq!(at_most(&running, &host("")), 2);
    }
    let only = matrix(&[("kernel: [a, b]", "kernel: [running]")]);
    assert_eq!(exactly(count(&only, &host(""))), 0);
}

#[test]
fn expect_the_order_of_the_file_paid_for_when_it_goes_back_and_forth() {
    let last = [
        ("kernel: [a, b]\n  cpus: [1, 2]\n  servers", "servers"),
        ("mode: [wait, close]", "mode: [wait, close]\n  cpus: [1, 2]\n  kernel: [a, b]"),
    ];
    let declared = matrix(&[last[0], last[1], ("repeat: 3", "repeat: 3\norder: declared")]);
    // Each of the 24 cells asks for another machine than the one before.
    assert_eq!(exactly(count(&declared, VM)), 24);
    assert_eq!(exactly(count(&matrix(&last), VM)), 4);
}

#[test]
fn expect_tables_to_cost_nothing_more_when_there_is_one_host_and_boots_of_their_own_when_there_are_more() {
    let facets =
        matrix(&[("repeat: 3", "repeat: 3\ntable: { rows: [kernel], cols: [cpus], facet: [servers] }")]);
    assert!(facets.keeps_plan_order(&file(VM)));
    assert_eq!(exactly(count(&facets, VM)), 4);
    let two = format!("{VM}\n  vm2: {{ vm: {{ kernel: b, boot: 30s }} }}");
    assert!(!facets.keeps_plan_order(&file(&two)));
    let boots = count(&facets, &two);
    assert_eq!((boots.count, boots.is_exact, boots.longest.as_secs()), (3 * 4, false, 12 * 30));
    // One table on one of them.
    assert_eq!(exactly(count(&matrix(&[]), &two)), 4);
}

#[test]
fn expect_every_host_counted_when_the_matrix_is_repeated_on_each() {
    let each = matrix(&[("repeat: 3", "repeat: 3\nspread: each")]);
    let each = each.with_hosts(&["vm1", "web1"].map(|name| name.parse().unwrap())).unwrap();
    assert_eq!(exactly(count(&each, &format!("{VM}\n  web1: {{ ssh: web1 }}"))), 4);
    let both = format!("{VM}\n  web1: {{ vm: {{ kernel: a, boot: 1m }} }}");
    let boots = count(&each, &both);
    assert_eq!((exactly(boots), boots.longest.as_secs()), (8, 4 * 30 + 4 * 60));
}

#[test]
fn expect_only_hosts_of_services_counted_when_clients_run_elsewhere() {
    let server = ("    ports: [port, admin]", "    on: lab\n    ports: [port, admin]");
    let client = ("    after: server", "    on: gen\n    after: server");
    let hosts = "vm1: { vm: { kernel: a }, labels: [lab] }\n  vm2: { vm: { kernel: a }, labels: [gen] }";
    assert_eq!(exactly(count(&matrix(&[server, client]), hosts)), 4);
    let mixed = matrix(&[("repeat: 3", "repeat: 3\nmix_hosts: true")]);
    let two = format!("{VM}\n  vm2: {{ vm: {{ kernel: a }} }}");
    let boots = count(&mixed, &two);
    assert_eq!((boots.count, boots.is_exact), (8, false));
}

proptest! {
    #[test]
    fn as_many_boots_as_the_machine_changes_in_the_order_of_the_plan(
        order in prop::sample::select(vec!["interleaved", "declared", "shuffled"]),
        kernels in 1..4_usize,
        cpus in 1..4_usize,
        seed in any::<u64>(),
    ) {
        let list = |values: &[&str], count: usize| values[..count].join(", ");
        let axes = format!("kernel: [{}]\n  cpus: [{}]", list(&["x", "running", "y"], kernels), list(&["2", "1", "4"], cpus));
        let text = edited(&[("cpus: [1, 2]", &axes), ("repeat: 3", &format!("repeat: 3\norder: {order}"))]);
        let matrix = read(&text, &Options::default()).unwrap();
        let plan = plan(&matrix, seed);
        let mut machines: Vec<(String, String)> = plan
            .iter()
            .map(|trial| {
                let cell = matrix.cell(trial.cell).unwrap().cell;
                let kernel = cell.value("kernel").unwrap();
                (if kernel == "running" { "a" } else { kernel }.to_owned(), cell.value("cpus").unwrap().to_owned())
            })
            .collect();
        machines.dedup();
        let counted = boots(&matrix, &plan, &file(VM));
        prop_assert!(counted.is_exact);
        prop_assert_eq!(counted.count, u64::try_from(machines.len()).unwrap());
    }
}
