//! The kernel's log as the agent reads it, and the kernel's own record of what went wrong. The agent polls the reader beside its other
//! files; there is no thread here.

mod reader;
mod record;
mod taint;

pub use reader::{KernelLog, KernelLogError, LogStart, ReadError, TAIL_RECORDS, Tail, tail_since};
pub use record::LogRecord;
pub use taint::{TAINT_FILE, Taint, TaintError, read_taint, taints};
