//! A virtual machine, as its user sees it.

use std::{
    fs::File,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{
    io::DuplexStream,
    sync::{broadcast, oneshot, watch},
    time::timeout,
};

use super::{
    args::{AGENT_SOCKET, CONSOLE_ID, QMP_SOCKET, args},
    console::Console,
    error::{BootError, StartError},
    event::{Shutdown, VmEvent},
    folder::{absolute, prepare, private_file},
    kvm::{KvmVerdict, kvm_works},
    process::{End, Process},
    qmp::Qmp,
    sockets::Sockets,
    spec::{Accelerator, AcceleratorWish, VmSpec},
};
use crate::channel::{Channel, ChannelEvent};

/// How long the last events may take to be read after QEMU has ended.
const LAST_EVENTS: Duration = Duration::from_secs(2);
/// How long a kernel that panicked may take to say all, before it is given up.
const PANIC_LIMIT: Duration = Duration::from_secs(20);
/// How often the console's size is looked at.
const CONSOLE_EVERY: Duration = Duration::from_secs(1);
/// How much of the console goes into an error, in bytes.
const TAIL: u64 = 8 << 10;
/// Events that wait for a slow receiver.
const EVENTS: usize = 64;

/// What has become of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmState {
    /// The boot id of the guest whose program serves; `None` before, and after a reset.
    pub boot_id: Option<String>,
    /// Whether a kernel has panicked in it.
    pub panicked: bool,
    /// How often it was reset.
    pub resets: u32,
    /// Whether the console's file has reached its limit.
    pub console_full: bool,
    /// Why the guest has stopped for good.
    pub shutdown: Option<Shutdown>,
    /// How QEMU has ended: after this nothing changes any more.
    pub end: Option<End>,
}

/// Where what happens is written down.
#[derive(Debug)]
struct Board {
    state: watch::Sender<VmState>,
    events: broadcast::Sender<VmEvent>,
}

impl Board {
    fn happened(&self, event: VmEvent) {
        self.state.send_modify(|state| match &event {
            VmEvent::Booted(boot_id) => state.boot_id = Some(boot_id.clone()),
            VmEvent::Panicked => state.panicked = true,
            VmEvent::Shutdown(shutdown) => state.shutdown = Some(shutdown.clone()),
            VmEvent::Reset => {
                state.resets = state.resets.saturating_add(1);
                state.boot_id = None;
            }
            VmEvent::ConsoleFull => state.console_full = true,
            VmEvent::Watchdog | VmEvent::PowerDown | VmEvent::Stopped | VmEvent::Resumed => {}
        });
        // It is fine if nobody listens.
        let _ = self.events.send(event);
    }
}

/// A machine that runs. Killed when dropped.
#[derive(Debug)]
pub struct Vm {
    process: Process,
    qmp: Qmp,
    channel: Channel,
    board: Arc<Board>,
    console: Console,
    accelerator: Accelerator,
}

impl Vm {
    /// Starts a machine; its kernel then boots ([`Vm::booted`]).
    ///
    /// # Errors
    /// When the machine is impossible, its folder not private, or QEMU does not come up.
    pub async fn start(spec: &VmSpec) -> Result<Self, StartError> {
        let spec = absolute(spec)?;
        prepare(&spec.dir)?;
        for file in [Some(&spec.kernel), spec.initrd.as_ref()].into_iter().flatten() {
            File::open(file).map_err(|source| StartError::Read { path: file.clone(), source })?;
        }
        let accelerator = accelerator(&spec).await?;
        let console = Console::new(spec.console.clone().unwrap_or_else(|| spec.dir.join("console.log")));
        let args = args(&spec, accelerator, console.path())?;
        private_file(console.path())?;
        let log_path = spec.dir.join("qemu.log");
        let log = private_file(&log_path)?;

        let board =
            Arc::new(Board { state: watch::Sender::default(), events: broadcast::Sender::new(EVENTS) });
        let (ended, end) = watch::channel(None);
        let (gone, last_event) = oneshot::channel();
        let process = Process::start(&spec.qemu, args, &spec.dir, log, move |end| {
            ended.send_replace(Some(end));
        });
        let process = process.map_err(StartError::Spawn)?;
        tokio::spawn(write_down_end(end.clone(), last_event, Arc::clone(&board)));

        let sockets = Sockets { spec: &spec, end, log: &log_path };
        let channel = {
            let board = Arc::clone(&board);
            Channel::start(sockets.connect(AGENT_SOCKET).await?, move |event| match event {
                ChannelEvent::Hello { boot_id } => board.happened(VmEvent::Booted(boot_id)),
            })
        };
        let qmp = {
            let (board, channel) = (Arc::clone(&board), channel.clone());
            let event = move |event| {
                if event == VmEvent::Reset {
                    channel.begun_anew();
                }
                board.happened(event);
            };
            match Qmp::start(sockets.connect(QMP_SOCKET).await?, event, gone).await {
                Ok(qmp) => qmp,
                // QEMU opens its sockets before it looks at the kernel.
                Err(error) => return Err(sockets.end().await.unwrap_or(StartError::Qmp(error))),
            }
        };
        let vm = Self { process, qmp, channel, board, console, accelerator };
        tokio::spawn(watch_console(
            vm.console.clone(),
            spec.console_limit,
            vm.qmp.clone(),
            Arc::clone(&vm.board),
        ));
        Ok(vm)
    }

