//! How fast the classifier reads: an ordinary boot log over and over, and a log full of oopses.
//! `cargo run --release -p drover-machine --example console_speed [MiB]`

use std::{
    error::Error,
    time::{Duration, Instant},
};

use drover_machine::console::Classifier;

const BOOT: &[u8] = include_bytes!("../tests/testdata/boot.log");
const OOPS: &[u8] = include_bytes!("../tests/testdata/console/oops-null-6x.txt");
/// As much as one read of a console gives.
const CHUNK: usize = 64 * 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let mib: usize = std::env::args().nth(1).map_or(Ok(256), |text| text.parse())?;
    measure("an ordinary boot log", BOOT, mib << 20);
    measure("a log full of oopses", OOPS, mib << 20);
    Ok(())
}

fn measure(name: &str, text: &[u8], bytes: usize) {
    let log = text.repeat(bytes.div_ceil(text.len()).max(1));
    let mut classifier = Classifier::new();
    // The automaton is built at first use.
    classifier.push(b"\n", Duration::ZERO);
    let start = Instant::now();
    for chunk in log.chunks(CHUNK) {
        classifier.push(chunk, start.elapsed());
    }
    let elapsed = start.elapsed();
    classifier.finish(elapsed);
    let findings = classifier.findings();
    let reports = findings.iter().map(|finding| finding.count).sum::<u64>();
    let per_second =
        log.len().checked_div(usize::try_from(elapsed.as_micros()).unwrap_or(usize::MAX).max(1)).unwrap_or(0);
    println!("{name}: {per_second} MB/s, {} findings of {reports} reports in {elapsed:.2?}", findings.len());
}
