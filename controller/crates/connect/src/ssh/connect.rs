//! From options to a connection.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use drover_agent::Paths;
use tokio::{net::UnixStream, sync::Semaphore};

use super::{
    SshError, SshOptions,
    thread::{find_route, reach},
};
use crate::{ConnectError, Connection, greet::greet};

/// Times that everything is tried when the agent found ends while it is being connected to.
const TRIES: u32 = 3;

/// Connections that are being made to one sshd at a time: by default it turns newcomers away from the tenth on.
const AT_ONCE: usize = 8;

/// One semaphore for each sshd that was dialled.
static DIALLED: LazyLock<Mutex<HashMap<String, Arc<Semaphore>>>> = LazyLock::new(Mutex::default);

/// Connects to the agent of a host; brings and starts one if there is none. Safe to be called by several controllers at
/// once.
pub(crate) async fn connect_ssh(options: &SshOptions) -> Result<Connection, ConnectError> {
    let options = Arc::new(options.clone());
    let route = Arc::new(find_route(&options).await?);
    let first = route.jump.as_ref().unwrap_or(&route.host);
    let gate = gate(format!("{}:{}", first.address, first.port));
    let mut tries = TRIES;
    loop {
        tries -= 1;
        // Never closed.
        let turn = gate.acquire().await.ok();
        let reached = reach(&options, Arc::clone(&route)).await?;
        drop(turn);
        let broken = |source| SshError::Thread { host: options.host.clone(), source };
        let stream = UnixStream::from_std(reached.stream).map_err(broken)?;
        // Written as scp does.
        let paths = Paths::new(PathBuf::from(format!("{}:{}", options.host, reached.dir)));
        match greet(stream, &paths, None).await {
            Ok(connection) => return Ok(Connection { peer: reached.peer, ..connection }),
            // It was found and ended meanwhile.
            Err(ConnectError::Transport { .. }) if tries > 0 => {}
            Err(error) => return Err(error),
        }
    }
}

fn gate(address: String) -> Arc<Semaphore> {
    let mut dialled = DIALLED.lock().unwrap_or_else(PoisonError::into_inner);
    let gate = dialled.entry(address).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE)));
    Arc::clone(gate)
}
