//! How values that are not columns of their own are written as text, and read back with little allocation: reading
//! 100,000 attempts for a table is mostly this.

use std::{borrow::Cow, collections::HashMap, fmt, sync::Arc};

use drover_model::{AxisValue, Name, Verdict};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};

use crate::{RunState, error::DecodeError};

/// Names and axis values met so far: each is allocated once.
#[derive(Debug, Default)]
pub(super) struct Interned {
    names: HashMap<String, Name>,
    values: HashMap<String, AxisValue>,
}

impl Interned {
    pub(super) fn name(&mut self, text: &str) -> Result<Name, DecodeError> {
        if let Some(name) = self.names.get(text) {
            return Ok(name.clone());
        }
        let name: Name = text.parse()?;
        self.names.insert(text.to_owned(), name.clone());
        Ok(name)
    }

    fn value(&mut self, text: &str) -> AxisValue {
        if let Some(value) = self.values.get(text) {
            return Arc::clone(value);
        }
        let value: AxisValue = text.into();
        self.values.insert(text.to_owned(), Arc::clone(&value));
        value
    }
}

/// `web1,web2`; empty if there are none.
pub(super) fn names_to_text(names: &[Name]) -> String {
    names.iter().map(Name::as_str).collect::<Vec<_>>().join(",")
}

pub(super) fn names_from_text(text: &str, interned: &mut Interned) -> Result<Vec<Name>, DecodeError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(|name| interned.name(name)).collect()
}

/// `{"conn_per_s":1234.5}`, in the order given.
pub(super) fn metrics_to_text(metrics: &[(Name, f64)]) -> serde_json::Result<String> {
    struct Metrics<'a>(&'a [(Name, f64)]);
    impl Serialize for Metrics<'_> {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map(self.0.iter().map(|(name, value)| (name.as_str(), value)))
        }
    }
    serde_json::to_string(&Metrics(metrics))
}

pub(super) fn metrics_from_text(
    text: &str,
    interned: &mut Interned,
) -> Result<Vec<(Name, f64)>, DecodeError> {
    struct Metrics<'a>(&'a mut Interned);
    impl<'de> Visitor<'de> for Metrics<'_> {
        type Value = Vec<(Name, f64)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of metrics and their values")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut metrics = Vec::new();
            while let Some((Text(name), value)) = map.next_entry()? {
                metrics.push((self.0.name(&name).map_err(serde::de::Error::custom)?, value));
            }
            Ok(metrics)
        }
    }
    impl<'de> DeserializeSeed<'de> for Metrics<'_> {
        type Value = Vec<(Name, f64)>;

        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_map(self)
        }
    }
    seeded(text, Metrics(interned))
}

/// The values of a cell, `["3","none"]`.
pub(super) fn values_from_text(text: &str, interned: &mut Interned) -> Result<Vec<AxisValue>, DecodeError> {
    struct Values<'a>(&'a mut Interned);
    impl<'de> Visitor<'de> for Values<'_> {
        type Value = Vec<AxisValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of axis values")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut values = Vec::new();
            while let Some(Text(value)) = seq.next_element()? {
                values.push(self.0.value(&value));
            }
            Ok(values)
        }
    }
    impl<'de> DeserializeSeed<'de> for Values<'_> {
        type Value = Vec<AxisValue>;

        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_seq(self)
        }
    }
    seeded(text, Values(interned))
}

/// A text that is borrowed from the input unless it holds escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn seeded<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value, DecodeError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = seed.deserialize(&mut json)?;
    json.end()?;
    Ok(value)
}

/// `NULL` for the common verdict.
pub(super) fn verdict_to_text(verdict: &Verdict) -> serde_json::Result<Option<String>> {
    match verdict {
        Verdict::Ok => Ok(None),
        other => serde_json::to_string(other).map(Some),
    }
}

pub(super) fn verdict_from_text(text: Option<&str>) -> Result<Verdict, DecodeError> {
    text.map_or(Ok(Verdict::Ok), |text| Ok(serde_json::from_str(text)?))
}

pub(super) fn state_to_text(state: RunState) -> &'static str {
    match state {
        RunState::Open => "open",
        RunState::Finished => "finished",
        RunState::Interrupted => "interrupted",
    }
}

pub(super) fn state_from_text(text: &str) -> Result<RunState, DecodeError> {
    [RunState::Open, RunState::Finished, RunState::Interrupted]
        .into_iter()
        .find(|state| state_to_text(*state) == text)
        .ok_or_else(|| DecodeError::Word(text.to_owned()))
}
