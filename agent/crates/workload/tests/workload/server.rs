//! The server as a real process: every serialisation serves, stops, and reports.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;

use crate::common::{Server, client, program, system_call_of, wait_for, wait_gone};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

const ALL: [&str; 9] =
    ["none", "fcntl", "flock", "sysvsem", "posixsem", "pthread", "epoll", "epoll-exclusive", "reuseport"];

#[test]
fn expect_every_serialisation_to_serve_all_connections() {
    for kind in ALL {
        let server = Server::start(&["--servers", "5", "--serialisation", kind]);
        for mode in ["close", "wait"] {
            let end = client(server.address, &["--connections", "150", "--mode", mode, "--concurrency", "4"]);
            assert_eq!((end.code, end.count("succeeded")), (Some(0), 150), "{kind} {mode}: {}", end.stderr);
        }
        // The last connections of the first client may still be queued when it ends, but not those of the second:
        // it waits for the end of each, and the queue is served in order.
        let end = server.stop();
        assert!(end.status.success(), "{kind}: {}", end.stderr);
        let accepts: Vec<u64> = serde_json::from_value(end.report["accepts_per_worker"].clone()).unwrap();
        assert_eq!(end.report["serialisation"], kind);
        assert_eq!(accepts.len(), 5, "{kind}");
        assert_eq!(accepts.iter().sum::<u64>(), end.report["accepted"].as_u64().unwrap(), "{kind}");
        if kind != "reuseport" {
            assert_eq!(end.report["accepted"], 300, "{kind}");
        }
        assert_eq!(end.report["workers_lost"], 0, "{kind}");
        assert!(end.report["fairness"].as_f64().is_some_and(|index| index <= 1.0), "{kind}");
        assert!(end.report["wakeups_per_conn"].as_f64().is_some_and(|wakeups| wakeups > 0.0), "{kind}");
    }
}

#[test]
fn expect_every_call_answered_when_replying_with_http() {
    for kind in ["none", "epoll-exclusive", "reuseport"] {
        let server = Server::start(&["--servers", "3", "--serialisation", kind, "--reply", "http"]);
        for mode in ["close", "wait"] {
            let args = [
                "--connections",
                "50",
                "--calls",
                "4",
                "--mode",
                mode,
                "--concurrency",
                "5",
                "--threads",
                "2",
            ];
            let end = client(server.address, &args);
            assert_eq!((end.code, end.count("calls")), (Some(0), 200), "{kind} {mode}: {}", end.stderr);
            assert!(end.report["req_per_s"].as_f64().is_some_and(|rate| rate > 0.0));
        }
        assert!(server.stop().status.success());
    }
}

#[test]
fn expect_no_wakeups_counted_when_nobody_connects() {
    for kind in ALL {
        let end = Server::start(&["--servers", "3", "--serialisation", kind]).stop();
        assert_eq!(end.report["accepted"], 0, "{kind}");
        assert!(end.report["wakeups_per_conn"].is_null() && end.report["fairness"].is_null(), "{kind}");
    }
}

#[test]
fn expect_an_orderly_end_when_200_workers_stop_under_load() {
    for kind in ["none", "fcntl", "pthread"] {
        let server = Server::start(&["--servers", "200", "--serialisation", kind, "--reply", "http"]);
        let workers = server.workers();
        assert_eq!(workers.len(), 200);
        let mut load = program()
            .args(["client", "--connect", &server.address.to_string(), "--duration", "60s", "--calls", "1"])
            .args(["--concurrency", "50"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        wait_for("the load to begin", || workers.iter().any(|pid| !in_accept_or_lock(*pid)).then_some(()));
        let end = server.stop();
        load.kill().unwrap();
        load.wait().unwrap();
        assert!(end.status.success(), "{kind}: {}", end.stderr);
        assert_eq!(end.report["workers_lost"], 0, "{kind}: {}", end.stderr);
        for pid in workers {
            wait_gone(pid);
        }
    }
}

fn in_accept_or_lock(pid: Pid) -> bool {
    system_call_of(pid)
        .is_some_and(|(number, _)| [libc::SYS_accept4, libc::SYS_fcntl, libc::SYS_futex].contains(&number))
}

#[test]
fn expect_a_report_when_told_to_stop_by_any_signal() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let server = Server::start(&["--servers", "2"]);
        kill_process(server.pid(), signal).unwrap();
        let end = server.wait();
        assert!(end.status.success());
        assert_eq!(end.report["servers"], 2);
    }
}

