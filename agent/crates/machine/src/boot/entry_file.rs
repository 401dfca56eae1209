//! Files that describe a boot entry each, `KEY VALUE` on a line (the UAPI group's Boot Loader Specification, type 1).

/// Such a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EntryFile {
    lines: Vec<(String, String)>,
}

impl EntryFile {
    /// Reads one; comments are left out.
    pub(super) fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let pair = |line: &str| {
            let (key, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            (key.to_owned(), value.trim().to_owned())
        };
        Self { lines: lines.map(pair).collect() }
    }

    /// The last value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.all(key).last()
    }

    /// All values of a key.
    pub(super) fn all<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        self.lines.iter().filter(move |(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Takes a key out.
    pub(super) fn remove(&mut self, key: &str) {
        self.lines.retain(|(known, _)| known != key);
    }

    /// Adds a line. Several lines of options are one command line together.
    pub(super) fn push(&mut self, key: &str, value: String) {
        self.lines.push((key.to_owned(), value));
    }

    /// The file's text.
    pub(super) fn text(&self) -> String {
        self.lines.iter().map(|(key, value)| format!("{key} {value}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_keys_and_values_when_a_file_is_read_and_written() {
        let mut file =
            EntryFile::parse("# made by x\ntitle\tA B\n\nlinux  /a\noptions ro\noptions quiet\nsort-key a\n");
        assert_eq!(file.get("title"), Some("A B"));
        assert_eq!(file.all("options").collect::<Vec<_>>(), ["ro", "quiet"]);
        file.remove("sort-key");
        file.push("options", "x=1".to_owned());
        assert_eq!(file.text(), "title A B\nlinux /a\noptions ro\noptions quiet\noptions x=1\n");
    }
}
