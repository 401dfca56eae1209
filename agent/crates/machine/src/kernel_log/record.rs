//! Records of `/dev/kmsg`: `level,sequence,microseconds,flags;text` and lines of properties.

use std::time::Duration;

/// A record of the kernel's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Its number since boot. Numbers have no gaps: what is missing was lost.
    pub sequence: u64,
    /// When it was written, since boot, by the clock of printk: monotonic, and not counting time that the machine slept.
    pub time: Duration,
    /// From 0, an emergency, to 7, debugging.
    pub level: u8,
    /// Who wrote it: 0 is the kernel, all others are processes.
    pub facility: u64,
    /// The message. Bytes that are not UTF-8 are replaced.
    pub text: String,
    /// The record as it was read, which the [`Classifier`](crate::console::Classifier) understands.
    pub raw: Vec<u8>,
}

impl LogRecord {
    /// Reads one record; `None` if it is none.
    #[must_use]
    pub fn parse(raw: &[u8]) -> Option<Self> {
        let split = raw.iter().position(|byte| *byte == b';')?;
        let mut head = std::str::from_utf8(raw.get(..split)?).ok()?.split(',');
        let priority: u64 = head.next()?.parse().ok()?;
        let sequence = head.next()?.parse().ok()?;
        let micros = head.next()?.parse().ok()?;
        let text = raw.get(split + 1..)?.split(|byte| *byte == b'\n').next()?;
        Some(Self {
            sequence,
            time: Duration::from_micros(micros),
            level: u8::try_from(priority & 7).ok()?,
            facility: priority >> 3,
            text: String::from_utf8_lossy(&crate::console::unescaped(text)).into_owned(),
            raw: raw.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_all_parts_when_a_record_has_properties() {
        let record =
            LogRecord::parse(b"12,1234,5678901,-,caller=T7;a;b\\x0ac\\x5cd\n SUBSYSTEM=pci\n").unwrap();
        assert_eq!((record.sequence, record.level, record.facility), (1234, 4, 1));
        assert_eq!(record.time, Duration::from_micros(5_678_901));
        assert_eq!(record.text, "a;b\nc\\d");
    }

    #[test]
    fn expect_nothing_when_it_is_no_record() {
        for raw in ["", ";", "6,1;x", "x,1,2,-;x", "6,-1,2,-;x", "6,1,2,-"] {
            assert_eq!(LogRecord::parse(raw.as_bytes()), None, "{raw}");
        }
    }
}
