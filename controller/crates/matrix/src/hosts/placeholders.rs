//! `{{ name }}` in commands of the host file: a few names with plain values, nothing that is computed.

use std::ops::Range;

use crate::{decode::fields::Problems, template::Template};

/// Puts values where the text asks for them. Gives the place of what has no value, if anything has none.
pub(super) fn render(text: &str, values: &[(&str, &str)]) -> Result<String, Range<usize>> {
    let mut rendered = String::new();
    let mut at = 0;
    while let Some(begin) = text[at..].find("{{").map(|begin| at + begin) {
        rendered.push_str(&text[at..begin]);
        let Some(end) = text[begin..].find("}}").map(|end| begin + end + 2) else {
            return Err(begin..text.len());
        };
        let name = text[begin + 2..end - 2].trim();
        match values.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => rendered.push_str(value),
            None => return Err(begin..end),
        }
        at = end;
    }
    rendered.push_str(&text[at..]);
    Ok(rendered)
}

/// The same for an argument of the file; `help` says what has a value.
pub(super) fn argument(
    template: &Template,
    values: &[(&str, &str)],
    help: &str,
    problems: &mut Problems,
) -> Option<String> {
    let rendered = render(template.as_str(), values);
    rendered
        .map_err(|within| {
            let message = format!("`{}` has no value here", &template.as_str()[within.clone()]);
            problems.add_within(template.scalar(), within, message, help);
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_values_where_a_text_asks_for_them() {
        let render = |text| render(text, &[("host", "a"), ("address", "10.0.0.1")]);
        assert_eq!(render("-H{{host}}.{{ address }}:{{ host }}"), Ok("-Ha.10.0.0.1:a".to_owned()));
        assert_eq!(render("plain"), Ok("plain".to_owned()));
        assert_eq!(render("a{{ port }}b"), Err(1..11));
        assert_eq!(render("a{{ host"), Err(1..8));
    }
}
