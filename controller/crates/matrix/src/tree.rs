//! A YAML document as a tree whose every node knows its place. Built in one pass over the parser's events, bounded in
//! size and depth. What YAML offers and a matrix does not need (anchors, aliases, tags, merge keys, several documents)
//! is refused here by name.

use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::{
    diagnostic::Diagnostic,
    scalar::{Scalar, Style},
    source::{FileKind, SourceText},
    syntax,
};

/// Deepest nesting of lists and mappings.
const MAX_DEPTH: usize = 16;
/// Most scalars, lists and mappings in one file.
const MAX_NODES: usize = 100_000;

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) span: Range<usize>,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Already reported; whoever meets it says nothing more.
    Broken,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Scalar,
    pub(crate) value: Node,
}

impl Node {
    /// What it is, for "expected ..., found ...".
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::Scalar(scalar) if scalar.is_nothing() => "nothing".to_owned(),
            Kind::Scalar(scalar) => {
                let mut text: String = scalar.text.chars().take(40).collect();
                if text.len() < scalar.text.len() {
                    text.push_str("...");
                }
                format!("`{}`", text.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'"))
            }
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a mapping".to_owned(),
            Kind::Broken => "something unreadable".to_owned(),
        }
    }
}

/// Builds the tree of the only document of a file. Mistakes that leave a usable tree are in the list beside it.
pub(crate) fn build(source: &SourceText) -> (Option<Node>, Vec<Diagnostic>) {
    let mut builder = Builder {
        source,
        offsets: char_offsets(source.text()),
        stack: Vec::new(),
        root: None,
        nodes: 0,
        refused: [const { None }; 2],
        problems: Vec::new(),
    };
    let complete = builder.run();
    builder.report_refused();
    let root = builder.root.take().filter(|_| complete);
    (root, builder.problems)
}

/// Byte offset of every character, `None` for ASCII text, where they are the same.
fn char_offsets(text: &str) -> Option<Vec<usize>> {
    let all = || text.char_indices().map(|(at, _)| at).chain(std::iter::once(text.len())).collect();
    (!text.is_ascii()).then(all)
}

/// A collection that is not closed yet.
struct Open {
    start: usize,
    broken: bool,
    items: Items,
}

enum Items {
    List(Vec<Node>),
    Map(Vec<Entry>, Option<Scalar>),
}

struct Builder<'a> {
    source: &'a SourceText,
    offsets: Option<Vec<usize>>,
    stack: Vec<Open>,
    root: Option<Node>,
    nodes: usize,
    /// The first anchor and the first alias, and how many more there are: a file full of them is one mistake.
    refused: [Option<(Range<usize>, usize)>; 2],
    problems: Vec<Diagnostic>,
}

