//! Lines of points and marks, with their check.

use std::fmt::Write as _;

use drover_model::Name;
use serde::{Deserialize, Serialize};

use super::{MAX_MARK_BYTES, Mark, MarkKind, Point};

/// First line of the points.
pub(super) const HEADER: &[u8] = b"at_unix_us,round,metric,value,check\n";
/// Longest line that is read: a mark of control characters, each of which is six in JSON.
pub(super) const MAX_LINE: usize = 16 * 1024;

const CHECK: &str = ",\"check\":\"";

/// FNV-1a, 32 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn check(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Eight hexadecimal digits as [`check`] is written; nothing else, so that each line has one form.
fn read_check(digits: &[u8]) -> Option<u32> {
    let lower = digits.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let text = std::str::from_utf8(digits).ok().filter(|_| lower && digits.len() == 8)?;
    u32::from_str_radix(text, 16).ok()
}

/// Adds a line to `out`.
pub(super) fn write_point(out: &mut Vec<u8>, point: &Point) {
    let Point { at_unix_us, round, metric, value } = point;
    // The shortest text that is read as the same number.
    let mut line = format!("{at_unix_us},{round},{metric},{value:?}");
    let check = check(line.as_bytes());
    // Writing to a string does not fail.
    let _ = writeln!(line, ",{check:08x}");
    out.extend_from_slice(line.as_bytes());
}

/// Reads a line without its line end; `metrics` are the names seen so far. `None` if it is damaged.
pub(super) fn read_point(line: &[u8], metrics: &mut Vec<Name>) -> Option<Point> {
    let comma = line.len().checked_sub(9)?;
    let (text, rest) = line.split_at_checked(comma)?;
    let given = read_check(rest.strip_prefix(b",")?)?;
    let text = std::str::from_utf8(text).ok().filter(|_| check(text) == given)?;
    let mut fields = text.split(',');
    let (at, round, metric, value) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let known = metrics.iter().find(|known| known.as_str() == metric).cloned();
    let metric = match known {
        Some(metric) => metric,
        None => {
            let new: Name = metric.parse().ok()?;
            // A few metrics are common; a file of nothing but different ones is not let grow in memory.
            if metrics.len() < 1024 {
                metrics.push(new.clone());
            }
            new
        }
    };
    let value = value.parse::<f64>().ok().filter(|value| value.is_finite())?;
    let point = Point { at_unix_us: at.parse().ok()?, round: round.parse().ok()?, metric, value };
    fields.next().is_none().then_some(point)
}

#[derive(Serialize, Deserialize)]
struct MarkLine<'a> {
    at_unix_us: u64,
    kind: MarkKind,
    #[serde(borrow)]
    text: std::borrow::Cow<'a, str>,
}

/// Adds a line to `out`; a text that is too long is cut.
pub(super) fn write_mark(out: &mut Vec<u8>, at_unix_us: u64, kind: MarkKind, text: &str) {
    let mut text = text.to_owned();
    crate::limits::cut_end(&mut text, MAX_MARK_BYTES);
    // A number, a word and a text always serialise.
    let json = serde_json::to_string(&MarkLine { at_unix_us, kind, text: text.into() }).unwrap_or_default();
    let mut line = json.strip_suffix('}').unwrap_or(&json).to_owned();
    let check = check(line.as_bytes());
    // Writing to a string does not fail.
    let _ = writeln!(line, "{CHECK}{check:08x}\"}}");
    out.extend_from_slice(line.as_bytes());
}

/// Reads a line without its line end. `None` if it is damaged.
pub(super) fn read_mark(line: &[u8]) -> Option<Mark> {
    let line = line.strip_suffix(b"\"}")?;
    let (text, digits) = line.split_at_checked(line.len().checked_sub(8)?)?;
    let text = text.strip_suffix(CHECK.as_bytes())?;
    let text = std::str::from_utf8(text).ok().filter(|_| read_check(digits) == Some(check(text)))?;
    let MarkLine { at_unix_us, kind, text } = serde_json::from_str(&format!("{text}}}")).map(owned).ok()?;
    Some(Mark { at_unix_us, kind, text: text.into_owned() })
}

fn owned(line: MarkLine<'_>) -> MarkLine<'static> {
    MarkLine { at_unix_us: line.at_unix_us, kind: line.kind, text: line.text.into_owned().into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn expect_published_values_of_the_check() {
        assert_eq!(check(b""), 0x811c_9dc5);
        assert_eq!(check(b"a"), 0xe40c_292c);
        assert_eq!(check(b"foobar"), 0xbf9c_f968);
    }

    #[test]
    fn expect_readable_lines_when_written() {
        let mut out = Vec::new();
        let metric: Name = "conn_per_s".parse().unwrap();
        write_point(&mut out, &Point { at_unix_us: 1_732_984_200_000_000, round: 7, metric, value: 4821.5 });
        write_mark(&mut out, 5, MarkKind::RoundFailed, "exit \"1\"\n");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "1732984200000000,7,conn_per_s,4821.5,1c6c774a\n\
             {\"at_unix_us\":5,\"kind\":\"round-failed\",\"text\":\"exit \\\"1\\\"\\n\",\"check\":\"13245e64\"}\n"
        );
    }

    #[test]
    fn expect_a_note_when_a_later_version_wrote_the_kind() {
        let start = "{\"at_unix_us\":5,\"kind\":\"eclipse\",\"text\":\"x\"";
        let line = format!("{start}{CHECK}{:08x}\"}}", check(start.as_bytes()));
        assert_eq!(read_mark(line.as_bytes()).unwrap().kind, MarkKind::Note);
        for kind in MarkKind::ALL {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
        }
    }

    proptest! {
        #[test]
        fn points_come_back_as_they_were_and_damaged_ones_do_not(
            at in any::<u64>(), round in any::<u64>(), value in any::<f64>().prop_filter("finite", |v| v.is_finite()),
            metric in "[a-z_][a-z0-9_-]{0,20}", place in any::<prop::sample::Index>(), bit in 0..8_u32,
        ) {
            let point = Point { at_unix_us: at, round, metric: metric.parse().unwrap(), value };
            let mut out = Vec::new();
            write_point(&mut out, &point);
            prop_assert!(out.len() < MAX_LINE);
            out.pop();
            let back = read_point(&out, &mut Vec::new()).unwrap();
            prop_assert_eq!(back.value.to_bits(), value.to_bits());
            prop_assert_eq!(back, point);
            let at = place.index(out.len());
            prop_assert!(read_point(&out[..at], &mut Vec::new()).is_none());
            out[at] ^= 1 << bit;
            prop_assert!(read_point(&out, &mut Vec::new()).is_none());
        }

        #[test]
        fn marks_come_back_as_they_were_and_damaged_ones_do_not(
            at_unix_us in any::<u64>(), kind in prop::sample::select(&MarkKind::ALL[..]), text in any::<String>(),
            place in any::<prop::sample::Index>(), bit in 0..8_u32,
        ) {
            let mut out = Vec::new();
            write_mark(&mut out, at_unix_us, kind, &text);
            prop_assert!(out.pop() == Some(b'\n') && !out.contains(&b'\n'));
            prop_assert_eq!(read_mark(&out).unwrap(), Mark { at_unix_us, kind, text });
            let at = place.index(out.len());
            prop_assert!(read_mark(&out[..at]).is_none());
            out[at] ^= 1 << bit;
            prop_assert!(read_mark(&out).is_none());
        }
    }
}
