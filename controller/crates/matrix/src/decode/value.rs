//! Single values: text, names, numbers, booleans, choices.

use std::ops::RangeInclusive;

use drover_model::Name;

use super::fields::Problems;
use crate::{
    scalar::{Scalar, Style},
    suggest,
    tree::{Kind, Node},
};

/// A scalar with text; `what` names it in messages.
pub(crate) fn scalar<'a>(node: &'a Node, what: &str, problems: &mut Problems) -> Option<&'a Scalar> {
    match &node.kind {
        Kind::Scalar(scalar) if !scalar.is_nothing() => Some(scalar),
        Kind::Scalar(_) => {
            problems.expected(
                node,
                what,
                "text",
                "write a value behind the colon, or \"\" for an empty text",
            );
            None
        }
        _ => {
            problems.expected(
                node,
                what,
                "text",
                "write a single value here; quote it if it has special characters",
            );
            None
        }
    }
}

/// Text as written.
pub(crate) fn text(node: &Node, what: &str, problems: &mut Problems) -> Option<String> {
    scalar(node, what, problems).map(|scalar| scalar.text.clone())
}

/// Why a text cannot be a name, if it cannot.
fn name_problem(text: &str, in_expressions: bool) -> Option<String> {
    let hyphen = in_expressions && text.contains('-');
    match text.parse::<Name>() {
        Err(error) => Some(error.to_string()),
        Ok(_) if hyphen => {
            Some("a name used in expressions cannot have a `-`, which would be a minus".to_owned())
        }
        Ok(_) => None,
    }
}

/// A name. `in_expressions` forbids `-`, which an expression would read as minus.
pub(crate) fn name(
    scalar: &Scalar,
    what: &str,
    in_expressions: bool,
    problems: &mut Problems,
) -> Option<Name> {
    let Some(problem) = name_problem(&scalar.text, in_expressions) else {
        return scalar.text.parse().ok();
    };
    let keep = |c: char| c.is_ascii_alphanumeric() || c == '_' || (c == '-' && !in_expressions);
    let mut proposal: String =
        scalar.text.chars().map(|c| if keep(c) { c } else { '_' }).take(Name::MAX_LEN).collect();
    if proposal.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        proposal.insert(0, '_');
        proposal.truncate(Name::MAX_LEN);
    }
    let help = match name_problem(&proposal, in_expressions) {
        None if !scalar.text.is_empty() => format!("for instance `{proposal}`"),
        _ => "a letter or `_` first, then letters, digits and `_`".to_owned(),
    };
    problems.add(scalar.span.clone(), format!("`{}` cannot be {what}: {problem}", scalar.text), help);
    None
}

/// `true` or `false`.
pub(crate) fn boolean(node: &Node, what: &str, problems: &mut Problems) -> Option<bool> {
    match &node.kind {
        Kind::Scalar(scalar) if scalar.style == Style::Plain && scalar.text == "true" => Some(true),
        Kind::Scalar(scalar) if scalar.style == Style::Plain && scalar.text == "false" => Some(false),
        _ => {
            problems.expected(node, what, "`true` or `false`", "write true or false, without quotes");
            None
        }
    }
}

/// A whole number in a range.
pub(crate) fn integer(
    node: &Node,
    what: &str,
    range: RangeInclusive<u64>,
    problems: &mut Problems,
) -> Option<u64> {
    let scalar = match &node.kind {
        Kind::Scalar(scalar) => scalar,
        _ => {
            problems.expected(node, what, "a whole number", "write a single number here");
            return None;
        }
    };
    let (low, high) = (range.start(), range.end());
    let help = format!("from {low} to {high}");
    match scalar.text.parse::<u64>() {
        Ok(number) if range.contains(&number) && !scalar.text.starts_with('+') => Some(number),
        Ok(_) => {
            let message = format!("{what} must lie between {low} and {high}, found `{}`", scalar.text);
            problems.add(scalar.span.clone(), message, help);
            None
        }
        Err(_) => {
            problems.expected(node, what, "a whole number", help);
            None
        }
    }
}

/// A whole number that fits 32 bits, in a range.
pub(crate) fn small(
    node: &Node,
    what: &str,
    range: RangeInclusive<u32>,
    problems: &mut Problems,
) -> Option<u32> {
    let wide = u64::from(*range.start())..=u64::from(*range.end());
    integer(node, what, wide, problems).and_then(|number| u32::try_from(number).ok())
}

/// One of a few words.
pub(crate) fn choice<T: Copy>(
    node: &Node,
    what: &str,
    choices: &[(&str, T)],
    problems: &mut Problems,
) -> Option<T> {
    let scalar = scalar(node, what, problems)?;
    let found = choices.iter().find(|(word, _)| *word == scalar.text);
    if found.is_none() {
        let words = choices.iter().map(|(word, _)| *word);
        let help = suggest::remedy(&scalar.text, words, "one of");
        problems.add(scalar.span.clone(), format!("{what} cannot be `{}`", scalar.text), help);
    }
    found.map(|(_, value)| *value)
}