#[test]
fn expect_no_worker_lost_when_the_whole_process_group_is_told_to_stop() {
    let mut command = program();
    command.args(["server", "--listen", "127.0.0.1:0", "--servers", "20"]).process_group(0);
    let server = Server::spawn(command);
    kill_process_group(server.pid(), Signal::TERM).unwrap();
    let end = server.wait();
    assert!(end.status.success());
    assert_eq!(end.report["workers_lost"], 0, "{}", end.stderr);
}

#[test]
fn expect_the_end_of_all_workers_when_the_server_is_killed() {
    let server = Server::start(&["--servers", "8", "--serialisation", "sysvsem"]);
    let workers = server.workers();
    let semaphore = wait_for("a worker to wait for the semaphore", || {
        workers.iter().find_map(|pid| match system_call_of(*pid)? {
            (libc::SYS_semop | libc::SYS_semtimedop, id) => Some(id),
            _ => None,
        })
    });
    let exists = || {
        let list = std::fs::read_to_string("/proc/sysvipc/sem").unwrap();
        list.lines().any(|line| line.split_whitespace().nth(1) == Some(&semaphore.to_string()))
    };
    assert!(exists());
    kill_process(server.pid(), Signal::KILL).unwrap();
    for pid in workers {
        wait_gone(pid);
    }
    assert!(!exists(), "the semaphore is left behind");
}

#[test]
fn expect_the_end_within_the_grace_when_a_worker_is_frozen() {
    let server = Server::start(&["--servers", "3"]);
    kill_process(server.workers()[1], Signal::STOP).unwrap();
    let end = server.stop();
    assert!(end.status.success());
    assert_eq!(end.report["workers_lost"], 0);
}

#[test]
fn expect_a_clear_message_when_the_port_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for kind in ["none", "reuseport"] {
        let output =
            program().args(["server", "--listen", &address, "--serialisation", kind]).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{kind}: {message}");
        assert!(
            message.contains(&format!("cannot listen on {address}: the port is taken")),
            "{kind}: {message}"
        );
    }
    // Another server of ours must not be joined in silence either.
    let other = Server::start(&["--serialisation", "reuseport"]);
    let output = program()
        .args(["server", "--listen", &other.address.to_string(), "--serialisation", "reuseport"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn expect_the_same_port_at_once_when_a_server_follows_another() {
    let first = Server::start(&[]);
    let address = first.address;
    client(address, &["--connections", "20", "--mode", "wait"]);
    assert!(first.stop().status.success());
    let mut command = program();
    command.args(["server", "--listen", &address.to_string()]);
    assert_eq!(Server::spawn(command).address, address);
}

#[test]
fn expect_the_granted_backlog_in_the_report() {
    let limit: u64 = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
    let end = Server::start(&["--backlog", "65535"]).stop();
    assert_eq!(end.report["backlog"], limit.min(65_535));
    assert_eq!(Server::start(&["--backlog", "16"]).stop().report["backlog"], 16);
}

#[test]
fn expect_usage_errors_when_arguments_make_no_sense() {
    for args in [
        &["server", "--listen", "127.0.0.1:0", "--servers", "0"][..],
        &["server", "--listen", "nowhere"],
        &["client", "--connect", "127.0.0.1:1"],
        &["client", "--connect", "127.0.0.1:1", "--connections", "1", "--rate", "-3"],
    ] {
        let output = program().args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty());
    }
}
