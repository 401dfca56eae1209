//! What sensors cost on this machine: CPU time of a reading, and bytes of a sample, for several numbers of processes.
//!
//! `cargo run --release --example sensor_cost`. Watches processes that it starts (`sleep`) and ends.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "an example ends where a step fails")]

use std::{
    error::Error,
    fs,
    process::{Child, Command},
};

use drover_machine::sensors::{Encoder, INTERVAL, Sample, SensorOptions, Sensors, TaskProcesses};

const SAMPLES: u32 = 600;

fn main() -> Result<(), Box<dyn Error>> {
    println!("processes  series  CPU time per sample  of one CPU at 1 Hz  with encoding  bytes per sample");
    for count in [1, 10, 200] {
        let mut children: Vec<Child> =
            (0..count).map(|_| Command::new("sleep").arg("600").spawn()).collect::<Result<_, _>>()?;
        let pids: Vec<u32> = children.iter().map(Child::id).collect();
        let tasks = [TaskProcesses { name: "server", pids: &pids }];
        let mut sensors = Sensors::open(&SensorOptions::default())?;
        let mut sample = Sample::default();
        let mut samples = Vec::new();
        // The first reading makes the schema.
        sensors.read(&tasks, &mut sample);
        let start = cpu_seconds();
        for _ in 0..SAMPLES {
            sensors.read(&tasks, &mut sample);
        }
        let reading = (cpu_seconds() - start) / f64::from(SAMPLES);
        // Times as they would be, and counters that have moved as in a second of this machine.
        for n in 0..180_u64 {
            sensors.read(&tasks, &mut sample);
            sample.monotonic_ns += n * 1_000_000_000;
            sample.unix_us += i64::try_from(n * 1_000_000)?;
            samples.push(sample.clone());
        }
        let mut encoder = Encoder::new(Encoder::PER_BLOCK)?;
        let mut bytes = Vec::new();
        let start = cpu_seconds();
        for sample in &samples {
            encoder.push(sensors.schema(), sample, &mut bytes)?;
        }
        encoder.flush(&mut bytes)?;
        let stored = f64::from(u32::try_from(samples.len())?);
        let encoding = (cpu_seconds() - start) / stored;
        println!(
            "{count:>9}  {:>6}  {:>16.0} us  {:>15.3} %  {:>10.3} %  {:>15.1}",
            sensors.schema().len(),
            reading * 1e6,
            reading / INTERVAL.as_secs_f64() * 100.0,
            (reading + encoding) / INTERVAL.as_secs_f64() * 100.0,
            f64::from(u32::try_from(bytes.len())?) / stored,
        );
        for child in &mut children {
            child.kill()?;
            child.wait()?;
        }
    }
    real_seconds(200)
}

/// A minute as it is in use: caches are cold at each reading, and counters move.
fn real_seconds(count: usize) -> Result<(), Box<dyn Error>> {
    let mut children: Vec<Child> =
        (0..count).map(|_| Command::new("sleep").arg("600").spawn()).collect::<Result<_, _>>()?;
    let pids: Vec<u32> = children.iter().map(Child::id).collect();
    let tasks = [TaskProcesses { name: "server", pids: &pids }];
    let mut sensors = Sensors::open(&SensorOptions::default())?;
    let mut encoder = Encoder::new(Encoder::PER_BLOCK)?;
    let (mut sample, mut bytes) = (Sample::default(), Vec::new());
    sensors.read(&tasks, &mut sample);
    let start = cpu_seconds();
    for _ in 0..60 {
        std::thread::sleep(INTERVAL);
        sensors.read(&tasks, &mut sample);
        encoder.push(sensors.schema(), &sample, &mut bytes)?;
    }
    encoder.flush(&mut bytes)?;
    let cpu = cpu_seconds() - start;
    println!(
        "a real minute with {count} processes: {:.3} % of one CPU, {} bytes in all, schema included; missing: {:?}",
        cpu / 60.0 * 100.0,
        bytes.len(),
        sensors.missing(),
    );
    for child in &mut children {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

/// User and system time of the only thread, from `schedstat`: nanoseconds, where getrusage counts ticks on many kernels.
fn cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/schedstat").expect("the kernel has schedstat");
    let nanoseconds: f64 = text.split_ascii_whitespace().next().unwrap().parse().unwrap();
    nanoseconds / 1e9
}
