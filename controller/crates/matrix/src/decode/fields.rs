//! Mappings with a fixed set of keys, and the list that all decoders report to.

use std::ops::Range;

use crate::{
    diagnostic::Diagnostic,
    scalar::Scalar,
    source::SourceText,
    suggest,
    tree::{Entry, Kind, Node},
};

/// Mistakes found so far in one source.
pub(crate) struct Problems {
    source: SourceText,
    list: Vec<Diagnostic>,
}

impl Problems {
    pub(crate) fn new(source: SourceText) -> Self {
        Self { source, list: Vec::new() }
    }

    /// Reports a mistake at a place in the source.
    pub(crate) fn add(&mut self, span: Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.list.push(Diagnostic::new(&self.source, span, message, help));
    }

    /// Reports a mistake inside a scalar's value.
    pub(crate) fn add_within(
        &mut self,
        scalar: &Scalar,
        within: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let span = scalar.locate(&self.source, within);
        self.add(span, message, help);
    }

    /// Reports that something of another kind was expected.
    pub(crate) fn expected(&mut self, node: &Node, what: &str, expected: &str, help: impl Into<String>) {
        if !matches!(node.kind, Kind::Broken) {
            self.add(
                node.span.clone(),
                format!("{what} must be {expected}, found {}", node.describe()),
                help,
            );
        }
    }

    /// Line of an offset, for messages that point at a second place.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.source.location(offset).line
    }

    pub(crate) fn source(&self) -> &SourceText {
        &self.source
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are so far.
    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn extend(&mut self, more: Vec<Diagnostic>) {
        self.list.extend(more);
    }

    pub(crate) fn into_list(self) -> Vec<Diagnostic> {
        self.list
    }
}

/// A mapping whose keys are known beforehand.
pub(crate) struct Fields<'a> {
    entries: &'a [Entry],
    span: Range<usize>,
    /// What it describes, for messages: "role `server`".
    what: String,
    /// Known keys that unknown ones seem to be meant for.
    mistyped: Vec<String>,
}

impl<'a> Fields<'a> {
    /// Opens a mapping and reports its unknown keys; `None` if it is none.
    pub(crate) fn open(
        node: &'a Node,
        what: impl Into<String>,
        known: &[&str],
        problems: &mut Problems,
    ) -> Option<Self> {
        let what = what.into();
        let Kind::Map(entries) = &node.kind else {
            let help = format!("its keys are: {}", known.join(", "));
            problems.expected(node, &what, "a mapping (`key: value`)", help);
            return None;
        };
        let unknown: Vec<&Entry> =
            entries.iter().filter(|entry| !known.contains(&entry.key.text.as_str())).collect();
        for (count, entry) in unknown.iter().enumerate() {
            let key = &entry.key.text;
            let help = match suggest::closest(key, known.iter().copied()) {
                Some(close) if count > 0 => format!("did you mean `{close}`?"),
                None if count > 0 => format!("leave it out: {what} has the keys listed above"),
                _ => suggest::remedy(key, known.iter().copied(), "keys allowed here"),
            };
            problems.add(entry.key.span.clone(), format!("unknown key `{key}` in {what}"), help);
        }
        let meant =
            |entry: &&Entry| suggest::closest(&entry.key.text, known.iter().copied()).map(str::to_owned);
        let mistyped = unknown.iter().filter_map(meant).collect();
        Some(Self { entries, span: node.span.clone(), what, mistyped })
    }

    /// Whether a key is missing, and no unknown key is a misspelling of it, which is reported already.
    pub(crate) fn lacks(&self, key: &str) -> bool {
        self.entry(key).is_none() && !self.mistyped.iter().any(|meant| meant == key)
    }

    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// Where the mapping begins, as a place to report what it lacks: its first key.
    pub(crate) fn place(&self) -> Range<usize> {
        match self.entries.first() {
            Some(entry) => entry.key.span.clone(),
            None => self.span.clone(),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|entry| entry.key.text == key)
    }
}

/// The entries of a mapping with free keys (axes, roles, metrics, env, files); empty and reported if it is none.
pub(crate) fn entries<'a>(node: &'a Node, what: &str, example: &str, problems: &mut Problems) -> &'a [Entry] {
    match &node.kind {
        Kind::Map(entries) => entries,
        _ => {
            problems.expected(node, what, "a mapping", format!("for instance {example}"));
            &[]
        }
    }
}

/// The items of a list, or the single value that stands for a list of one.
pub(crate) fn one_or_many(node: &Node) -> &[Node] {
    match &node.kind {
        Kind::List(items) => items,
        _ => std::slice::from_ref(node),
    }
}
