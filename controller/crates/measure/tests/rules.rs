//! The rules that make these parsers worth having, one by one, on real outputs and on outputs made to contradict
//! themselves.
#![expect(clippy::unwrap_used, reason = "the helpers of these tests fail like the tests")]

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use std::collections::BTreeMap;

use common::CASES;
use drover_measure::{Input, ParseError, SpecError, check_spec, parse};
use drover_model::{DoubtKind, Measurement, ParserSpec, Tool};

#[track_caller]
fn output(file: &str) -> (&'static str, Tool) {
    let case = CASES.iter().find(|case| case.name == file).unwrap();
    (std::str::from_utf8(case.stdout).unwrap(), case.tool)
}

#[track_caller]
fn read_changed(file: &str, changes: &[(&str, &str)]) -> Measurement {
    let (text, tool) = output(file);
    let mut text = text.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{file} has no {from}");
        text = text.replacen(from, to, 1);
    }
    let input = Input { stdout: text.as_bytes(), stderr: b"", output_cut: false };
    parse(&ParserSpec::Tool(tool), &input).unwrap()
}

#[track_caller]
fn read(file: &str) -> Measurement {
    read_changed(file, &[])
}

#[track_caller]
fn assert_values(measurement: &Measurement, expected: &[(&str, Option<f64>)]) {
    for (name, value) in expected {
        assert_eq!(measurement.value(name), *value, "{name}");
    }
}

fn doubts(measurement: &Measurement) -> Vec<DoubtKind> {
    measurement.doubts.iter().map(|doubt| doubt.kind).collect()
}

#[test]
fn expect_one_failure_each_when_ab_counts_a_reset_three_times() {
    let measurement = read("ab_rstr.txt");
    assert_values(
        &measurement,
        &[
            ("completed", Some(500.0)),
            ("failed", Some(150.0)),
            ("succeeded", Some(350.0)),
            ("req_per_s", Some(9515.47)),
            ("goodput_per_s", Some(9515.47 * 0.7)),
            ("length_changes", Some(0.0)),
        ],
    );
    assert_eq!(measurement.reported["Failed requests"], "450");
}

#[test]
fn expect_all_failed_when_ab_reports_no_failure_but_every_status_is_500() {
    let measurement = read("ab_500.txt");
    assert_values(
        &measurement,
        &[
            ("failed", Some(500.0)),
            ("succeeded", Some(0.0)),
            ("goodput_per_s", Some(0.0)),
            ("req_per_s", Some(8776.4)),
            ("latency_mean_s", None),
            ("latency_p99_s", None),
        ],
    );
    assert_eq!(measurement.reported["Failed requests"], "0");
}

#[test]
fn expect_successes_when_ab_counts_changed_lengths_as_failures() {
    let measurement = read("ab_length_changes.txt");
    assert_values(&measurement, &[("failed", Some(0.0)), ("length_changes", Some(333.0))]);
    assert_eq!(measurement.reported["Failed requests"], "333");
    assert_eq!(doubts(&measurement), []);
}

#[test]
fn expect_the_client_blamed_when_httperf_ran_out_of_descriptors() {
    let measurement = read("httperf_fd_unavail.txt");
    assert_values(
        &measurement,
        &[("failed", Some(0.0)), ("succeeded", Some(20.0)), ("errors_fd_limit", Some(40.0))],
    );
    assert_eq!(measurement.reported["Errors: total"], "40");
    assert_eq!(doubts(&measurement), [DoubtKind::ClientSaturated]);
}

#[test]
fn expect_seconds_when_every_cell_of_wrk_has_its_own_unit() {
    let measurement = read("wrk_ok.txt");
    assert_values(
        &measurement,
        &[
            ("latency_mean_s", Some(618.89e-6)),
            ("latency_max_s", Some(8.85e-3)),
            ("latency_p50_s", Some(276e-6)),
            ("latency_p90_s", Some(1.75e-3)),
            ("bytes_per_s", Some(4.87 * 1024.0 * 1024.0)),
            ("threads", Some(2.0)),
            ("concurrency", Some(10.0)),
        ],
    );
}

#[test]
fn expect_no_latency_when_wrk_recorded_none() {
    for file in ["wrk_timeout.txt", "wrk_nothing.txt"] {
        let measurement = read(file);
        let latencies = measurement.samples.iter().filter(|sample| sample.name.starts_with("latency"));
        assert_eq!(latencies.count(), 0, "{file}");
        assert_eq!(doubts(&measurement), [DoubtKind::Incomplete], "{file}");
    }
}

