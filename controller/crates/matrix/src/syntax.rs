//! YAML's own syntax errors in words that say what to do, and the checks on bytes that come before any parsing.

use crate::{
    diagnostic::Diagnostic,
    source::{FileKind, Source, SourceText},
};

/// Largest file, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// What to do about an anchor, an alias or a merge key.
pub(crate) fn no_aliases(source: &SourceText) -> String {
    format!("write the value out where it is needed: {} has no anchors and aliases", source.kind().what)
}

/// The text of a file: bounded, UTF-8, not empty.
pub(crate) fn decode_utf8(source: &Source, kind: &'static FileKind) -> Result<SourceText, Diagnostic> {
    if source.text.len() > MAX_BYTES {
        let head = SourceText::new(&*source.name, first_line(&source.text));
        let message = format!("the file has {} bytes, {MAX_BYTES} are allowed", source.text.len());
        let help = format!("is this {}? {}", kind.what, kind.smaller);
        return Err(Diagnostic::new(&head, 0..0, message, help));
    }
    let text = match std::str::from_utf8(&source.text) {
        Ok(text) => text,
        Err(error) => return Err(not_utf8(source, error.valid_up_to())),
    };
    // A byte order mark is not part of the text.
    Ok(SourceText::of_kind(&*source.name, text.strip_prefix('\u{feff}').unwrap_or(text), kind))
}

/// The first line of whatever bytes these are, for an excerpt.
fn first_line(bytes: &[u8]) -> String {
    let head = bytes.get(..200).unwrap_or(bytes);
    String::from_utf8_lossy(head).lines().next().unwrap_or("").to_owned()
}

fn not_utf8(source: &Source, at: usize) -> Diagnostic {
    let byte = source.text.get(at).copied().unwrap_or(0);
    // The good text before and a replacement for what follows, so that the excerpt shows the place.
    let text = String::from_utf8_lossy(&source.text).into_owned();
    let shown = SourceText::new(&*source.name, text);
    let message = format!("the file is not UTF-8: byte {at} is 0x{byte:02x}");
    let help = match source.text.get(..2) {
        Some([0xff, 0xfe] | [0xfe, 0xff]) => "it looks like UTF-16: save it as UTF-8".to_owned(),
        _ => format!("save the file as UTF-8, for instance `iconv -f latin1 -t utf-8 {}`", source.name),
    };
    Diagnostic::new(&shown, at..at + '\u{fffd}'.len_utf8(), message, help)
}

/// What YAML's parser complains about, with the remedy.
///
/// `bracket` is the innermost `[` or `{` that is open there.
pub(crate) fn diagnose(source: &SourceText, at: usize, bracket: Option<usize>, info: &str) -> Diagnostic {
    let text = source.text();
    let rest = text.get(at..).unwrap_or("");
    let line_start = text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
    let line = text.get(line_start..).and_then(|line| line.lines().next()).unwrap_or("");
    let tab = tab_near(text, line_start);
    let here = at..at + rest.chars().next().map_or(0, char::len_utf8);
    let report = |span, message: &str, help: &str| Diagnostic::new(source, span, message, help);
    if let Some(tab) = tab.filter(|_| info.contains("tab") || info.contains("expected")) {
        return report(
            tab..tab + 1,
            "a tab is used as indentation",
            "YAML is indented with spaces only: use two",
        );
    }
    if let Some(value) = block_mark(line) {
        let help = "quote it: to YAML, `>` and `|` begin a text of several lines, `!` begins a tag";
        let start = line_start + line.len() - value.len();
        return report(start..start + value.trim_end().len(), "this value must be quoted", help);
    }
    let elsewhere = ["quoted scalar", "escape", "anchor", "character"];
    if let Some(open) = bracket.filter(|_| !elsewhere.iter().any(|word| info.contains(word))) {
        let mark = text.get(open..=open).unwrap_or("[");
        let near = source.location(at).line;
        let help = format!(
            "close it with `{}`; line {near} does not fit into it",
            if mark == "[" { "]" } else { "}" }
        );
        return report(
            open..open + 1,
            &format!("the `{mark}` that begins here is not closed properly"),
            &help,
        );
    }
    match info {
        _ if info.contains("unknown anchor") => {
            let message = format!("an alias is not allowed in {}", source.kind().what);
            report(here, &message, &no_aliases(source))
        }
        _ if info.contains("unexpected character") || info.contains("cannot start any token") => {
            report(here, "a value cannot begin with this character", "quote the value: \"...\"")
        }
        _ if info.contains("escape") => {
            let help = "in \"...\" a backslash begins an escape: double it, or use '...', where it is just a backslash";
            report(quoted(rest, at), "the text has an escape that YAML does not know", help)
        }
        _ if info.contains("quoted scalar") => report(
            quoted(rest, at),
            "the quoted text that begins here does not end properly",
            "close the quote on the same line",
        ),
        _ if info.contains("mapping values are not allowed") || info.contains("placement of ':'") => {
            let help = "a text that contains `: ` must be quoted: \"...\"";
            report(here, "a `:` is not allowed here", help)
        }
        _ if info.contains("did not find expected") || info.contains("expect ':'") => {
            let word = line.trim_start();
            let start = line_start + line.len() - word.len();
            let help = "check the indentation against the lines above, and that keys are written `key: value` and \
                        items `- value`";
            report(start..start + word.trim_end().len(), "this line does not fit what comes before it", help)
        }
        _ if info.contains("block sequence entries") => {
            report(here, "a list item (`- `) is not allowed here", "begin the list on a line of its own")
        }
        _ if info.contains("bracket") || info.contains("flow") => {
            report(here, "a bracket is missing or one too many", "every `[` and `{` needs its `]` and `}`")
        }
        _ if info.contains("unprintable") => {
            report(here, "the file has a character that cannot be printed", "remove it")
        }
        _ => report(here, &format!("this is not YAML: {info}"), source.kind().example),
    }
}

/// A tab in the indentation of this line or of one of the two around it.
fn tab_near(text: &str, line_start: usize) -> Option<usize> {
    let before = text.get(..line_start.saturating_sub(1)).and_then(|t| t.rfind('\n')).map_or(0, |at| at + 1);
    let mut start = before;
    for line in text.get(before..)?.split_inclusive('\n').take(3) {
        let indentation = line.len() - line.trim_start_matches([' ', '\t']).len();
        if let Some(tab) = line.get(..indentation).and_then(|spaces| spaces.find('\t')) {
            return Some(start + tab);
        }
        start += line.len();
    }
    None
}

/// A value such as `>= 1` or `!= 0`, which YAML reads as something else.
fn block_mark(line: &str) -> Option<&str> {
    let value = line.split_once(": ").map(|(_, value)| value.trim_start())?;
    let mark = value.starts_with(['>', '|', '!']) && value.contains([' ', '=']);
    mark.then_some(value)
}

/// The rest of the line that a quote begins on.
fn quoted(rest: &str, at: usize) -> std::ops::Range<usize> {
    at..at + rest.lines().next().map_or(0, |line| line.trim_end().len())
}

/// A list or mapping as a key, which almost always is a template without quotes.
pub(crate) fn complex_key(written: &str) -> (&'static str, &'static str) {
    if written.trim_start().starts_with("{{") || written.contains("{{") {
        ("a template must be quoted: to YAML, `{` begins a mapping", "write \"{{ ... }}\"")
    } else {
        ("a list or a mapping cannot be a key", "keys are single words")
    }
}
