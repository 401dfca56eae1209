//! The controller's end of the live socket. A task accepts, and one for each client writes what it is told and reads what it asks;
//! both hand everything to the driver's loop.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustix::process::geteuid;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream, unix::OwnedWriteHalf},
    sync::{Semaphore, mpsc},
    task::JoinHandle,
};

use super::{Sight, client::through_folder, sight::STOP};

/// Clients at a time; more are turned away.
const MAX_CLIENTS: usize = 32;
/// What a client may be behind; what comes then is left out and counted.
const BACKLOG: usize = 256;
/// Longest request, in bytes.
const MAX_REQUEST: u64 = 64;
/// Time between two tries when the system lets nobody connect.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest wait for clients to take the last that they are told.
const FAREWELL: Duration = Duration::from_secs(2);

/// Somebody who watches.
pub struct Watcher {
    sights: mpsc::Sender<Sight>,
    missed: u64,
}

/// What clients want, for the driver.
pub trait Wishes: Clone + Send + 'static {
    /// Somebody watches from now on.
    fn watch(&self, watcher: Watcher);
    /// Somebody wants the run to stop.
    fn stop(&self);
}

/// The socket, for as long as the run goes on.
pub struct Server {
    path: PathBuf,
    accepting: JoinHandle<()>,
    places: Arc<Semaphore>,
}

impl Watcher {
    /// Tells something; `false` once nobody listens.
    pub fn tell(&mut self, sight: Sight) -> bool {
        use mpsc::error::TrySendError::{Closed, Full};
        if self.missed > 0 {
            match self.sights.try_send(Sight::Missed { count: self.missed }) {
                Ok(()) => self.missed = 0,
                Err(Full(_)) => {
                    self.missed += 1;
                    return true;
                }
                Err(Closed(_)) => return false,
            }
        }
        match self.sights.try_send(sight) {
            Ok(()) => true,
            Err(Full(_)) => {
                self.missed += 1;
                true
            }
            Err(Closed(_)) => false,
        }
    }
}

impl Server {
    /// Serves a socket at `path` from now on; replaces one that a former controller left. Must be called in a runtime.
    ///
    /// # Errors
    /// The folder's file system has no sockets, or no room.
    pub fn start(path: PathBuf, wishes: impl Wishes) -> io::Result<Self> {
        let listener = bind(&path)?;
        let places = Arc::new(Semaphore::new(MAX_CLIENTS));
        let accepting = tokio::spawn(accept(listener, wishes, Arc::clone(&places)));
        Ok(Self { path, accepting, places })
    }

    /// Lets nobody else in, and waits a moment until those who watch have taken the last that they were told. To be called when
    /// all watchers are dropped.
    pub async fn close(self) {
        self.accepting.abort();
        let all = u32::try_from(MAX_CLIENTS).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(FAREWELL, self.places.acquire_many(all)).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
        let _ = fs::remove_file(&self.path);
    }
}

/// Binds the socket under another name first, so that it is private before anyone can find it.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let fresh = path.with_extension("new");
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (_folder, short) = through_folder(&fresh)?;
    let listener = UnixListener::bind(short)?;
    fs::set_permissions(&fresh, Permissions::from_mode(0o600))?;
    fs::rename(&fresh, path)?;
    Ok(listener)
}

async fn accept(listener: UnixListener, wishes: impl Wishes, places: Arc<Semaphore>) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "nobody can be let in to watch");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let is_ours = stream.peer_cred().is_ok_and(|peer| [0, geteuid().as_raw()].contains(&peer.uid()));
        let Some(place) = Arc::clone(&places).try_acquire_owned().ok().filter(|_| is_ours) else { continue };
        let (sender, sights) = mpsc::channel(BACKLOG);
        wishes.watch(Watcher { sights: sender, missed: 0 });
        let wishes = wishes.clone();
        tokio::spawn(async move {
            serve(stream, sights, wishes).await;
            drop(place);
        });
    }
}

/// Until the client leaves, or there is nothing more to tell.
async fn serve(stream: UnixStream, mut sights: mpsc::Receiver<Sight>, wishes: impl Wishes) {
    let (read, mut write) = stream.into_split();
    let mut requests = BufReader::new(read.take(MAX_REQUEST));
    let (mut listens, mut line) = (true, Vec::new());
    loop {
        tokio::select! {
            sight = sights.recv() => match sight {
                Some(sight) if tell(&mut write, &sight).await.is_ok() => {}
                _ => return,
            },
            // What was read of a line stays there when something is to be told meanwhile.
            read = requests.read_until(b'\n', &mut line), if listens => {
                // A client may close this side and read on.
                listens = read.is_ok() && line.ends_with(b"\n");
                if listens && line.strip_suffix(b"\n") == Some(STOP.as_bytes()) {
                    wishes.stop();
                }
                line.clear();
                requests.get_mut().set_limit(MAX_REQUEST);
            },
        }
    }
}

async fn tell(write: &mut OwnedWriteHalf, sight: &Sight) -> io::Result<()> {
    let mut line = serde_json::to_vec(sight)?;
    line.push(b'\n');
    write.write_all(&line).await
}
