//! `spread: each`: the hosts as an axis. And which trials are compared with one another.

use super::common::{cells, edited, matrix, read};
use drover_matrix::{Matrix, Options, Spread, plan};
use drover_model::Name;
use proptest::{collection::vec, prelude::*};

const EACH: (&str, &str) = ("repeat: 3", "repeat: 3\nspread: each");

fn hosts(list: &[&str]) -> Vec<Name> {
    list.iter().map(|name| name.parse().unwrap()).collect()
}

fn on(matrix: Matrix, list: &[&str]) -> Matrix {
    matrix.with_hosts(&hosts(list)).unwrap_or_else(|found| panic!("{found}"))
}

#[test]
fn expect_the_hosts_as_first_axis_when_spread_on_each() {
    let each = matrix(&[EACH]);
    assert_eq!((each.count(), each.policy().spread), (12, Spread::Each));
    let each = on(each, &["web1", "web2", "web1"]);
    assert_eq!(each.count(), 24);
    assert_eq!(each.axes()[0].name.as_str(), "host");
    assert_eq!(each.axes()[0].values.iter().map(|value| &**value).collect::<Vec<_>>(), ["web1", "web2"]);
    let cells = cells(&each);
    assert_eq!(
        (cells[0].as_str(), cells[12].as_str()),
        ("host=web1 cpus=1 servers=3 mode=wait", "host=web2 cpus=1 servers=3 mode=wait")
    );
    let keys: std::collections::BTreeSet<_> = each.cells().map(|planned| planned.cell.key).collect();
    assert_eq!(keys.len(), 24);
}

#[test]
fn expect_the_same_matrix_when_it_is_not_spread_on_each() {
    let any = on(matrix(&[]), &["web1", "web2"]);
    assert_eq!((any.count(), any.axes().len()), (12, 3));
    assert_eq!(any.cell(5), matrix(&[]).cell(5));
}

#[test]
fn expect_a_key_per_host_that_does_not_depend_on_the_others() {
    let both = on(matrix(&[EACH]), &["web1", "web2"]);
    let one = on(matrix(&[EACH]), &["web2"]);
    assert_eq!(both.cell(12).unwrap().cell.key, one.cell(0).unwrap().cell.key);
}

#[test]
fn expect_rules_and_options_that_name_hosts_to_be_judged_when_hosts_are_known() {
    let text = edited(&[EACH, ("roles:", "exclude: [{ when: host == \"web2\" and servers > 3 }]\nroles:")]);
    let options = Options { only: vec!["host in [\"web1\", \"web2\"]".into()], ..Options::default() };
    let each = read(&text, &options).unwrap_or_else(|found| panic!("{found}"));
    let each = on(each, &["web1", "web2", "web3"]);
    assert_eq!(each.count(), 24);
    assert_eq!(each.cells().filter(|planned| planned.excluded.is_some()).count(), 8);
    let found = read(&text, &options).unwrap().with_hosts(&hosts(&["big"])).unwrap_err().to_string();
    assert!(found.contains("excludes no cell") && found.contains("`host` has the values big"), "{found}");
    let only = Options { only: vec!["host == \"web9\"".into()], ..Options::default() };
    let none = read(&edited(&[EACH]), &only).unwrap();
    let found = none.with_hosts(&hosts(&["web1"])).unwrap_err().to_string();
    assert!(found.contains("`--only` selects no cell"), "{found}");
}

#[test]
fn expect_a_mistake_when_the_axis_host_is_set_or_there_is_no_host() {
    let set = Options { set: vec!["host=web1".into()], ..Options::default() };
    let found = read(&edited(&[EACH]), &set).unwrap_err().to_string();
    assert!(found.contains("--only 'host == \"web1\"'"), "{found}");
    let found = matrix(&[EACH]).with_hosts(&[]).unwrap_err().to_string();
    assert!(found.starts_with("x.yaml:22:1: `spread: each` has no host to measure on"), "{found}");
}

#[test]
fn expect_an_included_cell_on_every_host_unless_it_names_one() {
    let include = "include: [{ cpus: 8, servers: 3, mode: wait }, { host: web2, cpus: 9, servers: 3, mode: wait }]\nroles:";
    let each = on(matrix(&[EACH, ("roles:", include)]), &["web1", "web2"]);
    let all = cells(&each);
    assert_eq!(
        all[24..],
        [
            "host=web1 cpus=8 servers=3 mode=wait",
            "host=web2 cpus=8 servers=3 mode=wait",
            "host=web2 cpus=9 servers=3 mode=wait",
        ]
    );
}

