//! stress-ng, with `--metrics --yaml /dev/stdout`. Samples carry the stressor's name (`cpu_bogo_ops_per_s`); of a
//! single stressor the rate is there without it too.

use std::collections::BTreeMap;

use drover_model::Measurement;
use serde::Deserialize;
use serde_yaml::Value;

use crate::{
    Input, ParseError, number,
    sheet::{Sheet, sample_name},
    text::Text,
};

const ADVICE: &str = "run stress-ng with --metrics --yaml /dev/stdout";

#[derive(Deserialize)]
struct Document {
    metrics: Option<Vec<BTreeMap<String, Value>>>,
}

pub(super) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::whole_lines(input, "stress-ng", ADVICE);
    let document = document(&text)?;
    let document: Document = serde_yaml::from_str(document).map_err(|source| ParseError::Form {
        parser: text.parser,
        kind: "YAML",
        found: text.excerpt(),
        advice: ADVICE,
        source: source.into(),
    })?;
    let metrics = document.metrics.unwrap_or_default();
    let mut sheet = Sheet::default();
    let single = metrics.len() == 1;
    for metric in &metrics {
        write(&text, metric, single, &mut sheet)?;
    }
    if sheet.is_empty() {
        return Err(text.missing("stressor with metrics"));
    }
    sheet.finish(text.parser)
}

/// From the last line `---` to the line `...`, without which the document is not complete.
fn document<'t>(text: &'t Text<'_>) -> Result<&'t str, ParseError> {
    let body = text.body();
    let (mut start, mut end, mut at) = (None, None, 0);
    for raw in body.split_inclusive('\n') {
        match raw.trim_end() {
            "---" => (start, end) = (Some(at), None),
            "..." if end.is_none() => end = Some(at),
            _ => {}
        }
        at += raw.len();
    }
    let found = start.zip(end).and_then(|(start, end)| body.get(start..end));
    found.ok_or_else(|| {
        if let (None, Some(said)) = (start, text.complaint()) {
            return ParseError::ToolFailed { parser: text.parser, said };
        }
        ParseError::NoDocument {
            parser: text.parser,
            kind: "YAML",
            found: text.excerpt(),
            advice: ADVICE,
            source: None,
        }
    })
}

fn write(
    text: &Text<'_>,
    metric: &BTreeMap<String, Value>,
    single: bool,
    sheet: &mut Sheet,
) -> Result<(), ParseError> {
    let Some(stressor) = metric.get("stressor").and_then(Value::as_str) else {
        return Err(text.missing("name of a stressor"));
    };
    let prefix = sample_name(stressor);
    let mut values = BTreeMap::new();
    for (key, value) in metric.iter().filter(|(key, _)| *key != "stressor") {
        let Some(value) = value.as_f64() else {
            let written = value.as_str().unwrap_or("a list or mapping");
            if number::is_absent(written) || value.is_null() {
                continue;
            }
            return Err(text.bad(key, written));
        };
        if !value.is_finite() {
            continue;
        }
        values.insert(key.as_str(), value);
        let (name, unit, factor) = match key.as_str() {
            "bogo-ops" => ("bogo_ops", "ops", 1.0),
            "bogo-ops-per-second-real-time" => ("bogo_ops_per_s", "ops/s", 1.0),
            "bogo-ops-per-second-usr-sys-time" => ("bogo_ops_per_cpu_s", "ops/s", 1.0),
            "wall-clock-time" => ("wall_s", "s", 1.0),
            "user-time" => ("user_s", "s", 1.0),
            "system-time" => ("system_s", "s", 1.0),
            "cpu-usage-per-instance" => ("cpu_share", "1", 0.01),
            "max-rss" => ("max_rss_bytes", "bytes", 1024.0),
            other => {
                sheet.put(format!("{prefix}_{}", sample_name(other)), "1", value);
                continue;
            }
        };
        sheet.put(format!("{prefix}_{name}"), unit, value * factor);
        if single && name == "bogo_ops_per_s" {
            sheet.put(name, unit, value);
        }
    }
    let get = |key: &str| values.get(key).copied();
    if let (Some(ops), Some(rate), Some(time)) =
        (get("bogo-ops"), get("bogo-ops-per-second-real-time"), get("wall-clock-time"))
    {
        let what = format!("{stressor}: rate x time against bogo-ops");
        sheet.check_equal(&what, rate * time, ops, 0.01 * ops + 1.0);
    }
    Ok(())
}
