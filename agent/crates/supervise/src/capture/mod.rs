//! Bounded capture of a task's output.

mod kept;
mod pipe;
mod writer;

pub use kept::KeptOutput;
pub use pipe::output_pipe;
pub use writer::{Capture, CaptureError, INLINE_MAX, Pumped};
