//! Finds the series of the keys of a file. Keys come in the same order in every reading, so that one comparison each is
//! enough; where they do not, all known ones are looked through.

/// The keys of a file, each with what it stands for.
#[derive(Debug)]
pub(crate) struct Layout<T> {
    known: Vec<(Box<[u8]>, T)>,
    next: usize,
}

impl<T> Default for Layout<T> {
    fn default() -> Self {
        Self { known: Vec::new(), next: 0 }
    }
}

impl<T: Copy> Layout<T> {
    /// Begins with the first key again.
    pub(crate) fn rewind(&mut self) {
        self.next = 0;
    }

    /// What a key stands for; `make` says it when the key is seen for the first time.
    pub(crate) fn find(&mut self, key: &[u8], make: impl FnOnce(&str) -> T) -> T {
        let expected = self.known.get(self.next).filter(|(known, _)| &**known == key);
        if let Some((_, what)) = expected {
            self.next += 1;
            return *what;
        }
        if let Some((at, (_, what))) = self.known.iter().enumerate().find(|(_, (known, _))| &**known == key) {
            self.next = at + 1;
            return *what;
        }
        let what = make(&String::from_utf8_lossy(key));
        self.known.push((key.into(), what));
        self.next = self.known.len();
        what
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_each_key_to_be_made_once_when_order_changes() {
        let mut layout = Layout::default();
        let mut made = 0;
        for keys in [&["a", "b", "c"][..], &["a", "b", "c"], &["c", "x", "a"], &["b", "c", "x"]] {
            layout.rewind();
            for key in keys {
                let what = layout.find(key.as_bytes(), |key| {
                    made += 1;
                    key.bytes().next()
                });
                assert_eq!(what, key.bytes().next());
            }
        }
        assert_eq!(made, 4);
    }
}
