//! QEMU's control protocol: JSON values, one per line, over a Unix socket.
//!
//! One task owns the socket. It ends when QEMU closes it, or when the last [`Qmp`] is dropped.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{UnixStream, unix::OwnedWriteHalf},
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::event::VmEvent;

/// How long QEMU may take to answer. It answers while the guest hangs, too.
const LIMIT: Duration = Duration::from_secs(10);

/// The longest line, in bytes; QEMU's are far shorter.
const MAX_LINE: usize = 1 << 20;

/// Why a command was not carried out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QmpError {
    /// QEMU has ended, or closed the socket.
    #[error("QEMU has gone")]
    Gone,
    /// No answer in time.
    #[error("QEMU did not answer `{command}` within {limit:?}")]
    Silent {
        /// The command.
        command: String,
        /// How long was waited.
        limit: Duration,
    },
    /// QEMU refused.
    #[error("QEMU refused `{command}`: {said}")]
    Refused {
        /// The command.
        command: String,
        /// QEMU's words.
        said: String,
    },
}

struct Request {
    line: Vec<u8>,
    id: u64,
    answer: oneshot::Sender<Result<Value, String>>,
}

/// The control of a running QEMU.
#[derive(Clone, Debug)]
pub struct Qmp {
    requests: mpsc::Sender<Request>,
    next: Arc<AtomicU64>,
}

impl Qmp {
    /// Takes over a fresh connection. `event` is called for every event; `gone` is dropped when the connection ends.
    pub(super) async fn start(
        socket: UnixStream,
        event: impl Fn(VmEvent) + Send + 'static,
        gone: oneshot::Sender<()>,
    ) -> Result<Self, QmpError> {
        let (from, to) = socket.into_split();
        let (requests, receiver) = mpsc::channel(8);
        tokio::spawn(async move {
            serve(BufReader::new(from), to, receiver, event).await;
            drop(gone);
        });
        let qmp = Self { requests, next: Arc::default() };
        // Nothing else is answered before.
        qmp.execute("qmp_capabilities", json!({})).await?;
        Ok(qmp)
    }

    /// Carries out any command, within 10 s.
    ///
    /// # Errors
    /// When QEMU refuses, does not answer, or has gone.
    pub async fn execute(&self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        self.execute_within(command, arguments, LIMIT).await
    }

