//! How diagnostics are printed, and the bounds on a file.

use super::common::read;
use drover_matrix::{Diagnostics, FancyDiagnostics, Options};

#[test]
fn expect_miette_to_show_the_source_and_the_remedy() {
    let found = read("version: 1\nname: a\nroles:\n  c: { rnu: [x] }\n", &Options::default()).unwrap_err();
    let mut text = String::new();
    let handler = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::none());
    handler.render_report(&mut text, &FancyDiagnostics(found)).unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn expect_a_bound_on_the_mistakes_listed() {
    let keys: String = (0..300).map(|i| format!("k{i}: 1\n")).collect();
    let found = read(&keys, &Options::default()).unwrap_err();
    assert_eq!(found.iter().count(), Diagnostics::LIMIT);
    assert!(found.count() > 300);
    assert!(found.to_string().ends_with("mistakes, the first 100 are shown"), "{found}");
}

#[test]
fn expect_a_bound_on_the_size_of_a_file() {
    let found = read(&"#\n".repeat(1 << 20), &Options::default()).unwrap_err().to_string();
    assert!(found.starts_with("x.yaml:1:1: the file has 2097152 bytes, 1048576 are allowed"), "{found}");
}

#[test]
fn expect_a_byte_order_mark_and_windows_line_ends_to_be_read() {
    let text = "\u{feff}version: 1\r\nname: a\r\nroles:\r\n  c: { run: [x] }\r\n";
    assert_eq!(read(text, &Options::default()).unwrap().name(), "a");
}

#[test]
fn expect_accented_text_to_keep_columns_right() {
    let text = "version: 1\nname: a\nroles:\n  c: { run: [\"größe\", \"{{ nix }}\"] }\n";
    let found = read(text, &Options::default()).unwrap_err().to_string();
    assert!(found.starts_with("x.yaml:4:27: undefined variable `nix`"), "{found}");
}
