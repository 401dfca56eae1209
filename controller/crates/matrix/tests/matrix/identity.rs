//! Cell keys: what changes them and what does not.

use super::common::matrix;
use drover_matrix::Matrix;
use drover_model::CellKey;

fn key(matrix: &Matrix) -> CellKey {
    let find = |planned: &drover_matrix::PlannedCell| {
        planned.cell.value("servers") == Some("10") && planned.cell.value("mode") == Some("wait")
    };
    matrix.cells().find(find).unwrap().cell.key
}

#[test]
fn expect_the_same_key_when_only_description_order_or_bounds_change() {
    let base = key(&matrix(&[]));
    for edit in [
        ("name: example", "name: other\nabout: something"),
        ("repeat: 3", "repeat: 9\norder: declared\nseed: 5\ntimeout: 9m\nretries: 0\nlimits: { cells: 50 }"),
        ("repeat: 3", "table: { rows: [servers] }"),
        ("  cpus: [1, 2]\n  servers: [3, 10, 30]", "  servers: [3, 10, 30]\n  cpus: [1, 2]"),
        ("servers: [3, 10, 30]", "servers: [5, 10]"),
        ("    after: server\n", "    after: server\n    timeout: 7s\n    output: 1MiB\n"),
        ("\"{{ servers + 1 }}\" }", "\"{{ servers + 1 }}\", within: 3s }\n    stop: { grace: 9s }"),
        ("unit: conn/s", "unit: c/s, about: text"),
        ("repeat: 3", "exclude: [{ when: servers == 30 }]"),
        ("must: \"== 0\" }", "must: \"== 0\" }\n  extra: { unit: s, better: lower }"),
    ] {
        assert_eq!(key(&matrix(&[edit])), base, "{edit:?}");
    }
}

#[test]
fn expect_another_key_when_the_number_can_change() {
    let base = key(&matrix(&[]));
    for edit in [
        ("[cli, ", "[cli, -k, "),
        ("after: server", "after: [server]\n    env: { LANG: C }"),
        ("after: server", "after: server\n    files: { a: b }"),
        ("after: server", "after: server\n    status: any"),
        ("ready: { tcp: port, ", "stop: { signal: INT }\n    ready: { tcp: port, "),
        ("repeat: 3", "placement: { client: disjoint }"),
        ("higher, primary: true", "higher, primary: true, from: client"),
        ("higher, primary: true", "higher, primary: true, value: client.rate * 2"),
        ("mode: [wait, close]", "mode: [wait, close]\n  more: [x]"),
    ] {
        assert_ne!(key(&matrix(&[edit])), base, "{edit:?}");
    }
}

#[test]
fn expect_the_key_of_a_known_cell_to_stay_for_ever() {
    // Results of different days are joined by it.
    insta::assert_snapshot!(key(&matrix(&[])));
}

#[test]
fn expect_the_contents_of_files_to_take_part() {
    let text =
        ("after: server", "after: server\n    files: { a: { from: b.conf }, r: { from: r.bin, raw: true } }");
    let with = |conf: &str, raw: &[u8]| {
        key(&matrix(&[text])
            .with_files(&[conf.into(), raw.to_vec()])
            .unwrap_or_else(|found| panic!("{found}")))
    };
    assert_eq!(with("x {{ mode }}", b"\xff"), with("x {{ mode }}", b"\xff"));
    assert_ne!(with("x", b"\xff"), with("y", b"\xff"));
    assert_ne!(with("x", b"\xff"), with("x", b"\xfe"));
}
