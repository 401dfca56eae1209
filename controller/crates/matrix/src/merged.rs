//! Quantiles of several instances together, from their histograms: percentiles are never averaged.
//!
//! A histogram is that of all latencies of one task in nanoseconds: HdrHistogram V2 encoding in base64. It comes from a
//! task's output, so nothing in it is believed: its size is bounded before anything is allocated.

use base64::{Engine, engine::general_purpose::STANDARD};
use hdrhistogram::{Histogram, serialization::Deserializer};

/// Longest text of a histogram, in bytes.
const MAX_TEXT: usize = 1 << 20;
/// Bytes in front of the counts: cookie, length, offset, digits, lowest, highest, ratio.
const HEADER: usize = 40;
/// First bytes of the encoding without compression, which is the only one that is bounded by its length.
const COOKIE: [u8; 4] = [0x1c, 0x84, 0x93, 0x13];
/// Most decimal digits that are kept apart.
const MAX_DIGITS: u32 = 3;
const NANOSECONDS_PER_SECOND: f64 = 1e9;

/// What of a histogram a sample is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Figure {
    /// The latency that this share of all stays below.
    Quantile(f64),
    Mean,
    Min,
    Max,
}

/// The share that a sample is a quantile of, by its name: 0.99 for `latency_p99_s`, 0.999 for `p999`.
pub(crate) fn quantile(sample: &str) -> Option<f64> {
    let share = |part: &str| {
        let digits = part.strip_prefix('p')?;
        if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        match digits {
            "100" => Some(1.0),
            _ if digits.len() == 1 => format!("0.0{digits}").parse().ok(),
            _ => format!("0.{digits}").parse().ok(),
        }
    };
    if sample.split('_').any(|part| part == "median") {
        return Some(0.5);
    }
    sample.split('_').find_map(share)
}

/// What of the latencies' histogram a sample is, if it is one: `latency_p99_s`, `latency_mean_s`, `latency_max_s`.
pub(crate) fn figure(sample: &str) -> Option<Figure> {
    let inner = sample.strip_prefix("latency_")?.strip_suffix("_s")?;
    match inner {
        "mean" => Some(Figure::Mean),
        "min" => Some(Figure::Min),
        "max" => Some(Figure::Max),
        _ if inner.contains('_') => None,
        _ => quantile(inner).map(Figure::Quantile),
    }
}

/// A figure in seconds of all latencies of several instances.
///
/// # Errors
///
/// What is wrong with which histogram, by its place.
pub(crate) fn merged(histograms: &[&str], figure: Figure) -> Result<f64, (usize, String)> {
    let mut total: Option<Histogram<u64>> = None;
    for (place, text) in histograms.iter().enumerate() {
        let next = decode(text).map_err(|problem| (place, problem))?;
        match &mut total {
            None => {
                let mut first = next;
                // The others may have seen longer ones.
                first.auto(true);
                total = Some(first);
            }
            Some(total) => total.add(&next).map_err(|error| (place, format!("cannot be added: {error}")))?,
        }
    }
    let total = total.filter(|total| !total.is_empty());
    let total = total.ok_or_else(|| (0, "holds no latency".to_owned()))?;
    let nanoseconds = match figure {
        Figure::Quantile(share) => float(total.value_at_quantile(share)),
        Figure::Mean => total.mean(),
        Figure::Min => float(total.min()),
        Figure::Max => float(total.max()),
    };
    Ok(nanoseconds / NANOSECONDS_PER_SECOND)
}

fn decode(text: &str) -> Result<Histogram<u64>, String> {
    if text.len() > MAX_TEXT {
        return Err(format!("has {} characters, {MAX_TEXT} are allowed", text.len()));
    }
    let bytes = STANDARD.decode(text).map_err(|error| format!("is no base64: {error}"))?;
    let header = bytes.get(..HEADER).ok_or("is cut off")?;
    let word = |at: usize| {
        header.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(u32::MAX, u32::from_be_bytes)
    };
    if !header.starts_with(&COOKIE) {
        return Err("is no HdrHistogram in V2 encoding without compression".to_owned());
    }
    if usize::try_from(word(4)) != Ok(bytes.len() - HEADER) {
        return Err("has another length than it says".to_owned());
    }
    if word(12) > MAX_DIGITS {
        return Err(format!("keeps {} digits apart, {MAX_DIGITS} are allowed", word(12)));
    }
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| format!("cannot be read: {error}"))
}

