//! The first root file system of a guest, made here without root.

mod build;
mod cpio;
mod modules;
mod program;

pub use build::{InitramfsError, InitramfsSpec, build};
pub use cpio::{Cpio, TooLarge};
pub use modules::{Module, Modules, ModulesError};
pub use program::ProgramError;
