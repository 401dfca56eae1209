//! Memory and open files of the roles of a soak, from the samples of their hosts: what leaks shows there.

use std::{collections::BTreeMap, fs, io, path::Path, time::Duration};

use drover_machine::sensors::Decoder;
use drover_matrix::{Load, Matrix};
use drover_model::Name;
use drover_report::{
    drift::Nature,
    soak::{BlockMedians, SensorSeries},
};

/// What is looked at: how its series ends in the samples, what it is called, and its unit.
const FIGURES: [(&str, &str, &str); 2] = [("rss_bytes", "rss", "bytes"), ("fds", "fds", "1")];

/// The series of those roles that live for the whole soak, in the order of their names. `at` names the host where there are
/// several.
pub fn series(path: &Path, at: Option<&Name>, matrix: &Matrix) -> io::Result<Vec<SensorSeries>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let wanted = wanted(matrix);
    // Once to count, once to read: a night of samples is not held in memory.
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    each(&bytes, &wanted, |name, _, _| *counts.entry(name).or_default() += 1);
    let mut blocks: BTreeMap<&str, BlockMedians> =
        counts.into_iter().map(|(name, count)| (name, BlockMedians::new(count))).collect();
    each(&bytes, &wanted, |name, at, value| {
        if let Some(blocks) = blocks.get_mut(name) {
            blocks.push(at, value);
        }
    });
    let finished = blocks.into_iter().filter_map(|(name, blocks)| {
        let (shown, unit) = wanted.get(name)?;
        let at = at.map_or_else(String::new, |host| format!(" on {host}"));
        Some(SensorSeries {
            name: format!("{shown}{at}"),
            unit: (*unit).to_owned(),
            nature: Nature::Resource,
            points: blocks.finish().into_iter().map(|(at, value)| (micros(at), value)).collect(),
        })
    });
    Ok(finished.collect())
}

/// Series of the samples by their names, with what they are called and their units.
fn wanted(matrix: &Matrix) -> BTreeMap<String, (String, &'static str)> {
    let lasting = matrix
        .roles()
        .iter()
        .filter(|role| role.is_service() || (role.is_load() && role.load == Load::Stream));
    let tasks = lasting.flat_map(|role| {
        let several = role.tasks() > 1;
        (0..role.tasks()).map(move |instance| {
            let task = format!("{}.{instance}", role.name);
            let shown = if several { task.clone() } else { role.name.to_string() };
            (task, shown)
        })
    });
    let figures = tasks.flat_map(|(task, shown)| {
        FIGURES.map(|(end, word, unit)| (format!("task.{task}.{end}"), (format!("{shown} {word}"), unit)))
    });
    figures.collect()
}

/// Hands on each value of the series: time in seconds since the Unix epoch, and value.
fn each<'a>(
    bytes: &[u8],
    wanted: &'a BTreeMap<String, (String, &'static str)>,
    mut found: impl FnMut(&'a str, f64, f64),
) {
    for block in Decoder::new(bytes) {
        let known = wanted.keys().filter_map(|name| Some((name.as_str(), block.schema.find(name)?)));
        let known: Vec<_> = known.collect();
        for sample in &block.samples {
            let Ok(at) = u64::try_from(sample.unix_us) else { continue };
            for (name, id) in &known {
                if let Some(value) = sample.get(*id) {
                    found(name, Duration::from_micros(at).as_secs_f64(), value.as_f64());
                }
            }
        }
    }
}

/// Microseconds since the Unix epoch, of seconds.
fn micros(seconds: f64) -> u64 {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
