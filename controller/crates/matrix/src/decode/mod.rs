//! From the tree to the checked parts of a matrix. Every decoder reports what is wrong and goes on, so that one pass
//! finds all mistakes; `None` means "already reported".

mod across;
mod axes;
pub(crate) mod fields;
mod files;
mod measure;
mod metric;
mod observe;
mod policy;
mod ready;
pub(crate) mod role;
mod root;
mod seats;
mod soak;
mod spread;
pub(crate) mod units;
pub(crate) mod value;

pub(crate) use axes::{AxisDraft, ExcludeDraft, values_of};
pub(crate) use fields::Problems;
pub(crate) use observe::words as doubt_words;
pub(crate) use policy::MAX_CELLS;
pub(crate) use root::{Draft, root};
pub(crate) use soak::SoakDraft;
pub(crate) use spread::HOST;
