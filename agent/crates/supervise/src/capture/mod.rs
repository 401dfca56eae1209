//! Bounded capture of a task's output.

mod kept;
mod layout;
mod pipe;
mod writer;

pub use kept::KeptOutput;
pub use pipe::output_pipe;
pub use writer::{Capture, CaptureError, INLINE_MAX, Pumped};
