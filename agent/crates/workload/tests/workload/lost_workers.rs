//! Workers that die while they serve, with and without the accept lock: the others go on, and the report says so.

use crate::common::{Server, client, system_call_of, wait_for, wait_gone};
use rustix::process::{Pid, Signal, kill_process};

const LOCKS: [&str; 5] = ["fcntl", "flock", "sysvsem", "posixsem", "pthread"];

/// Waits until one worker sleeps in `accept()`, with the lock, and all others sleep in the lock. Returns the holder
/// and one that waits.
fn holder_and_waiter(workers: &[Pid]) -> (Pid, Pid) {
    wait_for("one worker to accept and the others to wait", || {
        let calls: Option<Vec<_>> = workers.iter().map(|pid| Some((*pid, system_call_of(*pid)?.0))).collect();
        let waiting =
            [libc::SYS_fcntl, libc::SYS_flock, libc::SYS_semop, libc::SYS_semtimedop, libc::SYS_futex];
        let (holders, others): (Vec<_>, Vec<_>) =
            calls?.into_iter().partition(|(_, call)| *call == libc::SYS_accept4);
        let [(holder, _)] = holders[..] else { return None };
        let all_wait = others.iter().all(|(_, call)| waiting.contains(call));
        Some((holder, others.first().filter(|_| all_wait)?.0))
    })
}

#[test]
fn expect_the_others_to_go_on_when_the_holder_of_the_lock_is_killed() {
    for kind in LOCKS {
        let mut server = Server::start(&["--servers", "4", "--serialisation", kind]);
        let workers = server.workers();
        let (holder, _) = holder_and_waiter(&workers);
        let index = workers.iter().position(|pid| *pid == holder).unwrap();
        kill_process(holder, Signal::KILL).unwrap();
        let message = server.read_message();
        assert!(message.starts_with(&format!("server {index} is lost: signal 9")), "{kind}: {message}");
        let end = client(server.address, &["--connections", "40", "--mode", "wait"]);
        assert_eq!(end.count("succeeded"), 40, "{kind}: {}", end.stderr);
        let end = server.stop();
        assert!(end.status.success(), "{kind}");
        assert_eq!(end.report["workers_lost"], 1, "{kind}");
        assert_eq!(
            end.report["lost"],
            serde_json::json!([{"worker": index, "status": "signal 9"}]),
            "{kind}"
        );
        assert_eq!(end.report["lock_recovered"], 1, "{kind}");
        assert_eq!(end.report["accepted"], 40, "{kind}");
    }
}

#[test]
fn expect_nothing_recovered_when_a_waiter_is_killed() {
    for kind in LOCKS {
        let mut server = Server::start(&["--servers", "4", "--serialisation", kind]);
        let (_, waiter) = holder_and_waiter(&server.workers());
        kill_process(waiter, Signal::KILL).unwrap();
        assert!(server.read_message().contains("is lost: signal 9"), "{kind}");
        let end = client(server.address, &["--connections", "40", "--mode", "wait"]);
        assert_eq!(end.count("succeeded"), 40, "{kind}: {}", end.stderr);
        let end = server.stop();
        assert_eq!(end.report["workers_lost"], 1, "{kind}");
        assert_eq!(end.report["lock_recovered"], 0, "{kind}");
    }
}

#[test]
fn expect_connections_elsewhere_when_a_worker_with_its_own_socket_is_killed() {
    let mut server = Server::start(&["--servers", "4", "--serialisation", "reuseport"]);
    kill_process(server.workers()[2], Signal::KILL).unwrap();
    assert!(server.read_message().starts_with("server 2 is lost"));
    let end = client(server.address, &["--connections", "40", "--mode", "wait"]);
    assert_eq!(end.count("succeeded"), 40, "{}", end.stderr);
    assert_eq!(server.stop().report["accepts_per_worker"][2], 0);
}

#[test]
fn expect_failure_with_a_report_when_every_worker_is_lost() {
    let server = Server::start(&["--servers", "3", "--serialisation", "posixsem"]);
    for pid in server.workers() {
        kill_process(pid, Signal::KILL).unwrap();
        wait_gone(pid);
    }
    let end = server.wait();
    assert_eq!(end.status.code(), Some(1));
    assert_eq!(end.report["workers_lost"], 3);
    assert!(end.stderr.contains("all servers are lost"), "{}", end.stderr);
}
