//! Clock frequency and throttling of each CPU, where the host exposes them.
//!
//! Reading a frequency interrupts the CPU on some machines, so these are read with the slow sources only.

use std::path::{Path, PathBuf};

use super::{
    file::SensorFile,
    schema::SeriesId,
    sink::Sink,
    text::{unsigned, words},
};
use crate::source::cpu_list;

const CPUS: &str = "sys/devices/system/cpu";

/// Files of each CPU: path below its directory, name of the series, unit; kHz is a gauge, the others are counters.
const FILES: [(&str, &str, &str); 3] = [
    ("cpufreq/scaling_cur_freq", "khz", "kHz"),
    ("thermal_throttle/core_throttle_count", "core_throttles", "1"),
    ("thermal_throttle/package_throttle_count", "package_throttles", "1"),
];

/// The open files of all CPUs.
#[derive(Debug)]
pub(crate) struct Frequencies {
    root: PathBuf,
    online: Option<SensorFile>,
    /// The CPUs that `files` are of, as the kernel writes them.
    list: Vec<u8>,
    files: Vec<(SensorFile, Option<SeriesId>)>,
}

impl Frequencies {
    /// Finds nothing yet: the first reading does.
    pub(crate) fn new(root: &Path) -> Self {
        let online = SensorFile::open(&root.join(CPUS).join("online")).ok();
        Self { root: root.to_owned(), online, list: Vec::new(), files: Vec::new() }
    }

    /// Reads all; CPUs that came or went are noticed first.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>, sink: &mut Sink<'_>) {
        let list = self.online.as_ref().and_then(|file| file.read(buffer).ok());
        if let Some(list) = list.filter(|list| *list != self.list) {
            self.list = list.to_owned();
            self.reopen(sink);
        }
        for (file, id) in &self.files {
            // A CPU that has just gone offline cannot be read.
            let text = file.read(buffer).unwrap_or_default();
            sink.put(*id, words(text).next().and_then(unsigned));
        }
    }

    fn reopen(&mut self, sink: &mut Sink<'_>) {
        self.files.clear();
        for cpu in cpu_list(&String::from_utf8_lossy(&self.list)) {
            for (path, name, unit) in FILES {
                let path = self.root.join(format!("{CPUS}/cpu{cpu}/{path}"));
                let Ok(file) = SensorFile::open(&path) else { continue };
                let name = format!("cpu.{cpu}.{name}");
                let id = if unit == "kHz" { sink.gauge(name, unit) } else { sink.counter(name, unit) };
                self.files.push((file, id));
            }
        }
    }
}