#[test]
fn expect_loaded_files_and_repetitions_to_stay_when_hosts_become_known() {
    let files = ("after: server", "after: server\n    files: { a: { from: a.conf } }");
    let loaded = |text: &str| {
        let matrix = matrix(&[EACH, files]).with_files(&[text.as_bytes().to_vec()]).unwrap();
        on(matrix.with_repeat(7), &["web1"])
    };
    assert_eq!(loaded("x").policy().repeat, 7);
    assert_eq!(plan(&loaded("x"), 1).trials(), 84);
    let key = |text: &str| loaded(text).cell(0).unwrap().cell.key;
    assert_ne!(key("x"), key("y"));
    drover_matrix::Renderer::new(&loaded("{{ host }}")).unwrap();
}

#[test]
fn expect_a_group_per_table() {
    let matrix = |table: &str| {
        matrix(&[
            (
                "roles:",
                "include: [{ cpus: 8, servers: 3, mode: wait }, { cpus: 2, servers: 99, mode: wait }]\nroles:",
            ),
            ("repeat: 3", table),
        ])
    };
    let all = matrix("repeat: 3");
    assert_eq!(all.group_count(), 1);
    assert!((0..14).all(|cell| all.group_of(cell) == 0));
    let facets = matrix("table: { facet: [cpus, mode] }");
    // Four of the product, and that of the included eight CPUs.
    assert_eq!(facets.group_count(), 5);
    let groups: Vec<u32> = (0..14).map(|cell| facets.group_of(cell)).collect();
    assert_eq!(groups, [0, 2, 0, 2, 0, 2, 1, 3, 1, 3, 1, 3, 4, 1]);
}

#[test]
fn expect_a_group_per_host_when_spread_on_each() {
    let table = ("repeat: 3", "spread: each\ntable: { facet: [cpus] }");
    let each = on(matrix(&[table]), &["web1", "web2", "web3"]);
    assert_eq!(each.group_count(), 3);
    assert!((0..36).all(|cell| each.group_of(cell) == cell / 12));
}

proptest! {
    #[test]
    fn cells_are_in_one_group_when_their_facets_are_equal(
        lengths in vec(1_u32..4, 1..4), facets in vec(any::<bool>(), 4), zipped: bool, included in vec(vec(1_u32..5, 3), 0..4),
    ) {
        let axes: String = lengths.iter().enumerate().map(|(i, n)| format!("  a{i}: 1..{n}\n")).collect();
        let names: Vec<String> = (0..lengths.len()).map(|i| format!("a{i}")).chain(["servers".into()]).collect();
        let facets: Vec<&String> = names.iter().zip(facets).filter(|(_, on)| *on).map(|(name, _)| name).collect();
        let list = facets.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        let zip = if zipped && lengths[0] == 3 { "zip: [[a0, servers]]\n" } else { "" };
        let include: String = included
            .iter()
            .map(|values| {
                let pairs = values.iter().zip(&names).take(lengths.len()).map(|(v, n)| format!("{n}: {v}, "));
                format!("  - {{ {}servers: 30, cpus: 1, mode: wait }}\n", pairs.collect::<String>())
            })
            .collect();
        let include = if include.is_empty() { String::new() } else { format!("include:\n{include}") };
        let text = edited(&[
            ("  mode: [wait, close]\n", &format!("  mode: [wait]\n{axes}")),
            ("repeat: 3", &format!("{zip}{include}table: {{ facet: [{list}] }}")),
        ]);
        // Cells that are included twice are refused.
        let matrix = read(&text, &Options::default());
        prop_assume!(matrix.is_ok());
        let matrix = matrix.unwrap();
        let values = |cell: u32| {
            let cell = matrix.cell(cell).unwrap().cell;
            facets.iter().map(|facet| cell.value(facet).unwrap().to_owned()).collect::<Vec<_>>()
        };
        let cells = u32::try_from(matrix.count()).unwrap();
        for one in 0..cells {
            prop_assert!(matrix.group_of(one) < matrix.group_count());
            for other in 0..one {
                let same = matrix.group_of(one) == matrix.group_of(other);
                prop_assert_eq!(same, values(one) == values(other), "{} {}", one, other);
            }
        }
    }
}