    /// What runs the guest's instructions. A number from a guest of [`Accelerator::Tcg`] is no performance claim.
    #[must_use]
    pub fn accelerator(&self) -> Accelerator {
        self.accelerator
    }

    /// The number of QEMU's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// QEMU's control.
    #[must_use]
    pub fn qmp(&self) -> &Qmp {
        &self.qmp
    }

    /// The serial console.
    #[must_use]
    pub fn console(&self) -> &Console {
        &self.console
    }

    /// What has become of it, now and from now on.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<VmState> {
        self.board.state.subscribe()
    }

    /// What happens from now on. Who does not listen for long loses the oldest.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<VmEvent> {
        self.board.events.subscribe()
    }

    /// Waits until the guest's program serves; its boot id.
    ///
    /// # Errors
    /// When the guest or QEMU ends, the kernel panics, or the limit passes. The console's last lines are in the error.
    pub async fn booted(&self, limit: Duration) -> Result<String, BootError> {
        let mut state = self.state();
        let start = Instant::now();
        let settled = |s: &VmState| s.boot_id.is_some() || s.panicked || s.end.is_some();
        let now = timeout(limit, state.wait_for(settled)).await.ok().and_then(|now| Some(now.ok()?.clone()));
        let Some(now) = now else {
            return Err(BootError::TimedOut { limit, console: self.console.tail(TAIL) });
        };
        if now.end.is_none()
            && let Some(boot_id) = now.boot_id
        {
            return Ok(boot_id);
        }
        let left = PANIC_LIMIT.min(limit.saturating_sub(start.elapsed()));
        let last = timeout(left, state.wait_for(|s| s.end.is_some())).await.ok().and_then(Result::ok);
        let how = last.map(|last| how(&last));
        let console = self.console.tail(TAIL);
        Err(match how {
            Some(how) => BootError::Ended { how, console },
            None => BootError::Panicked { console },
        })
    }

    /// A new stream to the program in the guest; the one before ends. It ends at once if the program does not serve.
    #[must_use]
    pub fn connect(&self) -> DuplexStream {
        self.channel.open()
    }

    /// Waits until QEMU has ended; what has become of the machine.
    pub async fn ended(&self) -> VmState {
        let mut state = self.state();
        match state.wait_for(|state| state.end.is_some()).await {
            Ok(state) => state.clone(),
            // The sender is part of this machine, so it is there.
            Err(_) => self.board.state.borrow().clone(),
        }
    }

    /// Asks the guest to end its program and power off, and presses the power button; kills QEMU after `limit`. Whether
    /// the guest obeyed is in the state's `shutdown`.
    pub async fn power_off(&self, limit: Duration) -> VmState {
        self.channel.power_off();
        if let Err(error) = self.qmp.system_powerdown().await {
            tracing::debug!(%error, "the power button cannot be pressed");
        }
        match timeout(limit, self.ended()).await {
            Ok(state) => state,
            Err(_) => self.kill().await,
        }
    }

    /// Kills QEMU, and waits until it has ended.
    pub async fn kill(&self) -> VmState {
        self.process.kill();
        self.ended().await
    }
}

/// How a machine ended, in words.
fn how(state: &VmState) -> String {
    let end = state.end.map_or_else(String::new, |end| format!("QEMU ended with {end}"));
    match &state.shutdown {
        Some(shutdown) => format!("{end}, {}", shutdown.reason),
        None => end,
    }
}

/// Writes the end down, once all events before it are.
async fn write_down_end(
    mut end: watch::Receiver<Option<End>>,
    last_event: oneshot::Receiver<()>,
    board: Arc<Board>,
) {
    let end = end.wait_for(Option::is_some).await.ok().and_then(|end| *end).unwrap_or(End::Unknown);
    let _ = timeout(LAST_EVENTS, last_event).await;
    board.state.send_modify(|state| state.end = Some(end));
}

/// Lets the console end when its file is too large.
async fn watch_console(console: Console, limit: u64, qmp: Qmp, board: Arc<Board>) {
    let mut state = board.state.subscribe();
    while timeout(CONSOLE_EVERY, state.wait_for(|state| state.end.is_some())).await.is_err() {
        if console.size() > limit {
            let null = json!({ "id": CONSOLE_ID, "backend": { "type": "null", "data": {} } });
            if let Err(error) = qmp.execute("chardev-change", null).await {
                tracing::warn!(%error, "the console cannot be cut off");
            }
            return board.happened(VmEvent::ConsoleFull);
        }
    }
}

async fn accelerator(spec: &VmSpec) -> Result<Accelerator, StartError> {
    if spec.accelerator == AcceleratorWish::Tcg {
        return Ok(Accelerator::Tcg);
    }
    match (kvm_works(&spec.qemu, &spec.kernel).await, spec.accelerator) {
        (KvmVerdict::Works, _) => Ok(Accelerator::Kvm),
        (KvmVerdict::Broken { why }, AcceleratorWish::Kvm) => Err(StartError::NoKvm { why }),
        (KvmVerdict::Broken { .. }, _) => Ok(Accelerator::Tcg),
    }
}
