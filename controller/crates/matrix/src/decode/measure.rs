//! `measure`: which parser reads a role's output.

use std::collections::BTreeMap;

use drover_model::{ParserSpec, Tool};

use super::{
    fields::{self, Fields, Problems},
    value,
};
use crate::{
    keys,
    scalar::Style,
    suggest,
    tree::{Kind, Node},
};

/// Largest compiled regular expression, in bytes.
const MAX_REGEX: usize = 1 << 20;

/// Decodes `measure`: the name of a tool, `lines`, or a mapping with `json` or `regex`.
pub(crate) fn measure(node: &Node, role: &str, problems: &mut Problems) -> Option<ParserSpec> {
    let what = format!("`measure` of role `{role}`");
    match &node.kind {
        Kind::Scalar(scalar) => {
            if scalar.text == "lines" {
                return Some(ParserSpec::Lines);
            }
            let tool = Tool::from_name(&scalar.text);
            if tool.is_none() {
                let known = Tool::ALL.into_iter().map(Tool::as_str).chain(["lines"]);
                let own = "; for any other output: { json: {...} }, { regex: ... } or lines";
                let help = suggest::remedy(&scalar.text, known, "parsers") + own;
                problems.add(node.span.clone(), format!("there is no parser for `{}`", scalar.text), help);
            }
            tool.map(ParserSpec::Tool)
        }
        Kind::Map(_) => {
            let fields = Fields::open(node, what.clone(), keys::MEASURE, problems)?;
            match (fields.get("json"), fields.get("regex")) {
                (Some(json), None) => json_paths(json, problems),
                (None, Some(regex)) => regex_groups(regex, problems),
                (None, None) if !fields.lacks("json") || !fields.lacks("regex") => None,
                _ => {
                    let help =
                        "{ json: { conn_per_s: summary.rps } } or { regex: '(?<conn_per_s>[0-9.]+) conn/s' }";
                    problems.add(fields.place(), format!("{what} needs either `json` or `regex`"), help);
                    None
                }
            }
        }
        Kind::List(_) | Kind::Broken => {
            problems.expected(node, &what, "the name of a parser or a mapping", "for instance: measure: ab");
            None
        }
    }
}

fn json_paths(node: &Node, problems: &mut Problems) -> Option<ParserSpec> {
    let entries = fields::entries(node, "`json`", "json: { conn_per_s: summary.rps }", problems);
    if entries.is_empty() {
        let help = "add at least one: json: { conn_per_s: summary.rps }";
        problems.add(node.span.clone(), "`json` names no sample", help);
        return None;
    }
    let mut paths = BTreeMap::new();
    for entry in entries {
        let name = value::name(&entry.key, "the name of a sample", false, problems);
        let path = value::text(&entry.value, &format!("the path of `{}`", entry.key.text), problems);
        paths.extend(name.map(|name| name.to_string()).zip(path));
    }
    (paths.len() == entries.len()).then_some(ParserSpec::Json(paths))
}

fn regex_groups(node: &Node, problems: &mut Problems) -> Option<ParserSpec> {
    let scalar = value::scalar(node, "`regex`", problems)?;
    let regex = match regex::RegexBuilder::new(&scalar.text).size_limit(MAX_REGEX).build() {
        Ok(regex) => regex,
        Err(error) => {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or("").trim_start_matches("error: ").to_owned();
            let help = if scalar.text.contains('\\') || scalar.style == Style::Double {
                "correct it; in '...' a backslash is just a backslash, in \"...\" it must be doubled"
            } else {
                "correct it: '(?<conn_per_s>[0-9.]+) conn/s' is a good one"
            };
            problems.add(node.span.clone(), format!("the regular expression is not valid: {reason}"), help);
            return None;
        }
    };
    if regex.capture_names().flatten().next().is_none() {
        let help = "name each group after its sample: '(?<conn_per_s>[0-9.]+) conn/s'";
        problems.add(
            node.span.clone(),
            "the regular expression has no named group, so it finds no sample",
            help,
        );
        return None;
    }
    Some(ParserSpec::Regex(scalar.text.clone()))
}
