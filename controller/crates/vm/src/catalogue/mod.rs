//! Kernels by label, in a folder: which there are, and how to get more.

mod apt;
mod error;
mod fetch;
mod kernel;
mod pattern;
mod store;

pub use apt::AptOptions;
pub use error::{CatalogueError, FetchError};
pub use kernel::{Kernel, NewKernel};
pub use store::Catalogue;
