//! What the initramfs tells `drover-init` to do.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where it is in the guest.
pub(crate) const CONFIG_PATH: &str = "/etc/drover-init.json";

/// Written by the controller, read in the guest; both are of one build.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct GuestConfig {
    /// Modules to load, in this order.
    pub(crate) modules: Vec<PathBuf>,
    /// The program to start, and its arguments.
    pub(crate) argv: Vec<String>,
    /// The Unix socket on which it serves.
    pub(crate) socket: PathBuf,
}
