//! Measures how long the summary of 30,000 points of 20 metrics takes, and how much memory.
//!
//! `cargo run --release -p drover-report --example soak_30k`

use std::{error::Error, fs, time::Duration, time::Instant};

use drover_model::Name;
use drover_report::{
    drift::Nature,
    soak::{SeriesMetric, SoakSetup, summarise},
};
use drover_store::{MarkKind, ResultsDir, SeriesReader, SeriesWriter};

fn main() -> Result<(), Box<dyn Error>> {
    let root = std::env::temp_dir().join(format!("drover-soak-{}", std::process::id()));
    let dir = ResultsDir::create(&root)?;
    let attempt = "00000000-0000-0000-0000-000000000001.c0r1a1".parse()?;
    let names: Vec<Name> = (0..20).map(|n| format!("metric_{n}").parse()).collect::<Result<_, _>>()?;
    let begun: u64 = 1_732_984_200_000_000;
    let started = Instant::now();
    let mut writer = SeriesWriter::append(&dir, &attempt)?;
    writer.mark(begun, MarkKind::Begun, "")?;
    for n in 1..=30_000_u32 {
        for (seed, metric) in (1_u32..).zip(&names) {
            let noise =
                f64::from(n.wrapping_mul(seed).wrapping_mul(2_654_435_761) >> 8) / f64::from(1_u32 << 24);
            writer.point(begun + u64::from(n) * 1_000_000, u64::from(n), metric, 1000.0 + noise)?;
        }
    }
    writer.flush()?;
    drop(writer);
    println!("written in {:.0?}", started.elapsed());

    let metric = |name: &Name| SeriesMetric {
        name: name.clone(),
        unit: "1/s".to_owned(),
        nature: Nature::Throughput,
        primary: false,
    };
    let metrics: Vec<SeriesMetric> = names.iter().map(metric).collect();
    let setup = SoakSetup {
        started_unix_us: begun,
        ended_unix_us: None,
        planned: Duration::from_secs(30_000),
        every: Duration::from_secs(1),
        warm_up: None,
        verdict: None,
        metrics: &metrics,
        sensors: &[],
    };
    let started = Instant::now();
    let reader = SeriesReader::open(&dir, &attempt)?.ok_or("no series")?;
    let summary = summarise(&reader, &setup)?;
    println!("{} rounds summed up in {:.0?}", summary.rounds, started.elapsed());
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("memory unknown"));
    fs::remove_dir_all(&root)?;
    Ok(())
}
