//! What a kernel image, a module and a program say about themselves, read from their bytes.

mod bzimage;
mod elf;
mod other;
mod unpack;

pub use bzimage::{Banner, ImageError, banner, build_id};
pub(crate) use elf::Elf;
pub use unpack::UnpackError;
pub(crate) use unpack::{Compression, unpack};
