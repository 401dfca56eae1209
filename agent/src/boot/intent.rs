//! What is armed, and whether a reboot was asked for, on disk before it is done.

use drover_machine::boot::Undo;
use drover_model::RunId;
use serde::{Deserialize, Serialize};

use crate::journal::Kept;

/// What was done in a boot for the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Intent {
    /// For which run.
    pub run: RunId,
    /// The boot in which it was done.
    pub boot_id: String,
    /// The kernel for the next boot.
    pub armed: Option<Armed>,
    /// A reboot was asked for.
    pub reboot: bool,
}

/// A kernel that is booted once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Armed {
    /// The nonce of the boot.
    pub nonce: String,
    /// What takes it back.
    pub undo: Undo,
}

impl Kept for Intent {
    const SAYS: &'static str = "what the host is to boot";
    const REMEDY: &'static str = "see to it that the boot loader boots the usual kernel";
}
