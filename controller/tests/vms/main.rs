//! Real kernels of Debian in QEMU, without KVM, as hosts of real runs. Needs QEMU and the package archive; `scripts/test`
//! installs the first. Kernels are kept below cargo's folder for temporary files, so that they are fetched once.
#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod axes;
mod bisect;
mod deaths;
mod guest;
mod harness;
mod hotplug;
mod plain;
mod tables;
