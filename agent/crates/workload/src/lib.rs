//! The built-in server and client: a pre-forked `accept()` server with every accept serialisation, and a client that
//! opens and closes connections as fast as it can, or at a rate.
//!
//! Called by `drover-agent workload server|client`. [`Workload::run`] is the whole life of the process: the server
//! forks, so it must be called before any other thread exists, and not from within an async runtime.
//!
//! Both print one JSON document on standard output when they end, and messages for people on standard error. With
//! `--progress` the client also prints a line `{"progress": {...}}` for each interval, with the fields of its document. Exit
//! codes: 0 the run is complete (even if connections failed or workers were lost: the report says so), 1 there is no
//! usable result (every connection failed, every worker was lost, or it could not start), 2 usage.

mod args;
mod board;
mod client;
mod connection;
mod crew;
mod engine;
mod failure;
mod latency;
mod listen;
mod message;
mod ports;
mod progress;
mod report;
mod request;
mod response;
mod schedule;
mod serialise;
mod server;
mod sys;
mod worker;

use std::process::ExitCode;

pub use args::{ClientArgs, CloseMode, Reply, ServerArgs};
pub use serialise::Serialisation;

use message::{chain, say};

/// The built-in workload.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum Workload {
    /// A server that pre-forks processes which accept connections
    Server(ServerArgs),
    /// A client that opens and closes connections
    Client(ClientArgs),
}

impl Workload {
    /// Runs it to its end. See the crate's documentation for output and exit codes.
    pub fn run(&self) -> ExitCode {
        match self {
            Self::Server(args) => conclude(server::run(args)),
            Self::Client(args) => conclude(client::run(args)),
        }
    }
}

fn conclude(result: Result<(), impl std::error::Error + 'static>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("error: {}", chain(&error)));
            ExitCode::FAILURE
        }
    }
}
