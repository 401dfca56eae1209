//! The controller's end of the virtio port, which QEMU passes on through a Unix socket.
//!
//! Tasks, all of which end when the socket or the [`Channel`] is closed:
//!
//! | task | does |
//! |---|---|
//! | relay | reads frames, and hands data to the stream that is open |
//! | writer | writes frames: what is to be done first, then data |
//! | to-user, from-user | one each per stream: copy between the stream's user and the relay or the writer |

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    task::AbortHandle,
};

use super::{Decoder, Frame, MAX_DATA};

/// Bytes of a stream that are kept while its user does not read them.
const BUFFER: usize = 64 << 10;
/// Frames that wait for their turn, in either direction.
const FRAMES: usize = 8;

/// What the guest does that others want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChannelEvent {
    /// It has booted, and its program serves.
    Hello {
        /// The boot id.
        boot_id: String,
    },
}

enum Command {
    Open(DuplexStream),
    PowerOff,
    BegunAnew,
}

/// The way to the guest. Closed when dropped.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    commands: mpsc::UnboundedSender<Command>,
}

impl Channel {
    /// Takes over the socket of the port. What the guest does is said to `events`.
    pub(crate) fn start(socket: UnixStream, events: impl Fn(ChannelEvent) + Send + Sync + 'static) -> Self {
        let (commands, receiver) = mpsc::unbounded_channel();
        let (from, to) = socket.into_split();
        let (first, firsts) = mpsc::unbounded_channel();
        let (data, datas) = mpsc::channel(FRAMES);
        tokio::spawn(write(to, firsts, datas));
        let relay = Relay { commands: receiver, first, data, open: None, next: 1, boot_id: None };
        tokio::spawn(relay.run(from, events));
        Self { commands }
    }

    /// A new stream to the program; the one before ends. It ends at once if the guest does not serve.
    pub(crate) fn open(&self) -> DuplexStream {
        let (theirs, ours) = duplex(BUFFER);
        // When the relay has ended, the stream is dropped, which its user notices.
        let _ = self.commands.send(Command::Open(ours));
        theirs
    }

    /// Asks the guest to end its program and to power off.
    pub(crate) fn power_off(&self) {
        let _ = self.commands.send(Command::PowerOff);
    }

    /// Says that the guest has been reset: what comes next is not the rest of what came before.
    pub(crate) fn begun_anew(&self) {
        let _ = self.commands.send(Command::BegunAnew);
    }
}

/// The stream that is open.
struct Open {
    stream: u32,
    to_user: mpsc::Sender<Vec<u8>>,
    from_user: AbortHandle,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.from_user.abort();
    }
}

struct Relay {
    commands: mpsc::UnboundedReceiver<Command>,
    first: mpsc::UnboundedSender<Frame>,
    data: mpsc::Sender<Frame>,
    open: Option<Open>,
    /// Number of the next stream. Those of the past are never meant again.
    next: u32,
    boot_id: Option<String>,
}

impl Relay {
    async fn run(mut self, mut from: OwnedReadHalf, events: impl Fn(ChannelEvent)) {
        let mut decoder = Decoder::default();
        let mut bytes = vec![0; 32 << 10];
        loop {
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.command(command, &mut decoder),
                    None => return,
                },
                count = from.read(&mut bytes) => match count {
                    Ok(0) | Err(_) => return,
                    Ok(count) => {
                        decoder.push(bytes.get(..count).unwrap_or_default());
                        self.frames(&mut decoder, &events).await;
                    }
                },
            }
        }
    }

    fn command(&mut self, command: Command, decoder: &mut Decoder) {
        match command {
            // Without a boot nobody would answer.
            Command::Open(user) if self.boot_id.is_some() => {
                let stream = self.next;
                self.next = self.next.wrapping_add(1);
                let _ = self.first.send(Frame::Open(stream));
                let (from, to) = split(user);
                let (to_user, datas) = mpsc::channel(FRAMES);
                tokio::spawn(give(to, datas));
                let from_user = tokio::spawn(take(stream, from, self.data.clone())).abort_handle();
                self.open = Some(Open { stream, to_user, from_user });
            }
            Command::Open(_) => {}
            Command::PowerOff => {
                let _ = self.first.send(Frame::PowerOff);
            }
            Command::BegunAnew => {
                self.open = None;
                self.boot_id = None;
                decoder.lose_step();
            }
        }
    }

    async fn frames(&mut self, decoder: &mut Decoder, events: &impl Fn(ChannelEvent)) {
        loop {
            match decoder.next() {
                Ok(None) => return,
                Ok(Some(Frame::Hello { boot_id })) => {
                    let _ = self.first.send(Frame::Ready { boot_id: boot_id.clone() });
                    if self.boot_id.as_ref() != Some(&boot_id) {
                        self.open = None;
                        self.boot_id = Some(boot_id.clone());
                        events(ChannelEvent::Hello { boot_id });
                    }
                }
                Ok(Some(Frame::Data(stream, bytes))) => self.deliver(stream, bytes, decoder).await,
                Ok(Some(Frame::Close(stream))) => {
                    if self.open.as_ref().is_some_and(|open| open.stream == stream) {
                        self.open = None;
                    }
                }
                Ok(Some(Frame::Ready { .. } | Frame::Open(_) | Frame::PowerOff)) => {}
                Err(error) => {
                    tracing::warn!(%error, "the guest is waited for to begin anew");
                    self.open = None;
                }
            }
        }
    }

    /// Hands data to the user of the stream. While the user does not take it, the guest has to wait, and commands are
    /// followed.
    async fn deliver(&mut self, stream: u32, bytes: Vec<u8>, decoder: &mut Decoder) {
        while let Some(open) = self.open.as_ref().filter(|open| open.stream == stream) {
            let to_user = open.to_user.clone();
            tokio::select! {
                permit = to_user.reserve() => {
                    match permit {
                        Ok(permit) => permit.send(bytes),
                        Err(_) => self.open = None,
                    }
                    return;
                }
                command = self.commands.recv() => match command {
                    Some(command) => self.command(command, decoder),
                    None => return,
                },
            }
        }
    }
}

/// Writes frames until both sources have ended or the socket is closed.
async fn write(
    mut to: OwnedWriteHalf,
    mut first: mpsc::UnboundedReceiver<Frame>,
    mut data: mpsc::Receiver<Frame>,
) {
    loop {
        let frame = tokio::select! {
            biased;
            frame = first.recv() => frame,
            Some(frame) = data.recv() => Some(frame),
        };
        let Some(frame) = frame else { return };
        if to.write_all(&frame.encode()).await.is_err() {
            return;
        }
    }
}

/// Gives a stream's user what came from the guest, and then the end.
async fn give(mut to: WriteHalf<DuplexStream>, mut datas: mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = datas.recv().await {
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

/// Takes from a stream's user what is for the guest, and then the end.
async fn take(stream: u32, mut from: ReadHalf<DuplexStream>, data: mpsc::Sender<Frame>) {
    let mut bytes = vec![0; MAX_DATA];
    loop {
        let frame = match from.read(&mut bytes).await {
            Ok(0) | Err(_) => Frame::Close(stream),
            Ok(count) => Frame::Data(stream, bytes.get(..count).unwrap_or_default().to_vec()),
        };
        let last = matches!(frame, Frame::Close(_));
        if data.send(frame).await.is_err() || last {
            return;
        }
    }
}
