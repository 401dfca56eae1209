//! The file of a guest's serial console.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// The file to which QEMU writes what the guest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Console {
    path: PathBuf,
}

impl Console {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size, in bytes; 0 if there is none.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.path.metadata().map_or(0, |metadata| metadata.len())
    }

    /// The last lines, of at most `limit` bytes; empty if there are none, or they cannot be read. Escape sequences and
    /// other control characters are left out, because it is shown on terminals.
    #[must_use]
    pub fn tail(&self, limit: u64) -> String {
        tail(&self.path, limit).unwrap_or_default()
    }
}

/// The last lines of a file, of at most `limit` bytes.
pub(super) fn tail(path: &Path, limit: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let cut = size > limit;
    file.seek(SeekFrom::Start(size.saturating_sub(limit)))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let text = match text.split_once('\n') {
        Some((_, rest)) if cut => rest,
        _ => text.as_ref(),
    };
    Ok(printable(text))
}

/// Without escape sequences (`ESC [ ... letter`, `ESC x`) and control characters but for line breaks and tabs.
fn printable(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                if chars.next() == Some('[') {
                    let _ = chars.find(char::is_ascii_alphabetic);
                }
            }
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::Console;

    #[test]
    fn expect_whole_lines_of_the_end_when_the_console_is_long() {
        let dir = tempfile::tempdir().unwrap();
        let console = Console::new(dir.path().join("console"));
        assert_eq!((console.size(), console.tail(100)), (0, String::new()));
        std::fs::write(console.path(), "first line\r\nsecond\r\n\u{1b}[1;31mthird\u{1b}[0m\u{7}\r\n")
            .unwrap();
        assert_eq!(console.tail(1000), "first line\nsecond\nthird\n");
        assert_eq!(console.tail(25), "third\n");
    }
}
