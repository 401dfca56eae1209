//! Hosts behind real sshd processes, which the tests start on 127.0.0.1 with configurations, keys and folders of their own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod agents;
mod auth;
mod bridge;
mod failures;
mod host_keys;
mod jump;
mod lab;
mod lost;
mod traffic;
