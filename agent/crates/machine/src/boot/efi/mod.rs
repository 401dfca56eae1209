//! What UEFI firmware knows of boot entries.

pub(super) mod next;
pub(super) mod variables;

pub use next::BootNextError;
pub use variables::VariableError;