    async fn execute_within(
        &self,
        command: &str,
        arguments: Value,
        limit: Duration,
    ) -> Result<Value, QmpError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut line =
            json!({ "execute": command, "arguments": arguments, "id": id }).to_string().into_bytes();
        line.push(b'\n');
        let (answer, hear) = oneshot::channel();
        let ask = async {
            self.requests.send(Request { line, id, answer }).await.map_err(|_| QmpError::Gone)?;
            hear.await.map_err(|_| QmpError::Gone)
        };
        match timeout(limit, ask).await {
            Ok(answer) => answer?.map_err(|said| QmpError::Refused { command: command.to_owned(), said }),
            Err(_) => Err(QmpError::Silent { command: command.to_owned(), limit }),
        }
    }

    /// QEMU's word for the state of the machine: `running`, `paused`, `guest-panicked`, `shutdown`, ...
    ///
    /// # Errors
    /// As for [`Qmp::execute`].
    pub async fn status(&self) -> Result<String, QmpError> {
        let status = self.execute("query-status", json!({})).await?;
        Ok(status.get("status").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    /// Presses the power button; whether the guest obeys is seen by its end.
    ///
    /// # Errors
    /// As for [`Qmp::execute`].
    pub async fn system_powerdown(&self) -> Result<(), QmpError> {
        self.execute("system_powerdown", json!({})).await.map(drop)
    }

    /// Presses the reset button.
    ///
    /// # Errors
    /// As for [`Qmp::execute`].
    pub async fn system_reset(&self) -> Result<(), QmpError> {
        self.execute("system_reset", json!({})).await.map(drop)
    }

    /// Ends QEMU.
    ///
    /// # Errors
    /// As for [`Qmp::execute`].
    pub async fn quit(&self) -> Result<(), QmpError> {
        match self.execute("quit", json!({})).await {
            // It may be quicker to end than to answer.
            Ok(_) | Err(QmpError::Gone) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Interrupts the guest in a way that it cannot mask. A kernel whose first process is [`init`](crate::init) panics then, and
    /// says where it was.
    ///
    /// # Errors
    /// As for [`Qmp::execute`].
    pub async fn inject_nmi(&self) -> Result<(), QmpError> {
        self.execute("inject-nmi", json!({})).await.map(drop)
    }

    /// The registers of all CPUs, as QEMU prints them.
    ///
    /// # Errors
    /// As for [`Qmp::execute`].
    pub async fn registers(&self) -> Result<String, QmpError> {
        let arguments = json!({ "command-line": "info registers -a" });
        let said = self.execute("human-monitor-command", arguments).await?;
        Ok(said.as_str().unwrap_or_default().to_owned())
    }

    /// Makes the guest's CPUs stand still.
    ///
    /// # Errors
    /// As for [`Qmp::execute`].
    pub async fn stop(&self) -> Result<(), QmpError> {
        self.execute("stop", json!({})).await.map(drop)
    }

    /// Lets them run again.
    ///
    /// # Errors
    /// As for [`Qmp::execute`].
    pub async fn cont(&self) -> Result<(), QmpError> {
        self.execute("cont", json!({})).await.map(drop)
    }

    /// Writes the guest's memory to a file, as an ELF core for `crash` and `gdb`. The guest stands still meanwhile.
    ///
    /// # Errors
    /// As for [`Qmp::execute`]; also when the file cannot be written.
    pub async fn dump_guest_memory(&self, file: &Path, limit: Duration) -> Result<(), QmpError> {
        let protocol = format!("file:{}", file.display());
        let arguments = json!({ "paging": false, "protocol": protocol });
        self.execute_within("dump-guest-memory", arguments, limit).await.map(drop)
    }
}

async fn serve(
    mut from: BufReader<tokio::net::unix::OwnedReadHalf>,
    mut to: OwnedWriteHalf,
    mut requests: mpsc::Receiver<Request>,
    event: impl Fn(VmEvent),
) {
    let mut waiting: HashMap<u64, oneshot::Sender<Result<Value, String>>> = HashMap::new();
    let mut line = Vec::new();
    loop {
        tokio::select! {
            request = requests.recv() => {
                let Some(request) = request else { return };
                // Those that were given up need no place.
                waiting.retain(|_, answer| !answer.is_closed());
                waiting.insert(request.id, request.answer);
                if to.write_all(&request.line).await.is_err() {
                    return;
                }
            }
            // What was read of a line stays in `line` when a request comes first.
            count = from.read_until(b'\n', &mut line) => {
                if !matches!(count, Ok(1..)) || line.len() > MAX_LINE {
                    return;
                }
                if line.ends_with(b"\n") {
                    hear(&line, &mut waiting, &event);
                    line.clear();
                }
            }
        }
    }
}

/// Takes a message of QEMU: the greeting, an answer, or an event.
fn hear(
    line: &[u8],
    waiting: &mut HashMap<u64, oneshot::Sender<Result<Value, String>>>,
    event: &impl Fn(VmEvent),
) {
    let Ok(message) = serde_json::from_slice::<Value>(line) else {
        tracing::warn!(line = %String::from_utf8_lossy(line), "QEMU said something that is no JSON");
        return;
    };
    if let Some(name) = message.get("event").and_then(Value::as_str) {
        if let Some(found) = VmEvent::from_qmp(name, message.get("data").unwrap_or(&Value::Null)) {
            event(found);
        }
    } else if let Some(answer) = message.get("id").and_then(Value::as_u64).and_then(|id| waiting.remove(&id))
    {
        let said =
            |error: &Value| error.get("desc").and_then(Value::as_str).unwrap_or("no reason given").to_owned();
        let result = match message.get("error") {
            Some(error) => Err(said(error)),
            None => Ok(message.get("return").cloned().unwrap_or(Value::Null)),
        };
        let _ = answer.send(result);
    }
}
