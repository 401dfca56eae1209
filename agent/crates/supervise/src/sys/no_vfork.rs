//! Stands in for `vfork` where the switch of stacks is not written down: there every task starts as a copy of the agent, which is correct, and
//! slower by what copying its page tables costs.

use super::{
    clone::{CloneError, Entry, Start},
    image::Image,
};

/// There is none.
pub(crate) struct VforkStack;

impl VforkStack {
    pub(crate) fn new() -> Self {
        Self
    }
}

/// Always `None`: not offered.
pub(super) fn start(
    _image: &Image<'_>,
    _entry: Entry<'_>,
    _stack: &mut VforkStack,
) -> Option<Result<Start, CloneError>> {
    None
}
