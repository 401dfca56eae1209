//! Soaks: times, shares, loads, identity.

use std::time::Duration;

use drover_matrix::{Load, Matrix, Options, SoakUntil};
use drover_model::CellKey;

use super::common::{edited, matrix, read};

fn soak(text: &str) -> Matrix {
    matrix(&[("repeat: 3", text)])
}

fn key(matrix: &Matrix) -> CellKey {
    matrix.cells().next().unwrap().cell.key
}

#[test]
fn expect_defaults_when_only_length_and_distance_are_given() {
    let matrix = soak("soak: { for: 8h, every: 10s }");
    let soak = matrix.soak().unwrap();
    assert_eq!((soak.length, soak.every), (Duration::from_secs(28_800), Duration::from_secs(10)));
    assert_eq!((soak.until, soak.warm_up, soak.share), (SoakUntil::End, None, false));
    assert_eq!(soak.stall, Duration::from_secs(300));
    assert_eq!(matrix.role("client").unwrap().load, Load::Rounds);
    assert!(matrix.role("client").unwrap().is_load());
    assert!(!matrix.role("server").unwrap().is_load());
    assert_eq!(matrix.policy().repeat, 1);
    assert_eq!(matrix.with_repeat(5).policy().repeat, 1);
}

#[test]
fn expect_a_longer_stall_by_default_when_points_are_far_apart() {
    let matrix = soak("soak: { for: 8h, every: 10m }");
    assert_eq!(matrix.soak().unwrap().stall, Duration::from_secs(1800));
}

#[test]
fn expect_what_is_said_when_all_is_given() {
    let text = "soak: { for: 2h, every: 1s, until: first-ng, warm_up: 90s, stall: 2m, share: true }";
    let matrix = soak(text);
    let soak = matrix.soak().unwrap();
    assert_eq!((soak.until, soak.share), (SoakUntil::FirstNg, true));
    assert_eq!((soak.warm_up, soak.stall), (Some(Duration::from_secs(90)), Duration::from_secs(120)));
}

#[test]
fn expect_the_time_of_a_run_when_cells_share_it_or_not() {
    let each = soak("soak: { for: 1h, every: 10s }");
    assert_eq!(each.soak_time(12), Duration::from_secs(12 * 3600));
    assert_eq!(each.soak_time(0), Duration::ZERO);
    assert_eq!(each.soak().unwrap().cell_time(12), Duration::from_secs(3600));
    let shared = soak("soak: { for: 1h, every: 10s, share: true }");
    assert_eq!(shared.soak_time(12), Duration::from_secs(3600));
    assert_eq!(shared.soak().unwrap().cell_time(12), Duration::from_secs(300));
    assert_eq!(shared.soak().unwrap().cell_time(0), Duration::from_secs(3600));
    assert_eq!(matrix(&[]).soak_time(12), Duration::ZERO);
}

#[test]
fn expect_fewer_cells_to_share_when_the_command_line_selects() {
    let text = edited(&[("repeat: 3", "soak: { for: 10m, every: 10s, share: true }")]);
    let twelve = read(&text, &Options::default()).unwrap_err().to_string();
    assert!(twelve.contains("12 cells share this time, 50.0 s each; 100 s are the least"), "{twelve}");
    let only = Options { only: vec!["cpus == 1".to_owned()], ..Options::default() };
    assert!(read(&text, &only).is_ok());
}

#[test]
fn expect_another_key_when_length_or_distance_or_load_changes() {
    let plain = key(&matrix(&[]));
    let base = key(&soak("soak: { for: 8h, every: 10s }"));
    assert_ne!(plain, base);
    for other in [
        "for: 7h, every: 10s",
        "for: 8h, every: 11s",
        "for: 8h, every: 10s, warm_up: 1h",
        "for: 8h, every: 10s, share: true",
    ] {
        assert_ne!(key(&soak(&format!("soak: {{ {other} }}"))), base, "{other}");
    }
    let by_line = "measure: { regex: 'rate=(?<rate>[0-9]+)' }";
    let client = |more: &str| format!("\"{{{{ mode }}}}\"]\n    {by_line}\n{more}");
    let loaded = |more: &str| {
        let client = client(more);
        let edits = [
            ("repeat: 3", "soak: { for: 8h, every: 10s }"),
            ("\"{{ mode }}\"]\n    measure: lines\n", client.as_str()),
        ];
        key(&matrix(&edits))
    };
    assert_ne!(loaded(""), loaded("    load: stream\n"));
    assert_eq!(loaded(""), loaded("    load: rounds\n"));
}

#[test]
fn expect_the_same_key_when_only_the_end_or_the_bound_changes() {
    let base = key(&soak("soak: { for: 8h, every: 10s }"));
    for same in
        ["for: 8h, every: 10s, until: first-ng", "for: 8h, every: 10s, stall: 1m", "for: 480m, every: 10s"]
    {
        assert_eq!(key(&soak(&format!("soak: {{ {same} }}"))), base, "{same}");
    }
}
