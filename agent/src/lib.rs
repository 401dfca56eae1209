//! The agent: runs tasks on a host on behalf of a controller, and keeps what happened to them until it is stored.
//!
//! Used by the binary `drover-agent`, and by `drover`, which executes itself as `drover agent` for the host `local`.
//! The agent is one process with one thread for its event loop; threads of their own are made only for what can block for
//! long (killing process trees, removing folders, writing blobs, searching for artifacts, collecting evidence, switching CPUs, telling boot loaders), for a barrier,
//! so that nothing delays the instant it waits for, and for each attempt that is observed (`observe`), so that reading
//! hundreds of files delays nothing else.
//!
//! tokio tasks and what connects them:
//!
//! | task | made by | lives | listens to | tells |
//! |---|---|---|---|---|
//! | server (`server`, the `block_on` future) | `serve` | as long as the agent | signals; `activity`: connections and tasks that come and go, the wish to end | `closing`: the gRPC server stops accepting |
//! | connection (tonic, hyper) | gRPC server | as long as a controller is connected | its socket; for a `Watch` stream also `news` | registry, under its lock; `activity` |
//! | task (`task::run`) | `StartTask` | from acceptance to the end event | `Wish` (a watch channel per task: stop, kill, release), pidfd, output pipes, timers | registry; `news` (an event was recorded), `activity` (it is over) |
//! | reboot (`boot`) | `Reboot` | until the host goes down, or 180 s after it should have | timers, the command that reboots the host | the log; `changing` of the registry, so that tasks start again |
//! | acceptor (`network`) | `serve --listen` | as long as the agent | the listening TCP socket | spawns handshakes |
//! | handshake (`network`) | acceptor | 10 s at most | a peer that proves who it is | the gRPC server, by a bounded channel of connections |
//!
//! All other channels are `tokio::sync::watch`: they hold one value, so nothing queues up. Events are not passed through
//! channels at all: they go to the spool, and whoever watches reads them from there at its own pace.

mod agent;
mod args;
mod artifacts;
mod barrier;
mod blobs;
mod boot;
mod bridge;
mod clock;
mod connection;
mod cpus;
mod credentials;
mod dir;
mod evidence;
mod fd;
mod journal;
mod lease;
mod log;
mod network;
mod observe;
mod own;
mod refused;
mod registry;
mod request;
mod server;
mod service;
mod spool;
mod streams;
mod survey;
mod task;
mod text;
mod turn;
mod whole_file;

pub use args::main_with_args;
pub use bridge::BRIDGE_MARK;
pub use clock::unix_us;
pub use credentials::{Credentials, CredentialsError, certificate_name, provider};
pub use dir::{DIR_VARIABLE, DirError, Paths, default_dir, ensure_private};
pub use own::OwnCommand;
pub use server::{EXIT_TAKEN, READY_LINE};
pub use survey::survey;
pub use text::chain;
