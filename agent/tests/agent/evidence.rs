//! Evidence of an attempt that hangs.

use drover_model::{Completeness, EndKind};

use crate::harness::{Agent, says_up};

fn section<'a>(text: &'a str, title: &str) -> &'a str {
    let found = text.split("\n== ").find(|section| section.starts_with(title));
    found.unwrap_or_else(|| panic!("no section {title}:\n{text}"))
}

#[tokio::test]
async fn expect_the_place_where_a_stuck_process_waits() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.observing_session(1).await;
    // One process has the lock, the other one waits for it for ever.
    let script = "echo last words; echo complaint >&2; : > lock; flock lock sleep 1000 & \
        until flock -n lock true; [ $? -eq 1 ]; do :; done; echo up; exec flock lock true";
    let mut spec = session.shell(0, script);
    spec.ready = says_up();
    session.run_until_ready(&spec).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let waiting = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    // It may not have come to its wait yet.
    let text = crate::harness::within(async {
        loop {
            let (completeness, missing, text) = session.evidence(spec.id.attempt, false).await;
            assert!(completeness != Completeness::None, "{missing:?}");
            if section(&text, "3 processes of").contains("lock") {
                break text;
            }
        }
    })
    .await;
    assert!(text.contains("\nevidence: "), "{text}");
    assert!(section(&text, "standard output of").contains("(it runs)\nlast words\nup\n"), "{text}");
    assert!(section(&text, "standard error of").ends_with("complaint\n"));
    let stuck =
        text.split("\n== process ").find(|section| section.contains("command: flock lock true")).unwrap();
    let wchan = stuck.split_once("wchan:\n").unwrap().1.lines().next().unwrap();
    assert!(wchan.contains("lock"), "{stuck}");
    // Root sees these too.
    assert!(
        stuck.contains("syscall:\n") && stuck.contains("stack:\n") && stuck.contains("status:\n"),
        "{stuck}"
    );
    let address = listener.local_addr().unwrap().to_string();
    let line = section(&text, "TCP listeners").lines().find(|line| line.ends_with(&address)).unwrap();
    assert_eq!(line.split_whitespace().next(), Some("1"), "{line}");
    assert!(section(&text, "/proc/meminfo").contains("MemAvailable"));
    assert!(section(&text, "/proc/loadavg").len() > 20);
    drop(waiting);
    session.stop(&spec.id, true).await;
    session.end_of(&spec.id).await;
}

#[tokio::test]
async fn expect_what_is_left_of_an_attempt_that_ended() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(&dir);
    let mut session = agent.observing_session(1).await;
    let spec =
        session.shell(0, "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the end; sleep 0.5; exit 3");
    assert_eq!(session.run(&spec).await.kind, EndKind::Exited(3));
    let (completeness, missing, text) = session.evidence(spec.id.attempt, true).await;
    let output = section(&text, "standard output of");
    assert!(output.contains("Exited(3)") && output.ends_with("xxx\nthe end\n"));
    assert!(output.len() < 20_000);
    let sensors = section(&text, "sensors of the last minutes");
    for series in ["cpu.all.idle_ticks", "MemAvailable", "task.server.0.processes"] {
        assert!(sensors.contains(series), "{sensors}");
    }
    let sysrq = std::path::Path::new("/proc/sysrq-trigger").exists();
    let told = missing.iter().any(|reason| reason.starts_with("sysrq: cannot write"));
    assert_eq!(told, !sysrq, "{missing:?}");
    let whole = if missing.is_empty() { Completeness::Complete } else { Completeness::Partial };
    assert_eq!(completeness, whole);
    for reason in &missing {
        assert!(text.contains(&format!("\nnot in it: {reason}\n")), "{text}");
    }
}
