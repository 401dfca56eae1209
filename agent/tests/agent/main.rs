//! Tests of the agent as controllers see it: real agent processes, real sockets, real tasks.

mod barrier;
mod ends;
mod harness;
mod lease;
mod output;
mod ready;
mod recovery;
mod serving;
mod start;
mod watch;
