//! Where parsers put what they found: the schema for series seen for the first time, the sample for values.

use super::{
    sample::{Sample, Value},
    schema::{Schema, Series, SeriesId, SeriesKind, ValueType},
};

/// Takes a parser's findings.
#[derive(Debug)]
pub(crate) struct Sink<'a> {
    pub(crate) schema: &'a mut Schema,
    pub(crate) sample: &'a mut Sample,
    /// Series that the schema had no room for.
    pub(crate) refused: &'a mut u64,
}

impl Sink<'_> {
    /// The series of a total.
    pub(crate) fn counter(&mut self, name: String, unit: &str) -> Option<SeriesId> {
        self.series(name, unit, SeriesKind::Counter, ValueType::Unsigned)
    }

    /// The series of a state.
    pub(crate) fn gauge(&mut self, name: String, unit: &str) -> Option<SeriesId> {
        self.series(name, unit, SeriesKind::Gauge, ValueType::Unsigned)
    }

    /// Any series.
    pub(crate) fn series(
        &mut self,
        name: String,
        unit: &str,
        kind: SeriesKind,
        values: ValueType,
    ) -> Option<SeriesId> {
        let id = self.schema.add(Series { name, unit: unit.to_owned(), kind, values });
        if id.is_none() {
            *self.refused += 1;
        }
        id
    }

    /// A value, where there is one.
    pub(crate) fn put(&mut self, id: Option<SeriesId>, value: Option<u64>) {
        self.put_value(id, value.map(Value::Unsigned));
    }

    /// A value of any type, where there is one.
    pub(crate) fn put_value(&mut self, id: Option<SeriesId>, value: Option<Value>) {
        if let (Some(id), Some(value)) = (id, value) {
            self.sample.set(id, value);
        }
    }
}

/// Reads the text of one file.
pub(crate) trait Parse: std::fmt::Debug + Send {
    /// Puts what the text says into `sink`; what it does not say, or not as expected, stays absent.
    fn parse(&mut self, text: &[u8], sink: &mut Sink<'_>);
}
