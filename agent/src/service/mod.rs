//! The rpcs of `drover.v1.Agent`: messages in, registry called, messages out. Semantics are documented in
//! `proto/drover/v1/agent.proto`.

mod boot;
mod cpus;
mod files;
mod observed;
mod rpcs;
mod tasks;

pub use rpcs::Service;
