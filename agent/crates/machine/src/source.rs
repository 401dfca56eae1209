//! Reads small files of `/proc` and `/sys` below a root, so that facts can be tested on recorded trees.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where `/proc` and `/sys` are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) root: &'a Path,
}

impl Source<'_> {
    /// A file without the blanks around it; `None` if it is not there, not readable, or empty. Bytes that are not UTF-8 (a kernel command
    /// line may have some) are replaced.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.root.join(path)).ok()?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// A file with one number.
    pub(crate) fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Names in a directory, sorted; empty if it is not there.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// CPUs in the kernel's list format, `0-3,8`; `none` for none, for messages.
pub(crate) fn list_of(cpus: impl IntoIterator<Item = u32>) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    if parts.is_empty() {
        return "none".to_owned();
    }
    let part = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

/// Numbers of a list in the kernel's format, `0-3,8`; what is not a number is left out.
pub(crate) fn cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse(), last.trim().parse::<u32>()) {
            // No kernel has more; a damaged file must not make us build a list of 4 billion.
            cpus.extend(first..=last.min(65_535));
        }
    }
    cpus
}
