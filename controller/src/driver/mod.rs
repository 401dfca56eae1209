//! The driver: the I/O around the scheduler.
//!
//! One loop turns everything that happens into an [`InternalEvent`], which a synchronous function handles: it keeps the
//! books of the attempts in flight, steps the scheduler, and carries out the effects. Nothing in the loop waits; what
//! takes time runs in a task of its own that answers with an event.
//!
//! | task or thread | what it does | sends | ends |
//! |---|---|---|---|
//! | the loop (`run`) | handles events, one at a time | | with the run |
//! | `link`: watch, one per connection | reads the agent's event stream | `TaskReported`, `HostReported`, `Lost` | with the connection |
//! | `link`: heartbeat, one per connection | renews the lease | `Lost` | with the connection |
//! | `link`: worker, one per connection | requests that must keep their order (start, barrier, stop) | `Answer` | with the connection |
//! | `barrier`, one per release on several hosts | probes clocks, orders the release | barrier events, `Lost` | with the answers |
//! | `link`: calls, one each | any other request to an agent | `Answer` | with the answer |
//! | `link`: boot, one per host that is told to boot | arms a kernel, writes that down, orders the reboot | `ToldToBoot` | with the answers |
//! | `power`, one per host whose power is cycled | runs the commands of the host file | `PowerCycled` | with the commands |
//! | `signals` | waits for SIGINT, SIGTERM, SIGHUP | `Interrupted` | with the run |
//! | `live`: accept, and one per client | serves those who watch | `Watched`, `Interrupted` | with the run, with the client |
//! | `soak`: the recorder (thread, in a soak) | writes series and timelines | `Recorded` | when the run ends |
//! | `soak`: evidence, one per host of a failed soak | asks an agent, writes a file | `Evidence` | with the answer, or after 15 s |
//! | the store's writer (thread) | commits in groups | `Store` | when the loop closes it |
//!
//! All of them send into one channel. It needs no bound of its own: the agent's events are bounded by the tasks in
//! flight, the answers by the requests, and the store's by the scheduler's limit of unstored attempts.

mod attempt;
mod barrier;
mod begin;
mod clock;
mod collect;
mod drive;
mod effects;
mod finish;
mod internal_event;
mod link;
mod machine;
mod observed;
mod power;
mod prepare;
mod progress;
mod reported;
mod setup;
mod signals;
mod soak;
mod stored;

pub use collect::{Collected, TaskOutput, collect, end_of};
pub use drive::{Driven, Job, UnderWay, drive};
pub use link::chain;
pub use machine::{Ledger, boot_policies, wish_for};
pub use observed::weigh;
pub use progress::Progress;
pub use setup::{HostSetup, Hosts, cells, check_seats, schedule, spread_hosts};