#[test]
fn expect_figures_but_no_goodput_when_all_requests_of_a_tool_failed() {
    for (file, failed) in [
        ("oha_ref.json", 10.0),
        ("h2load_refused.txt", 50.0),
        ("h2load_e500.txt", 500.0),
        ("hey_refused.txt", 20.0),
        ("httperf_refused.txt", 50.0),
        ("httperf_timo.txt", 100.0),
        ("vegeta_refused.json", 50.0),
        ("fortio_refused.json", 8.0),
        ("workload_client_refused.json", 100.0),
    ] {
        let measurement = read(file);
        let expected = [
            ("completed", Some(failed)),
            ("failed", Some(failed)),
            ("succeeded", Some(0.0)),
            ("goodput_per_s", Some(0.0)),
            ("latency_mean_s", None),
            ("latency_p50_s", None),
            ("latency_max_s", None),
        ];
        for (name, value) in expected {
            assert_eq!(measurement.value(name), value, "{file} {name}");
        }
    }
}

#[test]
fn expect_failures_by_status_when_oha_calls_them_successes() {
    let measurement = read("oha_mix.json");
    assert_values(
        &measurement,
        &[("succeeded", Some(392.0)), ("failed", Some(108.0)), ("completed", Some(500.0))],
    );
    assert_eq!(measurement.reported["successRate"], "1");
}

#[test]
fn expect_aborted_requests_left_out_when_oha_ran_out_of_time() {
    let errors = "\"errorDistribution\": {\"aborted due to deadline\": 7}";
    let measurement = read_changed("oha_ok.json", &[("\"errorDistribution\": {}", errors)]);
    assert_values(&measurement, &[("completed", Some(500.0)), ("failed", Some(0.0))]);
    assert_eq!(doubts(&measurement), []);
}

#[test]
fn expect_an_error_when_iperf3_exits_with_nothing_but_its_complaint() {
    let (text, tool) = output("iperf3_ref.json");
    let input = Input { stdout: text.as_bytes(), stderr: b"", output_cut: false };
    match parse(&ParserSpec::Tool(tool), &input).unwrap_err() {
        ParseError::ToolFailed { said, .. } => {
            assert_eq!(said, "unable to connect to server: Connection refused")
        }
        other => panic!("{other}"),
    }
}

#[test]
fn expect_a_doubt_when_the_sum_of_statuses_is_not_what_was_completed() {
    for (file, from, to) in [
        ("httperf_ok.txt", "2xx=200", "2xx=190"),
        ("h2load_ok.txt", "500 2xx", "490 2xx"),
        ("oha_ok.json", "\"200\": 500", "\"200\": 400"),
        ("hey_ok.txt", "[200]\t500 responses", "[200]\t400 responses"),
        ("vegeta.json", "\"200\":100", "\"200\":90"),
        ("vegeta.txt", "200:600", "200:590"),
        ("fortio.json", "\"200\": 900", "\"200\": 800"),
        ("workload_client.json", "\"timeout\":7", "\"timeout\":6"),
        ("workload_client.json", "\"succeeded\":9990", "\"succeeded\":9980"),
        ("workload_server.json", "[890,", "[891,"),
    ] {
        assert!(doubts(&read_changed(file, &[(from, to)])).contains(&DoubtKind::Inconsistent), "{file} {to}");
    }
}

#[test]
fn expect_a_doubt_when_rate_times_time_is_not_what_was_completed() {
    for (file, from, to) in [
        ("ab_ok.txt", "0.150 seconds", "1.150 seconds"),
        ("httperf_ok.txt", "test-duration 1.995", "test-duration 3.995"),
        ("wrk_ok.txt", "Requests/sec:  29158.43", "Requests/sec:  39158.43"),
        ("h2load_ok.txt", "finished in 45.33ms", "finished in 95.33ms"),
        ("oha_ok.json", "\"total\": 0.023813584", "\"total\": 0.33813584"),
        ("hey_ok.txt", "0.0252 secs", "0.0352 secs"),
        ("vegeta.json", "\"rate\":101.0", "\"rate\":151.0"),
        ("fortio.json", "\"ActualQPS\": 4000", "\"ActualQPS\": 3000"),
        ("workload_client.json", "\"conn_per_s\":19980.0", "\"conn_per_s\":30000.0"),
        ("iperf3_ok.json", "\"seconds\":\t1.003455", "\"seconds\":\t2.003455"),
        ("fio.json", "\"iops\" : 13182.817183", "\"iops\" : 23182.817183"),
        ("sysbench_cpu.txt", "events per second:  1356.18", "events per second:  2356.18"),
        ("pgbench.txt", "actually processed: 775", "actually processed: 575"),
        ("memtier.json", "\"Total duration\": 2500", "\"Total duration\": 3500"),
        ("sng.yaml", "bogo-ops: 871", "bogo-ops: 971"),
    ] {
        assert!(doubts(&read_changed(file, &[(from, to)])).contains(&DoubtKind::Inconsistent), "{file} {to}");
    }
}

