//! `drover show RUN TRIAL --sensors`: the kept samples of an attempt's hosts as CSV.

use std::{fmt::Write, fs, io::ErrorKind};

use drover_machine::sensors::{Block, Damage, Decoder, SeriesId, SeriesKind, Value};
use drover_report::csv_record;
use drover_store::{AttemptRecord, ResultsDir};

use crate::{Context, error::Failure, exit::ExitStatus};

/// Prints the samples of these attempts, of series whose names have `part` in them.
pub fn print_sensors(
    attempts: &[&AttemptRecord],
    part: &str,
    dir: &ResultsDir,
    context: &Context,
) -> Result<ExitStatus, Failure> {
    let mut found = false;
    let mut reader_is_there =
        context.screen.out("attempt,host,at_unix_us,monotonic_ns,series,unit,kind,value\n").is_ok();
    for attempt in attempts {
        for host in &attempt.hosts {
            let path = dir.sensors_path(&attempt.id, host);
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => {
                    let text = format!("{} cannot be read: {error}", path.display());
                    return Err(Failure::new(ExitStatus::Infrastructure, text));
                }
            };
            found = true;
            let start = format!("{}a{},{host}", attempt.id.trial, attempt.id.number);
            let mut decoder = Decoder::new(&bytes);
            for block in decoder.by_ref() {
                reader_is_there = reader_is_there && context.screen.out(&lines(&start, &block, part)).is_ok();
                if !reader_is_there {
                    return Ok(ExitStatus::Ok);
                }
            }
            if let Some(text) = damage(decoder.damage()) {
                context.screen.complain(&format!("{}: {text}", path.display()));
            }
        }
    }
    if found {
        return Ok(ExitStatus::Ok);
    }
    let text = "no samples are kept: the trial was shorter than a second, or its matrix has `observe: off`";
    Err(Failure::new(ExitStatus::Usage, text))
}

fn lines(start: &str, block: &Block, part: &str) -> String {
    let series = block.schema.series().iter().filter(|series| series.name.contains(part));
    let wanted: Vec<(SeriesId, String)> = series
        .filter_map(|series| {
            let kind = match series.kind {
                SeriesKind::Counter => "counter",
                SeriesKind::Gauge => "gauge",
            };
            Some((block.schema.find(&series.name)?, csv_record([&*series.name, &*series.unit, kind])))
        })
        .collect();
    let mut text = String::new();
    for sample in &block.samples {
        let (at, monotonic) = (sample.unix_us, sample.monotonic_ns);
        for (id, of) in &wanted {
            // Writing to a string does not fail.
            let _ = match sample.get(*id) {
                Some(Value::Unsigned(value)) => writeln!(text, "{start},{at},{monotonic},{of},{value}"),
                Some(Value::Signed(value)) => writeln!(text, "{start},{at},{monotonic},{of},{value}"),
                Some(Value::Float(value)) => writeln!(text, "{start},{at},{monotonic},{of},{value}"),
                None => Ok(()),
            };
        }
    }
    text
}

/// What of a file could not be read.
fn damage(damage: Damage) -> Option<String> {
    let Damage { places, bytes, tail, other_versions, unreadable } = damage;
    let mut parts = Vec::new();
    if bytes > 0 {
        parts.push(format!("{bytes} bytes at {places} places are damaged"));
    }
    if tail > 0 {
        parts.push(format!("{tail} bytes at the end are no whole block"));
    }
    if other_versions > 0 {
        parts.push(format!("{other_versions} blocks are of another version of drover"));
    }
    if unreadable > 0 {
        parts.push(format!("{unreadable} blocks cannot be read"));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}
