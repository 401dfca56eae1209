//! The client as a real process, against servers that behave well and badly.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::{ClientEnd, Server, client};
use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket, sockopt};

/// A listener whose every connection is handed to `serve`, one after another, for the rest of the test.
fn serve_each(mut serve: impl FnMut(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            serve(connection.unwrap());
        }
    });
    address
}

/// A listener with the shortest queue, where nobody accepts.
fn deaf_listener() -> (OwnedFd, SocketAddr) {
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    listen(&listener, 0).unwrap();
    let address = SocketAddr::try_from(getsockname(&listener).unwrap()).unwrap();
    (listener, address)
}

#[test]
fn expect_refused_when_nothing_listens() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for args in [&["--mode", "close"][..], &["--mode", "wait"], &["--calls", "1"]] {
        let end = client(address, &[&["--connections", "20", "--concurrency", "3"], args].concat());
        assert_eq!((end.code, end.errors("refused"), end.count("failed")), (Some(1), 20, 20), "{args:?}");
        assert!(end.stderr.contains("all 20 connections failed: connection refused"), "{}", end.stderr);
        assert!(end.report["latency_s"].is_null() && end.report["histogram"].is_null());
    }
}

#[test]
fn expect_reset_when_the_server_resets() {
    let address = serve_each(|connection| {
        sockopt::set_socket_linger(&connection, Some(Duration::ZERO)).unwrap();
    });
    let end = client(address, &["--connections", "10", "--mode", "wait"]);
    assert_eq!((end.code, end.errors("reset")), (Some(1), 10), "{}", end.stderr);
}

#[test]
fn expect_timeout_when_the_server_does_not_answer() {
    let (_listener, address) = deaf_listener();
    let args = ["--connections", "6", "--concurrency", "6", "--timeout", "200ms"];
    let end = client(address, &[&args[..], &["--mode", "wait"]].concat());
    assert_eq!((end.code, end.errors("timeout")), (Some(1), 6), "{}", end.stderr);
}

#[test]
fn expect_timeout_when_the_queue_of_the_server_is_full() {
    let (_listener, address) = deaf_listener();
    let args = ["--connections", "8", "--timeout", "200ms", "--mode", "close"];
    let end = client(address, &args);
    // A queue of length 0 has room for one; the kernel completes some handshakes and drops the others.
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(end.count("succeeded") >= 1 && end.errors("timeout") >= 1, "{}", end.report);
    assert_eq!(end.count("completed"), 8);
    assert!(
        end.stderr.contains("of 8 connections failed: not finished within the timeout"),
        "{}",
        end.stderr
    );
}

#[test]
fn expect_fd_limit_when_files_run_out() {
    let (_listener, address) = deaf_listener();
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 24; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_drover-workload"), "client"])
        .args(["--connect", &address.to_string(), "--connections", "40", "--concurrency", "40"])
        .args(["--mode", "wait", "--timeout", "200ms"])
        .output()
        .unwrap();
    let end = ClientEnd::from_output(&output);
    assert!(end.errors("fd_limit") >= 16 && end.errors("timeout") >= 1, "{}", end.report);
    assert_eq!(end.count("failed"), 40);
    assert!(end.stderr.contains("raise `ulimit -Hn`"), "{}", end.stderr);
}

/// Runs server and client in a network of its own with ten local ports, none of them reusable. `$0` is the program,
/// `$1` a folder for the pipe on which the server says that it listens. HTTP, so that it is the client who closes first.
const FEW_PORTS: &str = r#"
set -e
ip link set lo up
echo 40000 40009 >/proc/sys/net/ipv4/ip_local_port_range
echo 0 >/proc/sys/net/ipv4/tcp_tw_reuse
mkfifo "$1/ready"
"$0" server --listen 127.0.0.1:7000 --reply http >/dev/null 2>"$1/ready" &
read -r line <"$1/ready"
"$0" client --connect 127.0.0.1:7000 --connections 40 --sources 1 --calls 1
kill $!
wait
"#;

#[test]
fn expect_address_in_use_and_a_warning_when_ports_run_out() {
    let folder = tempfile::tempdir().unwrap();
    let namespaces = if rustix::process::getuid().is_root() { "-n" } else { "-rn" };
    let output = Command::new("unshare")
        .args([namespaces, "sh", "-c", FEW_PORTS, env!("CARGO_BIN_EXE_drover-workload")])
        .arg(folder.path())
        .output()
        .expect("unshare (package util-linux) is there");
    let end = ClientEnd::from_output(&output);
    assert!(!end.report.is_null(), "no report; needs ip (package iproute2): {}", end.stderr);
    assert_eq!((end.count("succeeded"), end.errors("address_in_use")), (10, 30), "{}", end.report);
    assert!(end.stderr.contains("ports may run out: up to 40 needed at once, 10 there"), "{}", end.stderr);
}

