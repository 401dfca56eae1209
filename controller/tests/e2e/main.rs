//! The program as its users meet it: real controllers and agents, real processes, real signals.

mod commands;
mod durable;
mod harness;
mod interrupts;
mod wrong_input;
mod wrong_world;
