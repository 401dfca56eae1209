//! The first process of a guest: what `drover-init` does. It runs in the guest only.
//!
//! It mounts the kernel's file systems, loads modules, brings up the loopback interface, starts the program that it was
//! told to start, and carries its connections over the virtio port. When the program ends, the guest powers off.
//!
//! Threads, all of which end with the guest:
//!
//! | thread | does |
//! |---|---|
//! | main | sets up; then reaps every process that ends, until the program has |
//! | `port` | waits until the program serves; reads frames from the virtio port |
//! | `stream` | one per stream: carries what the program says to the port; ends with the stream |
//! | `hello` | says hello until it is answered |
//! | `button` | one per input device: waits for the power button |

mod config;
mod init;
mod lo;
mod mounts;
mod port;
mod power;
mod relay;

pub(crate) use config::{CONFIG_PATH, GuestConfig};
pub use init::{init, is_init};
