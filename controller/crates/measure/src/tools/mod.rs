//! One parser per tool; called by [`parse`](crate::parse).

mod ab;
mod fio;
mod fortio;
mod h2load;
mod hey;
mod httperf;
mod iperf3;
mod memtier;
mod memtier_text;
mod oha;
mod pgbench;
mod redis;
mod stress_ng;
mod sysbench;
mod vegeta;
mod vegeta_text;
mod workload;
mod wrk;

use drover_model::{Measurement, Tool};

use crate::{Input, ParseError};

/// Reads the output of one of the known tools.
pub(crate) fn parse(tool: Tool, input: &Input<'_>) -> Result<Measurement, ParseError> {
    match tool {
        Tool::Workload => workload::parse(input),
        Tool::Ab => ab::parse(input),
        Tool::Httperf => httperf::parse(input),
        Tool::Wrk => wrk::parse(input, wrk::Flavour::Wrk),
        Tool::Wrk2 => wrk::parse(input, wrk::Flavour::Wrk2),
        Tool::Oha => oha::parse(input),
        Tool::H2load => h2load::parse(input),
        Tool::Hey => hey::parse(input),
        Tool::Vegeta => vegeta::parse(input),
        Tool::Fortio => fortio::parse(input),
        Tool::Iperf3 => iperf3::parse(input),
        Tool::Fio => fio::parse(input),
        Tool::Sysbench => sysbench::parse(input),
        Tool::Pgbench => pgbench::parse(input),
        Tool::RedisBenchmark => redis::parse(input),
        Tool::Memtier => memtier::parse(input),
        Tool::StressNg => stress_ng::parse(input),
    }
}
