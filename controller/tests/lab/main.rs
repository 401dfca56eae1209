//! Several hosts: real sshd and agents in network namespaces, links that are cut, slow or lossy, hosts that disappear. Needs root.

#![expect(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod contact;
mod faults;
mod harness;
mod partitions;
mod power;
mod resident;
mod runs;
mod sharing;
mod soaks;
mod transfers;
