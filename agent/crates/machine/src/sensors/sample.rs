//! One reading of all series.

use super::schema::{SeriesId, ValueType};

/// One value of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// What the kernel counts.
    Unsigned(u64),
    /// What can be below zero.
    Signed(i64),
    /// What has a fraction.
    Float(f64),
}

impl Value {
    /// Its type.
    #[must_use]
    pub fn value_type(self) -> ValueType {
        match self {
            Self::Unsigned(_) => ValueType::Unsigned,
            Self::Signed(_) => ValueType::Signed,
            Self::Float(_) => ValueType::Float,
        }
    }

    /// The nearest floating-point number; exact below 2^53.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Unsigned(value) => unsigned(value),
            Self::Signed(value) if value < 0 => -unsigned(value.unsigned_abs()),
            Self::Signed(value) => unsigned(value.unsigned_abs()),
            Self::Float(value) => value,
        }
    }

    /// The 64 bits that it is made of; with the type they give it back.
    pub(crate) fn bits(self) -> u64 {
        match self {
            Self::Unsigned(value) => value,
            Self::Signed(value) => value.cast_unsigned(),
            Self::Float(value) => value.to_bits(),
        }
    }

    pub(crate) fn from_bits(bits: u64, values: ValueType) -> Self {
        match values {
            ValueType::Unsigned => Self::Unsigned(bits),
            ValueType::Signed => Self::Signed(bits.cast_signed()),
            ValueType::Float => Self::Float(f64::from_bits(bits)),
        }
    }
}

/// The nearest floating-point number.
#[expect(clippy::cast_precision_loss, reason = "figures for people and statistics: 53 bits are enough")]
pub(crate) fn unsigned(value: u64) -> f64 {
    value as f64
}

/// One reading of all series. A source that was not there has no value, which is not zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When it was taken: nanoseconds of the monotonic clock of the host.
    pub monotonic_ns: u64,
    /// When it was taken: microseconds since 1970 by the host's clock, which may be set meanwhile.
    pub unix_us: i64,
    values: Vec<Option<Value>>,
}

impl Sample {
    /// A sample without values.
    #[must_use]
    pub fn new(monotonic_ns: u64, unix_us: i64) -> Self {
        Self { monotonic_ns, unix_us, values: Vec::new() }
    }

    /// The value of a series.
    #[must_use]
    pub fn get(&self, id: SeriesId) -> Option<Value> {
        self.values.get(id.0).copied().flatten()
    }

    /// Puts in the value of a series.
    pub fn set(&mut self, id: SeriesId, value: Value) {
        if self.values.len() <= id.0 {
            self.values.resize(id.0 + 1, None);
        }
        if let Some(slot) = self.values.get_mut(id.0) {
            *slot = Some(value);
        }
    }

    /// Values by the index of their series. Series that were added to the schema later are not in it.
    #[must_use]
    pub fn values(&self) -> &[Option<Value>] {
        &self.values
    }

    /// Takes all values out and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.values.clear();
    }
}
