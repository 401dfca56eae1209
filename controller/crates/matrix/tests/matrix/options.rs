//! `--set` and `--only`, and the diagnostics that point at them.

use super::common::{GOOD, cells, edited, read};
use drover_matrix::Options;

fn options(set: &[&str], only: &[&str]) -> Options {
    let own = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    Options { set: own(set), only: own(only), cell_limit: None }
}

fn mistake(set: &[&str], only: &[&str]) -> String {
    read(GOOD, &options(set, only)).unwrap_err().to_string()
}

#[test]
fn expect_an_axis_to_be_narrowed_or_overridden() {
    let matrix = read(GOOD, &options(&["servers=10", "mode=wait,other"], &[])).unwrap();
    assert_eq!(cells(&matrix)[..2], ["cpus=1 servers=10 mode=wait", "cpus=1 servers=10 mode=other"]);
    let matrix = read(GOOD, &options(&["servers=1..4,100"], &[])).unwrap();
    assert_eq!(matrix.count(), 20);
}

#[test]
fn expect_the_same_cells_under_their_old_indexes_when_some_are_selected() {
    let all = read(GOOD, &Options::default()).unwrap();
    let some = read(GOOD, &options(&[], &["servers > 3", "mode == 'wait'"])).unwrap();
    assert_eq!(some.count(), 4);
    assert_eq!(some.cells().count(), 4);
    for planned in some.cells() {
        assert_eq!(all.cell(planned.cell.index).unwrap(), planned);
        assert_eq!(some.cell(planned.cell.index).unwrap(), planned);
    }
    assert!(some.cell(0).is_none());
}

#[test]
fn expect_the_same_key_when_the_command_line_narrows_the_matrix() {
    let all = read(GOOD, &Options::default()).unwrap();
    let some = read(GOOD, &options(&["servers=30", "cpus=2"], &[])).unwrap();
    let key = some.cell(0).unwrap().cell.key;
    let same = all.cells().find(|planned| planned.cell.key == key).unwrap();
    assert_eq!(same.cell.to_string(), "cpus=2 servers=30 mode=wait");
}

#[test]
fn expect_a_rule_to_be_judged_by_the_file_and_not_by_what_is_left() {
    let text = edited(&[("roles:", "exclude: [{ when: servers == 30 }]\nroles:")]);
    assert_eq!(read(&text, &options(&["servers=3"], &[])).unwrap().count(), 4);
}

#[test]
fn expect_included_cells_to_be_narrowed_too() {
    let text = edited(&[("roles:", "include: [{ cpus: 4, servers: 99, mode: wait }]\nroles:")]);
    assert_eq!(read(&text, &options(&[], &[])).unwrap().count(), 13);
    assert_eq!(read(&text, &options(&["servers=3"], &[])).unwrap().count(), 4);
    let matrix = read(&text, &options(&["servers=99", "cpus=4"], &[])).unwrap();
    assert_eq!(cells(&matrix), ["cpus=4 servers=99 mode=wait", "cpus=4 servers=99 mode=close"]);
}

#[test]
fn expect_mistakes_of_options_with_their_place() {
    insta::assert_snapshot!(mistake(
        &["servres=1", "servers=1,,2", "mode", "cpus=two", "servers=8..1", "mode=a,a", "servers=1"],
        &["serverz > 3", "servers = 3", "1 == 1", "mode"],
    ));
}

#[test]
fn expect_a_mistake_when_nothing_is_selected() {
    insta::assert_snapshot!(mistake(&[], &["servers > 100"]));
}

#[test]
fn expect_a_mistake_when_zipped_axes_are_set_to_different_lengths() {
    let text = edited(&[("mode: [wait, close]", "mode: [a, b, c]\nzip: [[mode, servers]]")]);
    insta::assert_snapshot!(read(&text, &options(&["servers=1,2"], &[])).unwrap_err());
    assert_eq!(read(&text, &options(&["servers=1,2", "mode=x,y"], &[])).unwrap().count(), 4);
}