#[test]
fn expect_the_status_to_count_when_it_is_no_200() {
    let address = serve_each(|mut connection| {
        let _ = connection.read(&mut [0; 1024]);
        let _ = connection.write_all(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    });
    let end = client(address, &["--connections", "5", "--calls", "1"]);
    assert_eq!((end.code, end.errors("other"), end.count("calls")), (Some(1), 5, 0));
    assert!(end.stderr.contains("status 500 instead of 200"), "{}", end.stderr);
}

#[test]
fn expect_failure_when_the_server_closes_before_the_last_call() {
    let address = serve_each(|mut connection| {
        let _ = connection.read(&mut [0; 1024]);
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let end = client(address, &["--connections", "5", "--calls", "2"]);
    assert_eq!((end.count("failed"), end.count("calls")), (5, 5), "{}", end.report);
    assert_eq!(end.errors("other") + end.errors("reset"), 5);
}

#[test]
fn expect_a_body_until_the_end_of_the_connection_to_count() {
    let address = serve_each(|mut connection| {
        let _ = connection.read(&mut [0; 1024]);
        let _ = connection.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
        let _ = connection.write_all(&[b'x'; 200_000]);
    });
    for mode in ["close", "wait"] {
        let end = client(address, &["--connections", "5", "--calls", "1", "--mode", mode]);
        assert_eq!((end.code, end.count("succeeded")), (Some(0), 5), "{mode}: {}", end.stderr);
    }
}

#[test]
fn expect_latency_from_the_intended_start_when_the_server_stalls() {
    // The first connection is held for 300 ms while 20 are due, one every 10 ms. Each of them then takes no time by
    // itself, yet was late by 300, 290, ... 110 ms: that is what a user would have seen.
    const STALL: Duration = Duration::from_millis(300);
    let mut first = true;
    let address = serve_each(move |_connection| {
        if std::mem::take(&mut first) {
            let (_keep, never) = mpsc::channel::<()>();
            let _ = never.recv_timeout(STALL);
        }
    });
    let args = ["--connections", "20", "--rate", "100", "--mode", "wait", "--concurrency", "1"];
    let end = client(address, &args);
    assert_eq!((end.code, end.count("succeeded")), (Some(0), 20), "{}", end.stderr);
    let latency = |name: &str| end.report["latency_s"][name].as_f64().unwrap();
    assert!(latency("max") >= 0.3, "{}", end.report);
    assert!(latency("p50") >= 0.19, "half of them were at least that late: {}", end.report);
    assert_eq!(end.report["rate_asked"], 100.0);
}

#[test]
fn expect_the_histogram_to_decode_to_what_the_report_says() {
    let server = Server::start(&["--servers", "2"]);
    let end = client(
        server.address,
        &["--connections", "500", "--mode", "wait", "--threads", "2", "--concurrency", "4"],
    );
    let text = end.report["histogram"].as_str().unwrap();
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    assert_eq!(histogram.len(), 500);
    let p99 = Duration::from_nanos(histogram.value_at_quantile(0.99)).as_secs_f64();
    assert!((p99 - end.report["latency_s"]["p99"].as_f64().unwrap()).abs() < 1e-9);
    assert_eq!(end.count("threads"), 2);
}

#[test]
fn expect_connections_from_as_many_addresses_as_asked_for() {
    let (seen, peers) = mpsc::channel();
    let address = serve_each(move |connection| seen.send(connection.peer_addr().unwrap().ip()).unwrap());
    let end = client(address, &["--connections", "30", "--mode", "wait", "--sources", "3"]);
    assert_eq!((end.code, end.count("source_addresses")), (Some(0), 3), "{}", end.stderr);
    assert!(end.stderr.contains("connecting from 3 addresses"), "{}", end.stderr);
    let found: BTreeSet<_> = peers.iter().take(30).map(|ip| ip.to_string()).collect();
    assert_eq!(found, ["127.0.0.1", "127.0.0.2", "127.0.0.3"].map(str::to_owned).into());
}

#[test]
fn expect_more_source_addresses_and_a_word_about_it_when_many_ports_are_needed() {
    let server = Server::start(&["--servers", "2"]);
    // A million connections could be closed faster than their ports become free again; the time ends it long before.
    let end = client(server.address, &["--connections", "1000000", "--duration", "300ms"]);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(end.count("source_addresses") > 1, "{}", end.report);
    assert!(end.stderr.contains("ports needed at once"), "{}", end.stderr);
    assert_eq!(end.count("connections"), end.count("completed"));
}

#[test]
fn expect_an_end_when_the_time_is_over() {
    let server = Server::start(&["--servers", "2"]);
    let end = client(server.address, &["--duration", "200ms", "--mode", "wait", "--concurrency", "2"]);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(end.count("succeeded") > 0);
    assert_eq!(end.count("connections"), end.count("completed"));
}

#[test]
fn expect_intervals_that_sum_up_to_the_report_when_progress_is_asked_for() {
    let server = Server::start(&["--servers", "2", "--reply", "http"]);
    let args = [
        "--duration",
        "1100ms",
        "--progress",
        "250ms",
        "--calls",
        "2",
        "--concurrency",
        "16",
        "--threads",
        "2",
    ];
    let output = crate::common::program()
        .args(["client", "--connect", &server.address.to_string()])
        .args(args)
        .output()
        .unwrap();
    let lines: Vec<serde_json::Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (report, intervals) = lines.split_last().unwrap();
    assert!(intervals.len() >= 4, "{} lines", lines.len());
    let fields = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for line in intervals {
        assert_eq!(fields(line), ["progress"]);
        assert_eq!(fields(&line["progress"]), fields(report));
        assert_eq!(line["progress"]["drover_workload"], "client");
    }
    for field in ["connections", "completed", "succeeded", "failed", "calls"] {
        let sum: u64 = intervals.iter().map(|line| line["progress"][field].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), report[field].as_u64(), "{field}");
    }
    assert!(report["calls"].as_u64().unwrap() > 0);
    let decoded = |line: &serde_json::Value| {
        let bytes =
            base64::engine::general_purpose::STANDARD.decode(line["histogram"].as_str().unwrap_or_default());
        Deserializer::new()
            .deserialize::<u64, _>(&mut bytes.unwrap().as_slice())
            .map_or(0, |found| found.len())
    };
    let recorded: u64 = intervals.iter().map(|line| decoded(&line["progress"])).sum();
    assert_eq!(recorded, decoded(report));
}
