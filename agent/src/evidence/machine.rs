//! The machine as a whole: load, memory, pressure.

use super::Bundle;

/// Files that are shown as they are.
const FILES: [&str; 6] = [
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/meminfo",
    "/proc/pressure/cpu",
    "/proc/pressure/io",
    "/proc/pressure/memory",
];

pub(super) fn collect(bundle: &mut Bundle) {
    for path in FILES {
        match std::fs::read(path) {
            Ok(bytes) => bundle.section(path, &String::from_utf8_lossy(&bytes), 8 << 10, false),
            // Kernels without pressure figures have no such files, or refuse to read them.
            Err(_) if path.starts_with("/proc/pressure") => {}
            Err(error) => bundle.missing(format!("{path}: {error}")),
        }
    }
}
