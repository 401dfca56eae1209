//! The thread that observes for one attempt.

use std::{
    num::NonZeroUsize,
    path::Path,
    time::{Duration, Instant},
};

use drover_machine::sensors::{Encoder, Sample, SensorOptions, Sensors, TaskProcesses};
use drover_model::{AttemptId, HostEventKind};

use super::{
    file::Samples,
    kernel::{self, Kernel},
    observatory::Observation,
};
use crate::{agent::Agent, text::chain};

/// Longest time for which samples are in memory only.
const FLUSH: Duration = Duration::from_secs(10);

/// Observes until no task of the attempt is left.
pub(super) fn run(agent: &Agent, observation: &Observation) {
    let (attempt, interval) = (observation.attempt, observation.interval);
    let mut without = Vec::new();
    let path = agent.dir.paths.observed().join(attempt.to_string());
    let meter = Meter::open(&path, interval, &mut without);
    let next_record = kernel::next_record();
    let Some(kernel) = observation.take_over(agent, without) else { return };
    let mut observer = Observer { agent, attempt, meter, kernel };
    let mut next = Instant::now();
    observer.look();
    if let Some(after) = next_record {
        let first = observer.kernel.first_record().map_or(after, |first| first.min(after));
        agent.observatory.kernel_from(attempt, first);
    }
    loop {
        let idle = agent.registry().live_of(attempt).next().is_none();
        if idle {
            observer.finish();
            if agent.observatory.end_if_idle(agent, attempt) {
                return;
            }
        }
        // What was missed, because the machine stood still, is not made up for.
        next = (next + interval).max(Instant::now());
        observation.wait_until(next);
        next = next.min(Instant::now());
        observer.look();
    }
}

/// What is observed.
struct Observer<'a> {
    agent: &'a Agent,
    attempt: AttemptId,
    meter: Option<Meter>,
    kernel: Kernel,
}

impl Observer<'_> {
    fn look(&mut self) {
        if let Some(meter) = &mut self.meter {
            let tasks: Vec<(String, Vec<u32>)> = {
                let registry = self.agent.registry();
                let live = registry.live_of(self.attempt);
                live.map(|(id, live)| (format!("{}.{}", id.role, id.instance), live.processes())).collect()
            };
            if let Err(why) = meter.measure(&tasks) {
                self.meter = None;
                self.blind(why);
            }
        }
        self.kernel.look(self.agent, self.attempt, false);
    }

    fn finish(&mut self) {
        self.kernel.look(self.agent, self.attempt, true);
        if let Some(meter) = &mut self.meter
            && let Err(why) = meter.flush()
        {
            self.meter = None;
            self.blind(why);
        }
    }

    fn blind(&self, why: String) {
        tracing::warn!(attempt = %self.attempt, why, "is not observed any more");
        self.agent.record_host(self.attempt, HostEventKind::Blind { why });
    }
}

/// Sensors whose samples go to a file.
struct Meter {
    sensors: Sensors,
    encoder: Encoder,
    sample: Sample,
    samples: Samples,
    encoded: Vec<u8>,
    flushed: Instant,
}

impl Meter {
    fn open(path: &Path, interval: Duration, without: &mut Vec<String>) -> Option<Self> {
        let mut failed = |text: String| without.push(format!("sensors: {text}"));
        let sensors = Sensors::open(&SensorOptions::default()).map_err(|error| failed(chain(&error))).ok()?;
        let per_flush = FLUSH.as_millis() / interval.as_millis().max(1);
        let per_block = usize::try_from(per_flush).ok().and_then(NonZeroUsize::new);
        let per_block = per_block.unwrap_or(NonZeroUsize::MIN).min(Encoder::PER_BLOCK);
        let encoder = Encoder::new(per_block).map_err(|error| failed(chain(&error))).ok()?;
        let samples = Samples::open(path).map_err(|error| failed(chain(&error))).ok()?;
        without.extend(
            sensors.missing().iter().map(|(path, kind)| format!("sensors: {}: {kind}", path.display())),
        );
        let flushed = Instant::now();
        Some(Self { sensors, encoder, sample: Sample::default(), samples, encoded: Vec::new(), flushed })
    }

    fn measure(&mut self, tasks: &[(String, Vec<u32>)]) -> Result<(), String> {
        let tasks: Vec<_> = tasks.iter().map(|(name, pids)| TaskProcesses { name, pids }).collect();
        self.sensors.read(&tasks, &mut self.sample);
        let pushed = self.encoder.push(self.sensors.schema(), &self.sample, &mut self.encoded);
        pushed.map_err(|error| chain(&error))?;
        if self.flushed.elapsed() >= FLUSH { self.flush() } else { self.write() }
    }

    fn flush(&mut self) -> Result<(), String> {
        self.flushed = Instant::now();
        self.encoder.flush(&mut self.encoded).map_err(|error| chain(&error))?;
        self.write()
    }

    fn write(&mut self) -> Result<(), String> {
        if self.encoded.is_empty() {
            return Ok(());
        }
        let written = self.samples.append(&self.encoded).map_err(|error| chain(&error));
        self.encoded.clear();
        written
    }
}
