//! Stands in for the agent in the tests of this crate: `vm_payload SOCKET` takes a word per connection, does what it says,
//! and answers with a line.

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    process::ExitCode,
};

use drover_vm::Found;
use rustix::system::{RebootCommand, reboot};

fn main() -> ExitCode {
    match std::env::args().nth(1).map(|socket| serve(&socket)) {
        Some(Err(error)) => {
            eprintln!("vm_payload: {error}");
            ExitCode::FAILURE
        }
        Some(Ok(())) => ExitCode::SUCCESS,
        None => ExitCode::from(2),
    }
}

fn serve(socket: &str) -> io::Result<()> {
    println!(
        "vm_payload: {:?}",
        fs::read_to_string("/proc/net/fib_trie").map(|trie| trie.contains("127.0.0.1"))
    );
    for connection in UnixListener::bind(socket)?.incoming() {
        let connection = connection?;
        let mut word = String::new();
        let mut lines = BufReader::new(connection.try_clone()?);
        if lines.read_line(&mut word)? == 0 {
            continue;
        }
        match word.trim() {
            "end" => return Ok(()),
            "echo" => {
                // It ends with the stream.
                let _ = io::copy(&mut lines, &mut &connection);
            }
            "crash" => fs::write("/proc/sysrq-trigger", "c")?,
            "reboot" => reboot(RebootCommand::Restart)?,
            "identity" => answer(&connection, &identity())?,
            "facts" => answer(&connection, &facts())?,
            "shout" => {
                let line = "a".repeat(4000);
                for _ in 0..100 {
                    println!("{line}");
                }
                answer(&connection, "done")?;
            }
            other => answer(&connection, &format!("no such word: {other}"))?,
        }
    }
    Ok(())
}

fn answer(mut connection: &UnixStream, text: &str) -> io::Result<()> {
    connection.write_all(text.as_bytes())?;
    connection.write_all(b"\n")
}

fn identity() -> String {
    match Found::collect(Path::new("/")) {
        Ok(found) => serde_json::to_string(&found).unwrap_or_default(),
        Err(error) => error.to_string(),
    }
}

/// What drover-init has set up: the file systems, the loopback interface, and whether zombies are left.
fn facts() -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mut kinds: Vec<&str> = mounts.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let lo = fs::read_to_string("/sys/class/net/lo/flags").unwrap_or_default();
    let bound = std::net::TcpListener::bind("127.0.0.1:0").is_ok();
    format!("{} lo={} loopback={bound}", kinds.join(","), lo.trim())
}
