//! Where a machine with more CPUs did worse: cells that differ in nothing but the axis `cpus` are compared with one another.
//!
//! Used by `text` and `markdown`, which say it in words below the tables, and by `json`.
//!
//! **What is said, and how sure it is.** Of every two CPU counts with numbers, the trials of the larger one are compared with
//! those of the smaller one by the rank sum test. It did worse if such trials would come about by chance in at most 5 % of
//! cases without a difference, and its median is worse by 1 % at least: less is of no use to anybody. Three trials of each
//! are enough, if all of one lie beyond all of the other. Where there are so few that not even this says anything, it is told
//! apart. For every count, the comparison with the best of those smaller ones is told that it lost to. How many comparisons
//! were made is told as well, since one in twenty may come out so by chance.
//!
//! Cells without a number are compared with nothing, and cells of different hosts not with one another.

mod find;
pub(crate) mod json;
mod words;

pub(crate) use find::Scaling;
pub(crate) use words::say;