#[test]
fn expect_a_doubt_when_more_is_in_flight_than_the_concurrency_allows() {
    for (file, from, to) in [
        ("ab_ok.txt", "Concurrency Level:      10", "Concurrency Level:      3"),
        ("httperf_ok.txt", "avg 2.1", "avg 42.1"),
        ("fortio.json", "\"NumThreads\": 4", "\"NumThreads\": 3"),
        ("workload_client.json", "\"mean\":0.00004", "\"mean\":0.0004"),
        ("sysbench_cpu.txt", "Number of threads: 2", "Number of threads: 1"),
        ("pgbench.txt", "number of clients: 4", "number of clients: 3"),
        ("fio.json", "\"mean\" : 47557.187633", "\"mean\" : 147557.187633"),
    ] {
        let measurement = read_changed(file, &[(from, to)]);
        let found = measurement.doubts.iter().any(|doubt| doubt.detail.contains("in flight"));
        assert!(found, "{file} {to}: {:?}", measurement.doubts);
    }
}

#[test]
fn expect_no_doubt_when_an_output_is_sound() {
    for file in [
        "ab_ok.txt",
        "ab_500.txt",
        "ab_rstr.txt",
        "ab_overflow.txt",
        "ab-2.0.40-output.txt",
        "httperf_ok.txt",
        "httperf_calls.txt",
        "httperf_mix.txt",
        "wrk_ok.txt",
        "wrk_500.txt",
        "oha_ok.json",
        "oha_mix.json",
        "oha_ref.json",
        "h2load_ok.txt",
        "h2load_e500.txt",
        "h2load_timed.txt",
        "hey_ok.txt",
        "hey_mix.txt",
        "vegeta.json",
        "vegeta.txt",
        "fortio.json",
        "iperf3_ok.json",
        "fio.json",
        "fio_two_groups.json",
        "fio_grouped.json",
        "sysbench_cpu.txt",
        "sysbench_oltp.txt",
        "pgbench.txt",
        "pgbench_paced.txt",
        "redis_csv.txt",
        "memtier.json",
        "sng.yaml",
        "workload_client.json",
        "workload_client_wait.json",
        "workload_client_calls.json",
        "workload_client_rate.json",
        "workload_client_refused.json",
        "workload_server.json",
    ] {
        assert_eq!(read(file).doubts, [], "{file}");
    }
}

#[test]
fn expect_open_loops_free_of_the_bound_when_latency_includes_the_wait() {
    let paced = [("\"mean\":0.00004", "\"mean\":0.5"), ("\"rate_asked\":null", "\"rate_asked\":20000.0")];
    assert_eq!(read_changed("workload_client.json", &paced).doubts, []);
    let measurement =
        read_changed("pgbench_paced.txt", &[("latency average = 9.654", "latency average = 999.654")]);
    assert_eq!(measurement.doubts, []);
}

#[test]
fn expect_the_workloads_doubts_when_it_lost_workers_ports_or_connections() {
    assert_eq!(doubts(&read("workload_server_lost.json")), [DoubtKind::WorkerLost]);
    assert_eq!(doubts(&read("workload_client_fd_limit.json")), [DoubtKind::ClientSaturated]);
    let no_port = [("\"timeout\":7,\"address_in_use\":0", "\"timeout\":0,\"address_in_use\":7")];
    assert_eq!(doubts(&read_changed("workload_client.json", &no_port)), [DoubtKind::ClientSaturated]);
    let short = [("\"connections\":10000", "\"connections\":20000")];
    assert_eq!(doubts(&read_changed("workload_client.json", &short)), [DoubtKind::Incomplete]);
}

#[test]
fn expect_no_connections_when_all_were_refused() {
    assert_values(&read("httperf_refused.txt"), &[("conn_per_s", Some(0.0)), ("connections", Some(50.0))]);
    assert_values(&read("workload_client_refused.json"), &[("conn_per_s", Some(0.0))]);
}

#[test]
fn expect_connections_and_no_requests_when_the_workload_made_no_calls() {
    let measurement = read("workload_client_refused.json");
    assert_values(&measurement, &[("conn_per_s", Some(0.0)), ("req_per_s", None), ("calls", None)]);
    assert!(
        measurement.samples.iter().any(|sample| sample.name == "completed" && sample.unit == "connections")
    );
}

#[test]
fn expect_a_fault_of_the_matrix_found_early_when_a_description_is_malformed() {
    let json = |path: &str| ParserSpec::Json(BTreeMap::from([("a".to_owned(), path.to_owned())]));
    assert!(matches!(check_spec(&json("a[")), Err(SpecError::Path { .. })));
    assert!(matches!(check_spec(&ParserSpec::Json(BTreeMap::new())), Err(SpecError::NoPath)));
    assert!(matches!(check_spec(&ParserSpec::Regex("(".to_owned())), Err(SpecError::Regex { .. })));
    assert!(matches!(check_spec(&ParserSpec::Regex("a".to_owned())), Err(SpecError::NoGroup { .. })));
    for good in [json("a[0].b"), ParserSpec::Regex("(?<a>.)".to_owned()), ParserSpec::Lines] {
        assert!(check_spec(&good).is_ok());
    }
}