/// The nearest number that a double holds.
fn float(number: u64) -> f64 {
    let half = |bits: u64| f64::from(u32::try_from(bits & 0xffff_ffff).unwrap_or(u32::MAX));
    half(number >> 32) * 4_294_967_296.0 + half(number)
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};
    use proptest::prelude::*;

    use super::*;

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        values.into_iter().for_each(|value| histogram.record(value).unwrap());
        histogram
    }

    fn encode(histogram: &Histogram<u64>) -> String {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(histogram, &mut bytes).unwrap();
        STANDARD.encode(bytes)
    }

    #[test]
    fn expect_the_share_when_a_name_is_that_of_a_quantile() {
        let shares = [
            ("latency_p50_s", 0.5),
            ("latency_p99_s", 0.99),
            ("read_latency_p999_s", 0.999),
            ("p9999", 0.9999),
            ("p5", 0.05),
            ("p05", 0.05),
            ("p100", 1.0),
            ("latency_median_s", 0.5),
        ];
        for (name, share) in shares {
            assert_eq!(quantile(name), Some(share), "{name}");
        }
        for name in ["completed", "tcp_port", "p", "px", "ops_per_s", "http2", "p99x", "latency_max_s", "mp3"]
        {
            assert_eq!(quantile(name), None, "{name}");
        }
    }

    #[test]
    fn expect_a_figure_only_when_a_sample_is_one_of_the_latencies() {
        assert_eq!(figure("latency_p99_s"), Some(Figure::Quantile(0.99)));
        assert_eq!(figure("latency_max_s"), Some(Figure::Max));
        for name in ["read_latency_p99_s", "latency_p99_ms", "p99", "conn_per_s", "latency_x_p99_s"] {
            assert_eq!(figure(name), None, "{name}");
        }
    }

    #[test]
    fn expect_the_quantile_of_all_and_not_of_the_parts_when_histograms_are_merged() {
        // A thousand of 1 ms and ten of 1 s: the 99th percentile of all is 1 ms, of the second alone 1 s.
        let (fast, slow) = (histogram([1_000_000; 1000]), histogram([1_000_000_000; 10]));
        let (fast, slow) = (encode(&fast), encode(&slow));
        let p99 = merged(&[&fast, &slow], Figure::Quantile(0.99)).unwrap();
        assert!((p99 - 0.001).abs() < 1e-5, "{p99}");
        let max = merged(&[&fast, &slow], Figure::Max).unwrap();
        assert!((max - 1.0).abs() < 1e-3, "{max}");
        let mean = merged(&[&slow, &fast], Figure::Mean).unwrap();
        assert!((mean - 11.0 / 1010.0).abs() < 1e-4, "{mean}");
    }

    #[test]
    fn expect_the_place_and_a_reason_when_a_histogram_is_none() {
        let good = histogram([5]);
        let mut deflated = Vec::new();
        V2DeflateSerializer::new().serialize(&good, &mut deflated).unwrap();
        let mut long = STANDARD.decode(encode(&good)).unwrap();
        long.push(0);
        let mut fine = Histogram::<u64>::new_with_bounds(1, 1_000_000, 5).unwrap();
        fine.record(7).unwrap();
        let good = encode(&good);
        for (bad, reason) in [
            ("?".to_owned(), "base64"),
            ("AAAA".to_owned(), "cut off"),
            (STANDARD.encode([0; 64]), "V2"),
            (STANDARD.encode(deflated), "V2"),
            (STANDARD.encode(long), "length"),
            (encode(&fine), "5 digits"),
            ("A".repeat(MAX_TEXT + 1), "characters"),
        ] {
            let (place, problem) = merged(&[&good, &bad], Figure::Max).unwrap_err();
            assert!(place == 1 && problem.contains(reason), "{problem}");
        }
        let empty = encode(&histogram([]));
        assert!(merged(&[&empty], Figure::Max).is_err());
    }

    proptest! {
        #[test]
        fn merging_is_recording_into_one(
            parts in proptest::collection::vec(proptest::collection::vec(1_u64..10_000_000_000, 1..50), 1..6),
            share in 0.0_f64..=1.0,
        ) {
            let all = histogram(parts.iter().flatten().copied());
            let texts: Vec<String> = parts.iter().map(|part| encode(&histogram(part.iter().copied()))).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let want = float(all.value_at_quantile(share)) / NANOSECONDS_PER_SECOND;
            prop_assert_eq!(merged(&texts, Figure::Quantile(share)), Ok(want));
        }

        #[test]
        fn damaged_histograms_never_panic(place: proptest::sample::Index, byte: u8, cut: proptest::sample::Index) {
            let mut bytes = STANDARD.decode(encode(&histogram([1, 1000, 1_000_000_000]))).unwrap();
            let place = place.index(bytes.len());
            bytes[place] = byte;
            let _ = merged(&[&STANDARD.encode(&bytes)], Figure::Quantile(0.5));
            bytes.truncate(cut.index(bytes.len()));
            let _ = merged(&[&STANDARD.encode(&bytes)], Figure::Mean);
        }
    }
}
