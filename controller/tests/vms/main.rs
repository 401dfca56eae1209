//! Real kernels of Debian in QEMU, without KVM, as hosts of real runs. Needs QEMU, the package archive, and what builds a module of
//! a kernel; `scripts/test` installs all of it. Kernels and modules are kept below cargo's folder for temporary files, so that they
//! are fetched and built once.
#![expect(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod axes;
mod bisect;
mod deaths;
mod guest;
mod harness;
mod hotplug;
mod plain;
mod refused;
mod reports;
mod tables;