impl Builder<'_> {
    /// Returns whether the whole file could be read.
    fn run(&mut self) -> bool {
        let mut documents = 0;
        // The parser borrows the text, which the source keeps alive.
        let source = self.source;
        for event in Parser::new_from_str(source.text()) {
            let (event, span) = match event {
                Ok(event) => event,
                Err(error) => {
                    let at = self.byte(error.marker().index());
                    let bracket = self.stack.iter().map(|open| open.start);
                    let bracket = bracket.rev().find(|at| {
                        self.source.text().get(*at..).is_some_and(|rest| rest.starts_with(['[', '{']))
                    });
                    self.problems.push(syntax::diagnose(self.source, at, bracket, error.info()));
                    return false;
                }
            };
            let span = self.bytes(span);
            match event {
                Event::DocumentStart(_) => {
                    documents += 1;
                    if documents > 1 {
                        let help = "a file holds one document: put the other one into a file of its own";
                        self.problem(span, "a second document begins here", help);
                        return true;
                    }
                }
                Event::Scalar(text, style, anchor, tag) => {
                    let at = self.refuse(anchor, tag.is_some(), &span);
                    let scalar = Scalar { text: text.into_owned(), style: style_of(style), span: at };
                    self.scalar(scalar);
                }
                Event::SequenceStart(anchor, tag) => {
                    let at = self.refuse(anchor, tag.is_some(), &span);
                    self.open(at, Items::List(Vec::new()));
                }
                Event::MappingStart(anchor, tag) => {
                    let at = self.refuse(anchor, tag.is_some(), &span);
                    self.open(at, Items::Map(Vec::new(), None));
                }
                Event::SequenceEnd | Event::MappingEnd => self.close(span.end),
                Event::Alias(_) => {
                    self.refuse_one(1, span.clone());
                    self.push(Node { kind: Kind::Broken, span });
                }
                Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            }
            if self.nodes > MAX_NODES || self.stack.len() > MAX_DEPTH || self.problems.len() > 100 {
                return self.overflow();
            }
        }
        true
    }

    /// Says which bound was hit.
    fn overflow(&mut self) -> bool {
        let at = self.stack.last().map_or(0, |open| open.start);
        if self.stack.len() > MAX_DEPTH {
            let message = format!("lists and mappings are nested more than {MAX_DEPTH} deep");
            let help = format!("no part of {} needs that: look for a bracket too many", self.kind().what);
            self.problem(at..at + 1, &message, &help);
        } else if self.nodes > MAX_NODES {
            let message = format!("the file holds more than {MAX_NODES} values");
            self.problem(at..at + 1, &message, self.kind().smaller);
        }
        false
    }

    fn kind(&self) -> &'static FileKind {
        self.source.kind()
    }

    fn problem(&mut self, span: Range<usize>, message: &str, help: &str) {
        self.problems.push(Diagnostic::new(self.source, span, message, help));
    }

    /// Reports an anchor or a tag in front of a node; returns the span of the node without it.
    fn refuse(&mut self, anchor: usize, tagged: bool, span: &Range<usize>) -> Range<usize> {
        let mut start = span.start;
        // An anchor or tag stands in front of its node on the same span.
        for _ in 0..(usize::from(anchor > 0) + usize::from(tagged)) {
            let rest = self.source.slice(start..span.end);
            let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let property = start..start + length.max(1);
            if rest.starts_with('!') {
                let help = "values keep their text as written, so no tag is needed: leave it out, or quote the value";
                let message = format!("a tag is not allowed in {}", self.kind().what);
                self.problem(property, &message, help);
            } else {
                self.refuse_one(0, property);
            }
            start += length + rest.get(length..).map_or(0, |r| r.len() - r.trim_start().len());
        }
        start.min(span.end)..span.end
    }

    fn refuse_one(&mut self, kind: usize, span: Range<usize>) {
        if let Some(slot) = self.refused.get_mut(kind) {
            slot.get_or_insert((span, 0)).1 += 1;
        }
    }

    fn report_refused(&mut self) {
        for (what, slot) in ["anchor", "alias"].into_iter().zip(std::mem::take(&mut self.refused)) {
            let Some((span, count)) = slot else { continue };
            let more = if count > 1 { format!("; the file has {count}") } else { String::new() };
            let file = self.kind().what;
            let message = format!("an {what} is not allowed in {file}{more}");
            self.problem(span, &message, &syntax::no_aliases(self.source));
        }
    }

    fn open(&mut self, span: Range<usize>, items: Items) {
        self.nodes += 1;
        self.stack.push(Open { start: span.start, broken: false, items });
    }

    fn close(&mut self, end: usize) {
        let Some(open) = self.stack.pop() else { return };
        let written = self.source.slice(open.start..end.max(open.start));
        let span = open.start..open.start + written.trim_end().len();
        let kind = match open.items {
            _ if open.broken => Kind::Broken,
            Items::List(items) => Kind::List(items),
            Items::Map(entries, _) => Kind::Map(entries),
        };
        self.push(Node { kind, span });
    }

    /// A scalar is a key or a value, by its place.
    fn scalar(&mut self, scalar: Scalar) {
        self.nodes += 1;
        if scalar.text.contains('\0') {
            let help = "no command, variable or file name can hold it: leave it out";
            self.problem(scalar.span.clone(), "the text contains a NUL character", help);
        }
        let key = match self.stack.last_mut() {
            Some(Open { items: Items::Map(entries, key), .. }) if key.is_none() => (entries, key),
            _ => {
                let span = scalar.span.clone();
                return self.push(Node { kind: Kind::Scalar(scalar), span });
            }
        };
        let first = key.0.iter().find(|entry| entry.key.text == scalar.text);
        let message = match first {
            Some(first) => {
                let line = self.source.location(first.key.span.start).line;
                let text =
                    format!("the key `{}` is here a second time; the first is in line {line}", scalar.text);
                Some((text, "keep one of them".to_owned()))
            }
            None if scalar.text == "<<" => {
                let message = format!("a merge key (`<<`) is not allowed in {}", self.source.kind().what);
                Some((message, syntax::no_aliases(self.source)))
            }
            None => None,
        };
        let span = scalar.span.clone();
        *key.1 = Some(scalar);
        if let Some((message, help)) = message {
            self.problem(span, &message, &help);
        }
    }

    /// Puts a finished node where it belongs.
    fn push(&mut self, node: Node) {
        let Some(open) = self.stack.last_mut() else {
            self.root.get_or_insert(node);
            return;
        };
        match &mut open.items {
            Items::List(items) => items.push(node),
            Items::Map(entries, key) => match key.take() {
                // A duplicate and a merge key are reported already; the first one counts.
                Some(key) if key.text == "<<" || entries.iter().any(|entry| entry.key.text == key.text) => {}
                Some(key) => entries.push(Entry { key, value: node }),
                None => {
                    open.broken = true;
                    *key = Some(Scalar { text: String::new(), style: Style::Plain, span: node.span.clone() });
                    // The mapping that `{{` opens is broken too, but it is one mistake.
                    if !matches!(node.kind, Kind::Broken) {
                        let start = open.start;
                        let (message, help) = syntax::complex_key(self.source.slice(start..node.span.end));
                        self.problem(start..node.span.end, message, help);
                    }
                }
            },
        }
    }

    fn byte(&self, index: usize) -> usize {
        let text = self.source.text();
        match &self.offsets {
            None => index.min(text.len()),
            Some(offsets) => offsets.get(index).copied().unwrap_or(text.len()),
        }
    }

    fn bytes(&self, span: Span) -> Range<usize> {
        let start = self.byte(span.start.index());
        start..self.byte(span.end.index()).max(start)
    }
}

