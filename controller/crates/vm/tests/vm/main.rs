//! Real kernels of Debian, booted in QEMU without KVM. Needs QEMU and the package archive; `scripts/test` installs the first.
//! Kernels are kept below cargo's folder for temporary files, so that they are fetched once.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod boot;
mod catalogue;
mod death;
mod failed_boot;
mod harness;
mod host;
