//! Paths into JSON documents: `summary.rps`, `jobs[0].read.iops`, `jobs[-1]["99.000000"]`. Used by `json:`.

use serde_json::Value;

use crate::SpecError;

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    /// From the front.
    Index(usize),
    /// From the back; 1 is the last.
    Back(usize),
}

impl Path {
    /// Names joined by `.`, indices and quoted names in `[]`; a leading `$` or `.` is allowed.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let fault = |rest: &str, reason| SpecError::Path {
            path: text.to_owned(),
            at: text.chars().count() - rest.chars().count() + 1,
            reason,
        };
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        // A dot is due between names, not before the first and not before a bracket.
        rest = rest.strip_prefix('.').unwrap_or(rest);
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let (step, next) = bracket(inner).map_err(|reason| fault(inner, reason))?;
                steps.push(step);
                rest = next;
            } else {
                let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
                let (name, next) = rest.split_at(end);
                if name.is_empty() {
                    return Err(fault(rest, "a name is expected"));
                }
                steps.push(Step::Key(name.to_owned()));
                rest = next;
            }
            if let Some(next) = rest.strip_prefix('.') {
                if next.is_empty() {
                    return Err(fault(next, "a name is expected"));
                }
                rest = next;
            } else if !rest.is_empty() && !rest.starts_with('[') {
                return Err(fault(rest, "`.` or `[` is expected"));
            }
        }
        if steps.is_empty() {
            return Err(fault(rest, "a name is expected"));
        }
        Ok(Self(steps))
    }

    /// The value at this path, or the step that does not exist and what exists in its place.
    pub fn find<'v>(&self, root: &'v Value) -> Result<&'v Value, String> {
        let mut value = root;
        for step in &self.0 {
            let next = match (step, value) {
                (Step::Key(key), Value::Object(map)) => map.get(key),
                (Step::Index(index), Value::Array(items)) => items.get(*index),
                (Step::Back(back), Value::Array(items)) => {
                    items.len().checked_sub(*back).and_then(|index| items.get(index))
                }
                _ => None,
            };
            value = next.ok_or_else(|| format!("{}, but there is {}", step.describe(), describe(value)))?;
        }
        Ok(value)
    }
}

impl Step {
    fn describe(&self) -> String {
        match self {
            Self::Key(key) => format!("it has no `{key}`"),
            Self::Index(index) => format!("it has no [{index}]"),
            Self::Back(back) => format!("it has no [-{back}]"),
        }
    }
}

/// What is inside of brackets, and what follows them.
fn bracket(inner: &str) -> Result<(Step, &str), &'static str> {
    if let Some(quoted) = inner.strip_prefix('"') {
        let (key, next) = quoted.split_once("\"]").ok_or("`\"]` is missing")?;
        return Ok((Step::Key(key.to_owned()), next));
    }
    let (index, next) = inner.split_once(']').ok_or("`]` is missing")?;
    let (digits, back) = index.strip_prefix('-').map_or((index, false), |digits| (digits, true));
    let number: usize = digits
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| digits.parse().ok())
        .flatten()
        .ok_or("an index such as 0 or -1, or a name in double quotes is expected")?;
    Ok((if back { Step::Back(number) } else { Step::Index(number) }, next))
}

/// What a value offers in place of a step that does not exist.
fn describe(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let keys: Vec<_> = map.keys().take(12).map(|key| format!("`{key}`")).collect();
            if keys.is_empty() { "an empty object".to_owned() } else { keys.join(", ") }
        }
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => "a plain value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn expect_the_value_when_a_path_has_names_indices_and_quotes() {
        let value: Value =
            serde_json::from_str(r#"{"jobs":[{"a":1},{"read":{"99.000000":2,"x]y":3}}]}"#).unwrap();
        for (path, expected) in [
            ("jobs[0].a", 1),
            ("$.jobs[0][\"a\"]", 1),
            (".jobs[-1].read[\"99.000000\"]", 2),
            ("jobs[1].read[\"x]y\"]", 3),
        ] {
            assert_eq!(Path::parse(path).unwrap().find(&value).unwrap(), expected, "{path}");
        }
        let missing = Path::parse("jobs[1].write.iops").unwrap().find(&value).unwrap_err();
        assert_eq!(missing, "it has no `write`, but there is `read`");
        assert!(Path::parse("jobs[2]").unwrap().find(&value).unwrap_err().contains("a list of 2"));
        assert!(Path::parse("jobs[-3]").unwrap().find(&value).is_err());
        assert!(Path::parse("jobs[-0]").unwrap().find(&value).is_err());
    }

    #[test]
    fn expect_the_position_when_a_path_is_malformed() {
        for (path, at) in [
            ("", 1),
            ("$", 2),
            ("a.", 3),
            ("a..b", 3),
            ("a[", 3),
            ("a[x]", 3),
            ("a[1]b", 5),
            ("a]", 2),
            ("é[\"b]", 3),
        ] {
            match Path::parse(path).unwrap_err() {
                SpecError::Path { at: found, .. } => assert_eq!(found, at, "{path}"),
                other => panic!("{other}"),
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_path_panic(text in "[a-c.\\[\\]\"$0-9-]{0,12}") {
            let value = serde_json::json!({"a": [1, {"b": null}]});
            if let Ok(path) = Path::parse(&text) {
                let _found = path.find(&value);
            }
        }
    }
}
