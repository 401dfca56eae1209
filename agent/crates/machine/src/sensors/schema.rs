//! What is measured: the names, units and kinds of all series, in a fixed order that only ever grows.

use std::collections::HashMap;

/// The most series of one schema. A host with 1024 CPUs has some 12,000.
pub const MAX_SERIES: usize = 65_536;
/// The longest name and unit, in bytes.
const MAX_TEXT: usize = 255;

/// The place of a series in its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(pub(crate) usize);

impl SeriesId {
    /// Its index in [`Schema::series`] and [`super::Sample::values`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// How values of a series are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SeriesKind {
    /// A total since some start: only differences mean something.
    Counter,
    /// A state at the moment of the sample.
    Gauge,
}

/// The type of a series' values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// `u64`.
    Unsigned,
    /// `i64`.
    Signed,
    /// `f64`.
    Float,
}

/// One series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Series {
    /// Its name, such as `cpu.0.steal_ticks` or `netstat.TcpExt.ListenDrops`; unique in its schema.
    pub name: String,
    /// Unit of the values: `bytes`, `us`, `1` for plain counts, `1/100 s` for clock ticks.
    pub unit: String,
    /// Counter or gauge.
    pub kind: SeriesKind,
    /// Type of its values.
    pub values: ValueType,
}

/// All series of a stream of samples. Series are added at the end and never change, so the latest schema reads all earlier samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    series: Vec<Series>,
    by_name: HashMap<String, SeriesId>,
    id: u64,
}

impl Schema {
    /// A schema without series.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a series, or finds it if its name is there already. `None` if the schema is full ([`MAX_SERIES`]) or if name or unit are longer
    /// than 255 bytes.
    pub fn add(&mut self, series: Series) -> Option<SeriesId> {
        if let Some(id) = self.find(&series.name) {
            return Some(id);
        }
        let fits = series.name.len() <= MAX_TEXT && series.unit.len() <= MAX_TEXT;
        if self.series.len() >= MAX_SERIES || !fits {
            return None;
        }
        let id = SeriesId(self.series.len());
        self.id = chained(self.id, &series);
        self.by_name.insert(series.name.clone(), id);
        self.series.push(series);
        Some(id)
    }

    /// All series, in order.
    #[must_use]
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// The series of a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<SeriesId> {
        self.by_name.get(name).copied()
    }

    /// A series by its id; `None` for an id of a longer schema.
    #[must_use]
    pub fn get(&self, id: SeriesId) -> Option<&Series> {
        self.series.get(id.0)
    }

    /// How many series there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// A hash of all series: blocks of samples name the schema they were written with by it.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }
}

/// The id of a schema after one more series.
fn chained(id: u64, series: &Series) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&id.to_le_bytes());
    for text in [&series.name, &series.unit] {
        hasher.update(text.as_bytes());
        // No text has this byte, so that no two lists of texts look alike.
        hasher.update(&[0xff]);
    }
    let kind = match series.kind {
        SeriesKind::Counter => 0,
        SeriesKind::Gauge => 1,
    };
    let values = match series.values {
        ValueType::Unsigned => 0,
        ValueType::Signed => 1,
        ValueType::Float => 2,
    };
    hasher.update(&[kind, values]);
    let mut first = [0; 8];
    hasher.finalize_xof().fill(&mut first);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, unit: &str) -> Series {
        Series { name: name.into(), unit: unit.into(), kind: SeriesKind::Gauge, values: ValueType::Unsigned }
    }

    #[test]
    fn expect_the_same_place_when_a_name_is_added_again() {
        let mut schema = Schema::new();
        let first = schema.add(series("a", "1")).unwrap();
        let second = schema.add(series("b", "1")).unwrap();
        assert_eq!(schema.add(series("a", "bytes")), Some(first));
        assert_eq!((first.index(), second.index(), schema.len()), (0, 1, 2));
        assert_eq!(schema.get(first).unwrap().unit, "1");
    }

    #[test]
    fn expect_different_ids_when_texts_are_cut_differently() {
        let id = |name, unit| {
            let mut schema = Schema::new();
            schema.add(series(name, unit)).unwrap();
            schema.id()
        };
        assert_ne!(id("ab", "c"), id("a", "bc"));
        assert_eq!(id("ab", "c"), id("ab", "c"));
        assert_ne!(id("ab", "c"), Schema::new().id());
    }

    #[test]
    fn expect_refusal_when_the_schema_is_full_or_a_name_too_long() {
        let mut schema = Schema::new();
        assert_eq!(schema.add(series(&"n".repeat(256), "1")), None);
        for n in 0..MAX_SERIES {
            schema.add(series(&n.to_string(), "1")).unwrap();
        }
        assert_eq!(schema.add(series("one more", "1")), None);
        assert!(schema.add(series("17", "1")).is_some());
    }
}
