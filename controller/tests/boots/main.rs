//! Real hosts that boot other kernels: a machine in QEMU with firmware, a disk, a boot loader on it and a resident agent, which is
//! rebooted as a machine on a table would be. Needs QEMU, boot loaders and the package archive; `scripts/test` installs all but
//! the last. Kernels are kept below cargo's folder for temporary files, so that they are fetched once.
#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod disk;
mod efi;
mod grub;
mod host;
mod kexec;
mod reach;
mod runs;
mod session;
mod tree;
mod uefi;