fn style_of(style: ScalarStyle) -> Style {
    match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::SingleQuoted => Style::Single,
        ScalarStyle::DoubleQuoted => Style::Double,
        ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_yaml::Value;

    use super::*;

    /// The tree of a text without mistakes.
    fn tree(text: &str) -> Node {
        let source = SourceText::new("x", text);
        let (node, problems) = build(&source);
        assert!(problems.is_empty(), "{text}\n{problems:?}");
        node.unwrap()
    }

    /// Whether an independent reader found the same structure and the same texts.
    fn agrees(node: &Node, value: &Value) -> bool {
        match (&node.kind, value) {
            (Kind::List(items), Value::Sequence(values)) => {
                items.len() == values.len()
                    && items.iter().zip(values).all(|(item, value)| agrees(item, value))
            }
            (Kind::Map(entries), Value::Mapping(pairs)) => {
                entries.len() == pairs.len()
                    && entries.iter().zip(pairs).all(|(entry, (key, value))| {
                        key.as_str() == Some(&entry.key.text) && agrees(&entry.value, value)
                    })
            }
            (Kind::Scalar(scalar), Value::String(text)) => scalar.text == *text,
            (Kind::Scalar(scalar), Value::Number(number)) => scalar.text == number.to_string(),
            (Kind::Scalar(scalar), Value::Bool(flag)) => scalar.text == flag.to_string(),
            (Kind::Scalar(scalar), Value::Null) => matches!(scalar.text.as_str(), "" | "~" | "null"),
            _ => false,
        }
    }

    /// Documents of texts, lists and mappings; the root is a mapping.
    fn document() -> impl Strategy<Value = Value> {
        let text = "[ -~\\näß☃]{0,12}";
        let key = "[a-zA-Z0-9_ :#.-]{1,8}";
        let mapping = move |inner: BoxedStrategy<Value>| {
            proptest::collection::btree_map(key, inner, 0..5)
                .prop_map(|map| Value::Mapping(map.into_iter().map(|(k, v)| (Value::String(k), v)).collect()))
        };
        let leaf = text.prop_map(Value::String).boxed();
        let node = leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::Sequence),
                mapping(inner.boxed()),
            ]
        });
        mapping(node.boxed())
    }

    proptest! {
        #[test]
        fn an_independent_reader_and_writer_agrees(value in document()) {
            let text = serde_yaml::to_string(&value).unwrap();
            prop_assert!(agrees(&tree(&text), &value), "{}", text);
        }
    }

    #[test]
    fn expect_an_independent_reader_to_agree_on_every_matrix() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../matrices");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                let text = std::fs::read_to_string(&path).unwrap();
                let value: Value = serde_yaml::from_str(&text).unwrap();
                assert!(agrees(&tree(&text), &value), "{}", path.display());
            }
        }
    }

    #[test]
    fn expect_spans_that_cover_exactly_what_is_written() {
        let text = "a: [x, 'y z']\nb:\n  c: plain text  # comment\n  d: |\n    block\ne: 1\n";
        let root = tree(text);
        let Kind::Map(entries) = &root.kind else { panic!("no mapping") };
        let written: Vec<&str> = entries.iter().map(|entry| &text[entry.value.span.clone()]).collect();
        assert_eq!(written, ["[x, 'y z']", "c: plain text  # comment\n  d: |\n    block", "1"]);
        let Kind::Map(inner) = &entries[1].value.kind else { panic!("no mapping") };
        assert_eq!(&text[inner[0].value.span.clone()], "plain text");
    }

    #[test]
    fn expect_a_bound_on_values() {
        let source = SourceText::new("x", "- a\n".repeat(MAX_NODES + 1));
        let (node, problems) = build(&source);
        assert!(node.is_none());
        assert_eq!(problems.len(), 1);
        assert!(problems[0].message().contains("more than 100000 values"), "{}", problems[0]);
    }
}
