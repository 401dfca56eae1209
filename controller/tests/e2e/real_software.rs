//! The matrices that come with Drover, cut down to seconds: the built-in workload, and Apache under httperf and ab.

use crate::harness::Lab;

/// Runs a matrix of `matrices/` and expects a number in each of its cells.
#[track_caller]
fn expect_numbers(matrix: &str, cells: usize, arguments: &[&str]) -> Lab {
    let lab = Lab::new();
    let path = format!("{}/../matrices/{matrix}", env!("CARGO_MANIFEST_DIR"));
    let mut all = vec!["run", &path];
    all.extend(arguments);
    lab.run(&all).expect(0).says(&format!("{cells}/{cells} cells measured"));
    lab
}

#[test]
fn expect_the_quickstart_to_work() {
    let lab = expect_numbers("quickstart.yaml", 9, &["--repeat", "1"]);
    lab.run(&["report", "--metric", "wakeups_per_conn"]).expect(0);
}

#[test]
fn expect_the_fork_and_accept_table() {
    let lab = expect_numbers(
        "accept-microbench.yaml",
        12,
        &[
            "--repeat",
            "1",
            "--set",
            "servers=1,4,100",
            "--set",
            "serialisation=none,fcntl",
            "--set",
            "connections=500",
        ],
    );
    for attempt in lab.attempts() {
        assert!(attempt["metrics"]["wakeups_per_conn"].is_number(), "{attempt}");
    }
}

#[test]
fn expect_apache_with_exactly_the_servers_asked_for() {
    let lab = expect_numbers(
        "apache-accept.yaml",
        12,
        &["--repeat", "1", "--set", "servers=3,10", "--set", "connections=400"],
    );
    for attempt in lab.attempts() {
        assert_eq!(attempt["metrics"]["failed"].as_f64(), Some(0.0), "{attempt}");
    }
}

#[test]
fn expect_both_multi_processing_modules_under_ab() {
    expect_numbers(
        "lingering-close.yaml",
        4,
        &["--repeat", "1", "--set", "concurrency=5,50", "--set", "requests=400"],
    );
}
