//! Looks for reasons to doubt in the samples of an attempt.

use std::{io, path::Path};

use drover_machine::sensors::{Context, Decoder, Sample, Schema, judge};
use drover_model::Doubt;

/// Most values of samples looked at together; 16 bytes each.
const MAX_VALUES: usize = 1 << 20;
/// Most and fewest samples looked at together.
const MAX_SAMPLES: usize = 1200;
const MIN_SAMPLES: usize = 16;

/// What the samples of an attempt say.
#[derive(Debug, Default)]
pub struct Judged {
    /// Reasons for doubt, by kind.
    pub doubts: Vec<Doubt>,
    /// Samples read.
    pub samples: u64,
}

/// Judges the samples in a file; none if there is no such file.
///
/// # Errors
/// When it cannot be read.
pub fn judge_file(path: &Path) -> io::Result<Judged> {
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Judged::default()),
        bytes => bytes?,
    };
    Ok(judge_bytes(&bytes))
}

fn judge_bytes(bytes: &[u8]) -> Judged {
    let mut judged = Judged::default();
    let mut window: Option<Window> = None;
    for block in Decoder::new(bytes) {
        // Another observer of the same attempt may have found the sources in another order.
        let follows = window.as_ref().is_some_and(|window| extends(&block.schema, &window.schema));
        if !follows {
            judged.close(window.take());
        }
        let window = window.get_or_insert_with(Window::default);
        window.schema = Schema::clone(&block.schema);
        for sample in block.samples {
            judged.samples = judged.samples.saturating_add(1);
            window.push(sample);
        }
    }
    judged.close(window);
    judged
}

impl Judged {
    fn close(&mut self, window: Option<Window>) {
        let Some(mut window) = window else { return };
        window.samples.extend(window.last.take());
        let mut doubts = judge(&window.schema, &window.samples, &Context::default());
        doubts.sort_by_key(|doubt| doubt.kind);
        self.doubts.append(&mut doubts);
    }
}

/// Whether samples of `earlier` can be read with `later`.
fn extends(later: &Schema, earlier: &Schema) -> bool {
    later.id() == earlier.id() || later.series().starts_with(earlier.series())
}

/// Samples of one observer: so few of them that hours fit into memory. What counters counted between the first and the last
/// one is exact even so.
#[derive(Debug)]
struct Window {
    schema: Schema,
    samples: Vec<Sample>,
    /// The newest one, if it is not among them.
    last: Option<Sample>,
    /// Of so many samples one is kept.
    stride: u64,
    seen: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self { schema: Schema::new(), samples: Vec::new(), last: None, stride: 1, seen: 0 }
    }
}

impl Window {
    fn push(&mut self, sample: Sample) {
        let max = (MAX_VALUES / self.schema.len().max(1)).clamp(MIN_SAMPLES, MAX_SAMPLES);
        if self.samples.len() >= max {
            let mut index = 0_u64;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride = self.stride.saturating_mul(2);
        }
        if self.seen.is_multiple_of(self.stride) {
            self.samples.push(sample);
            self.last = None;
        } else {
            self.last = Some(sample);
        }
        self.seen = self.seen.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use drover_machine::sensors::{Encoder, Series, SeriesKind, Value, ValueType};
    use drover_model::DoubtKind;

    use super::*;

    fn encoded(samples: u64, name: &str) -> Vec<u8> {
        let mut schema = Schema::new();
        let series = Series {
            name: name.to_owned(),
            unit: "1".to_owned(),
            kind: SeriesKind::Counter,
            values: ValueType::Unsigned,
        };
        let id = schema.add(series).unwrap();
        let mut encoder = Encoder::new(Encoder::PER_BLOCK).unwrap();
        let mut bytes = Vec::new();
        for number in 0..samples {
            let mut sample = Sample::new(number, 0);
            sample.set(id, Value::Unsigned(number * 3));
            encoder.push(&schema, &sample, &mut bytes).unwrap();
        }
        encoder.flush(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn expect_exact_counts_when_there_are_more_samples_than_are_kept() {
        for samples in [2, 1199, 1200, 1201, 10_000, 28_800] {
            let judged = judge_bytes(&encoded(samples, "netstat.TcpExt.ListenDrops"));
            assert_eq!(judged.samples, samples);
            let [doubt] = &judged.doubts[..] else { panic!("{judged:?}") };
            assert_eq!(doubt.kind, DoubtKind::ListenQueue);
            assert!(doubt.detail.starts_with(&format!("{} ", (samples - 1) * 3)), "{}", doubt.detail);
        }
    }

    #[test]
    fn expect_each_observer_judged_when_there_were_two() {
        let mut bytes = encoded(10, "netstat.TcpExt.ListenDrops");
        bytes.extend(encoded(10, "vmstat.oom_kill"));
        let kinds: Vec<_> = judge_bytes(&bytes).doubts.into_iter().map(|doubt| doubt.kind).collect();
        assert_eq!(kinds, [DoubtKind::ListenQueue, DoubtKind::OomKill]);
    }
}
