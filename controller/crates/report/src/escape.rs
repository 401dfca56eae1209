//! Makes text from matrices, hosts and outputs harmless where it is shown: terminals, Markdown, spreadsheets, XML.
//!
//! An output tail can hold anything a program under test wrote: terminal sequences that rename the window, text that
//! runs backwards, HTML, formulas. Every writer of this crate passes such text through here.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
};

/// One line of printable text: control characters, line ends, direction marks and other characters that a terminal
/// obeys instead of showing become `\n`, `\t` or `\u{1b}`.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if is_harmless(text) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) { safe.extend(c.escape_default()) } else { safe.push(c) }
    }
    Cow::Owned(safe)
}

/// The same, at most `width` characters, the cut shown as `...`.
pub(crate) fn printable_within(text: &str, width: usize) -> String {
    let safe = printable(text);
    match safe.char_indices().nth(width) {
        None => safe.into_owned(),
        Some(_) => {
            let kept: String = safe.chars().take(width.saturating_sub(3)).collect();
            kept + "..."
        }
    }
}

/// Text for a GitHub Markdown paragraph or table cell: nothing in it formats, links, or ends the cell.
pub(crate) fn markdown(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 16);
    for c in printable(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' => {
                safe.push('\\');
                safe.push(c);
            }
            _ => safe.push(c),
        }
    }
    safe
}

/// Evidence within a Markdown line, as code: GitHub makes no links and calls no users in it.
pub(crate) fn markdown_code(text: &str) -> String {
    format!("<code>{}</code>", markdown(text))
}

/// A field of a CSV file that a spreadsheet takes as text. What it would take for a formula, and what already begins
/// with an apostrophe, gets an apostrophe in front; so one leading apostrophe is always ours. Numbers and a mark of
/// dashes only stay as they are.
pub(crate) fn csv_field(text: &str) -> Cow<'_, str> {
    let safe = printable(text);
    let risky = safe.starts_with(['=', '+', '-', '@', '\'']);
    if risky && safe.parse::<f64>().is_err() && safe.chars().any(|c| c != '-') {
        return Cow::Owned(format!("'{safe}"));
    }
    safe
}

/// Text for an XML document, without what XML 1.0 cannot hold even as a reference. Line ends and tabs stay.
pub(crate) fn xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => safe.push(c),
            '\u{fffe}' | '\u{ffff}' => safe.extend(c.escape_default()),
            _ if is_unsafe(c) => safe.extend(c.escape_default()),
            _ => safe.push(c),
        }
    }
    safe
}

/// Characters that act instead of showing: controls (C0, DEL, C1), line and paragraph separators, direction marks and
/// overrides, the byte order mark.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Whether text has none of these characters; quick for plain ASCII, which almost all text is.
fn is_harmless(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b' '..=b'~')) || !text.chars().any(is_unsafe)
}

/// JSON as `serde_json` writes it, with the characters of [`is_unsafe`] as `\u` escapes too, so that a report printed
/// to a terminal is as harmless as the table, and still holds every character.
#[derive(Default)]
pub(crate) struct SafeJson;

impl serde_json::ser::Formatter for SafeJson {
    fn write_string_fragment<W: std::io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> std::io::Result<()> {
        if is_harmless(fragment) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut safe = String::with_capacity(fragment.len() + 16);
        for c in fragment.chars() {
            if is_unsafe(c) {
                utf16_escape(&mut safe, c).map_err(std::io::Error::other)?;
            } else {
                safe.push(c);
            }
        }
        writer.write_all(safe.as_bytes())
    }
}

fn utf16_escape(out: &mut String, c: char) -> fmt::Result {
    c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn expect_visible_escapes_when_text_holds_terminal_sequences() {
        assert_eq!(
            printable("a\u{1b}]0;x\u{7}b\r\n\u{9b}2J\u{202e}"),
            "a\\u{1b}]0;x\\u{7}b\\r\\n\\u{9b}2J\\u{202e}"
        );
        assert_eq!(printable("größe 大"), "größe 大");
        assert_eq!(printable_within("abcdefgh", 6), "abc...");
        assert_eq!(printable_within("abcdef", 6), "abcdef");
    }

    #[test]
    fn expect_inert_markdown_when_text_holds_markup() {
        assert_eq!(
            markdown("a|b <img src=x> **b** [l](u)"),
            "a\\|b &lt;img src=x&gt; \\*\\*b\\*\\* \\[l\\](u)"
        );
    }

    #[test]
    fn expect_an_apostrophe_when_a_field_looks_like_a_formula() {
        let fields = ["=1+1", "+cmd|x", "@SUM(1)", "-O2", "'x", "-5", "+5", "---", "6.10", ""];
        let safe = ["'=1+1", "'+cmd|x", "'@SUM(1)", "'-O2", "''x", "-5", "+5", "---", "6.10", ""];
        assert_eq!(fields.map(|field| csv_field(field).into_owned()), safe);
    }

    proptest! {
        #[test]
        fn nothing_unsafe_survives(text in any::<String>()) {
            prop_assert!(!printable(&text).chars().any(is_unsafe));
            prop_assert!(!markdown(&text).chars().any(is_unsafe));
            prop_assert!(!csv_field(&text).chars().any(is_unsafe));
            prop_assert!(!markdown(&text).contains(['<', '>']));
            let legal = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'));
            prop_assert!(xml(&text).chars().all(legal));
        }

        #[test]
        fn json_strings_come_back_as_they_were(text in any::<String>()) {
            let mut out = Vec::new();
            let mut serializer = serde_json::Serializer::with_formatter(&mut out, SafeJson);
            serde::Serialize::serialize(&text, &mut serializer).unwrap();
            let json = String::from_utf8(out).unwrap();
            prop_assert!(!json.chars().any(is_unsafe));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }
}
