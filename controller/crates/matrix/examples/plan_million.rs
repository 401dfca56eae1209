//! Parses, expands and plans a matrix of 1,000,000 cells; prints the time and the peak of resident memory. The goal is
//! below 2 s and 100 MiB in a release build: `cargo run --release -p drover-matrix --example plan_million`.

use std::{process::ExitCode, time::Instant};

use drover_matrix::{Options, Source, parse, plan};

const MATRIX: &str = r#"
version: 1
name: million
axes:
  kernel: [running, "6.1", "6.10", "6.12", "6.18"]
  cpus: [1, 2, 4, 8, 16]
  servers: 1..500
  serialisation: [none, fcntl, flock, sysvsem, posixsem, pthread, epoll, epoll-exclusive, reuseport, mutex]
  backlog: 128..8192 *4
  mode: [wait, close]
exclude:
  - { when: serialisation == "flock" and servers > 100, because: flock wakes every waiter }
  - { when: cpus == 1 and mode == "close", because: says nothing }
roles:
  client:
    run: [client, --servers, "{{ servers }}", --mode, "{{ mode }}"]
    measure: lines
metrics:
  rate: { unit: conn/s, better: higher }
repeat: 3
limits: { cells: 1000000 }
"#;

fn main() -> ExitCode {
    let started = Instant::now();
    let matrix = match parse(&Source::new("million.yaml", MATRIX), &Options::default()) {
        Ok(matrix) => matrix,
        Err(diagnostics) => {
            eprintln!("{diagnostics}");
            return ExitCode::FAILURE;
        }
    };
    let parsed = started.elapsed();
    let (mut cells, mut excluded) = (0_u64, 0_u64);
    for planned in matrix.cells() {
        cells += 1;
        excluded += u64::from(planned.excluded.is_some());
    }
    let expanded = started.elapsed();
    let plan = plan(&matrix, 1);
    let planned = started.elapsed();
    let trials = plan.iter().fold(0_u64, |count, _| count + 1);
    let ordered = started.elapsed();
    println!("cells {cells}, excluded {excluded}, trials {trials}, blocks {}", plan.blocks().len());
    println!(
        "parse {parsed:.2?}, expand {:.2?}, plan {:.2?}, order {:.2?}, total {ordered:.2?}",
        expanded - parsed,
        planned - expanded,
        ordered - planned,
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown"));
    ExitCode::SUCCESS
}
