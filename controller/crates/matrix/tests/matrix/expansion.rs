//! Cells: order, count, values, zip, include, exclude.

use super::common::{cells, edited, matrix, read};
use drover_matrix::Options;

#[test]
fn expect_the_last_axis_to_be_the_fastest() {
    let matrix = matrix(&[("servers: [3, 10, 30]", "servers: [3, 10]")]);
    assert_eq!(matrix.count(), 8);
    assert_eq!(
        cells(&matrix)[..5],
        [
            "cpus=1 servers=3 mode=wait",
            "cpus=1 servers=3 mode=close",
            "cpus=1 servers=10 mode=wait",
            "cpus=1 servers=10 mode=close",
            "cpus=2 servers=3 mode=wait",
        ],
    );
}

#[test]
fn expect_values_to_keep_their_text() {
    let values = [
        "6.10",
        "no",
        "1e3",
        "0x10",
        "~",
        "null",
        "true",
        "007",
        "1_000",
        "+5",
        "2024-01-01",
        ".5",
        "a: b",
        " x ",
    ];
    let list = "[6.10, no, 1e3, 0x10, ~, null, true, 007, 1_000, +5, 2024-01-01, .5, \"a: b\", ' x ']";
    let matrix = matrix(&[("mode: [wait, close]", &format!("mode: {list}"))]);
    let mode = matrix.axes().iter().find(|axis| axis.name.as_str() == "mode").unwrap();
    assert_eq!(mode.values.iter().map(|value| &**value).collect::<Vec<_>>(), values);
}

#[test]
fn expect_a_cell_by_its_place_without_the_others() {
    let matrix = matrix(&[("servers: [3, 10, 30]", "servers: 1..10000")]);
    assert_eq!(matrix.count(), 40_000);
    let last = matrix.cell(39_999).unwrap();
    assert_eq!(last.cell.to_string(), "cpus=2 servers=10000 mode=close");
    assert!(matrix.cell(40_000).is_none());
}

#[test]
fn expect_zipped_axes_to_advance_together() {
    let zipped = matrix(&[("mode: [wait, close]", "mode: [wait, close, both]\nzip: [[mode, servers]]")]);
    assert_eq!(zipped.count(), 6);
    let want = ["cpus=1 servers=3 mode=wait", "cpus=1 servers=10 mode=close", "cpus=1 servers=30 mode=both"];
    assert_eq!(cells(&zipped)[..3], want);
}

#[test]
fn expect_included_cells_at_the_end_and_never_excluded() {
    let text = "mode: [wait, close]\ninclude: [{ cpus: 4, servers: 1000, mode: wait }]\n\
                exclude: [{ when: servers >= 30, because: slow }]";
    let matrix = matrix(&[("mode: [wait, close]", text)]);
    assert_eq!(matrix.count(), 13);
    let last = matrix.cells().last().unwrap();
    assert_eq!((last.cell.to_string().as_str(), last.excluded), ("cpus=4 servers=1000 mode=wait", None));
    let excluded: Vec<String> = matrix
        .cells()
        .filter(|planned| planned.excluded.as_deref() == Some("slow"))
        .map(|p| p.cell.to_string())
        .collect();
    assert_eq!(excluded.len(), 4);
    assert!(excluded.iter().all(|cell| cell.contains("servers=30")));
}

#[test]
fn expect_one_cell_when_there_are_no_axes() {
    let text = edited(&[
        ("axes:\n  cpus: [1, 2]\n  servers: [3, 10, 30]\n  mode: [wait, close]\n", ""),
        ("\"{{ servers }}\"", "x"),
        ("\"{{ servers + 1 }}\"", "4"),
        ("\"{{ mode }}\"", "x"),
    ]);
    let matrix = read(&text, &Options::default()).unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(matrix.count(), 1);
    assert_eq!(matrix.cell(0).unwrap().cell.values, []);
}

#[test]
fn expect_an_error_and_no_panic_when_the_product_overflows() {
    let axes: String = (0..40).map(|i| format!("  a{i}: 1..1000000\n")).collect();
    let text = edited(&[("  cpus: [1, 2]\n", &format!("  cpus: [1, 2]\n{axes}"))]);
    // One million texts per axis would be built before they are counted, so few are enough here.
    let text = text.replace("1..1000000", "1..2000");
    let found = read(&text, &Options::default()).unwrap_err().to_string();
    assert!(found.contains("more than 2^128 cells"), "{found}");
    assert!(found.contains("no limit can be above"), "{found}");
}

#[test]
fn expect_the_limit_to_be_raised_as_the_message_says() {
    let large = ("servers: [3, 10, 30]", "servers: 1..50000");
    let found = read(&edited(&[large]), &Options::default()).unwrap_err().to_string();
    assert!(found.contains("`limits: { cells: 200000 }`"), "{found}");
    let raised = matrix(&[large, ("repeat: 3", "limits: { cells: 200000 }")]);
    assert_eq!(raised.count(), 200_000);
    let options = Options { cell_limit: Some(200_000), ..Options::default() };
    assert_eq!(read(&edited(&[large]), &options).unwrap().count(), 200_000);
}
