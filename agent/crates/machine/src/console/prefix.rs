//! What stands before a message: levels, times, callers, records of `/dev/kmsg`, host names of syslog.

use std::time::Duration;

/// What was found before a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prefix {
    /// Where the message begins.
    pub(super) text: usize,
    /// Time since boot by the kernel's clock.
    pub(super) time: Option<Duration>,
    /// Whether a process wrote it: the kernel's log and its console carry both.
    pub(super) from_process: bool,
    /// Whether the line is a record of `/dev/kmsg`, which escapes some bytes.
    pub(super) record: bool,
}

/// Reads forward in a line.
#[derive(Clone, Copy)]
struct Reader<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(self) -> &'a [u8] {
        self.line.get(self.at..).unwrap_or_default()
    }

    fn byte(&mut self, wanted: u8) -> Option<()> {
        let found = self.rest().first() == Some(&wanted);
        self.at += usize::from(found);
        found.then_some(())
    }

    fn blanks(&mut self) -> usize {
        let count = self.rest().iter().take_while(|byte| **byte == b' ').count();
        self.at += count;
        count
    }

    /// Some digits, at most 20.
    fn digits(&mut self) -> Option<&'a [u8]> {
        let count = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = self.rest().get(..count).filter(|digits| (1..=20).contains(&digits.len()))?;
        self.at += count;
        Some(digits)
    }

    fn number(&mut self) -> Option<u64> {
        std::str::from_utf8(self.digits()?).ok()?.parse().ok()
    }

    /// A word that holds no blank, without the blanks after it.
    fn word(&mut self) -> Option<&'a [u8]> {
        let length = self.rest().iter().position(|byte| *byte == b' ').filter(|length| *length > 0)?;
        let word = self.rest().get(..length)?;
        self.at += length;
        self.blanks();
        Some(word)
    }
}

/// Reads what stands before the message of a line.
pub(super) fn read(line: &[u8]) -> Prefix {
    let mut prefix = Prefix::default();
    let mut reader = Reader { line, at: 0 };
    if let Some((after, priority, micros)) = kmsg(reader) {
        prefix.record = true;
        prefix.from_process = priority > 7;
        prefix.time = Some(Duration::from_micros(micros));
        reader = after;
    }
    if let Some((after, kernel)) = syslog(reader) {
        prefix.from_process = !kernel;
        reader = after;
    }
    while let Some(after) = level(reader, &mut prefix)
        .or_else(|| time(reader, &mut prefix))
        .or_else(|| date(reader))
        .or_else(|| caller(reader))
        .or_else(|| host_and_kernel(reader))
    {
        reader = after;
    }
    prefix.from_process |= is_process_name(reader.rest());
    prefix.text = reader.at;
    prefix
}

/// `6,1234,5678901,-;` and perhaps `caller=T12` before the semicolon: priority (facility and level), and microseconds.
fn kmsg(mut reader: Reader<'_>) -> Option<(Reader<'_>, u64, u64)> {
    let priority = reader.number()?;
    reader.byte(b',')?;
    reader.number()?;
    reader.byte(b',')?;
    let micros = reader.number()?;
    reader.byte(b',')?;
    let flags = reader.rest().iter().take(64).position(|byte| *byte == b';')?;
    reader.at += flags + 1;
    Some((reader, priority, micros))
}

/// `Nov 21 23:48:11 host kernel: ` or `2026-11-21T23:48:11.5+00:00 host kernel: `, and whether the kernel is named.
fn syslog(mut reader: Reader<'_>) -> Option<(Reader<'_>, bool)> {
    let first = reader.word()?;
    if first.len() == 3 && first.first()?.is_ascii_uppercase() {
        reader.number()?;
        reader.blanks();
        is_clock(reader.word()?).then_some(())?;
    } else {
        is_iso_date(first).then_some(())?;
    }
    reader.word()?;
    let name = reader.rest().iter().take(64).position(|byte| *byte == b':')?;
    let kernel = reader.rest().get(..name)? == b"kernel";
    reader.at += name + 1;
    reader.blanks();
    Some((reader, kernel))
}

/// `23:48:11`.
fn is_clock(word: &[u8]) -> bool {
    word.len() == 8 && word.iter().enumerate().all(|(at, byte)| (at % 3 == 2) == (*byte == b':'))
}

/// `2026-11-21T23:48:11` and what may follow.
fn is_iso_date(word: &[u8]) -> bool {
    word.len() >= 19
        && word.get(4) == Some(&b'-')
        && word.get(10) == Some(&b'T')
        && word.get(11..19).is_some_and(is_clock)
}

/// `<4>`, or `kern  :warn  : `.
fn level<'a>(mut reader: Reader<'a>, prefix: &mut Prefix) -> Option<Reader<'a>> {
    if reader.byte(b'<').is_some() {
        let priority = reader.number().filter(|priority| *priority < 1024)?;
        reader.byte(b'>')?;
        prefix.from_process |= priority > 7;
        return Some(reader);
    }
    let words = reader.rest().get(..15).filter(|words| words.ends_with(b": "))?;
    let (facility, level) = (words.get(..6)?, words.get(7..13)?);
    let is_word = |word: &[u8]| word.trim_ascii_end().iter().all(u8::is_ascii_lowercase);
    (words.get(6) == Some(&b':') && is_word(facility) && is_word(level)).then_some(())?;
    prefix.from_process |= facility.trim_ascii_end() != b"kern";
    reader.at += 15;
    Some(reader)
}

/// `[   12.345678] `.
fn time<'a>(mut reader: Reader<'a>, prefix: &mut Prefix) -> Option<Reader<'a>> {
    reader.byte(b'[')?;
    reader.blanks();
    let seconds = reader.number()?;
    reader.byte(b'.')?;
    let fraction = reader.digits().filter(|digits| digits.len() <= 9)?;
    reader.byte(b']')?;
    reader.blanks();
    let scale = 10_u64.checked_pow(9 - u32::try_from(fraction.len()).ok()?)?;
    let fraction: u64 = std::str::from_utf8(fraction).ok()?.parse().ok()?;
    prefix.time = Some(Duration::from_secs(seconds) + Duration::from_nanos(fraction * scale));
    Some(reader)
}

/// `[Mon Nov 21 23:48:11 2026] ` or `2026-11-21T23:48:11,123456+00:00 `, as dmesg prints on request.
fn date(mut reader: Reader<'_>) -> Option<Reader<'_>> {
    if reader.byte(b'[').is_some() {
        let inside = reader.rest().get(..25).filter(|inside| inside.ends_with(b"]"))?;
        inside.get(11..19).is_some_and(is_clock).then_some(())?;
        reader.at += 25;
    } else {
        is_iso_date(reader.word()?).then_some(())?;
    }
    reader.blanks();
    Some(reader)
}

/// `[ T123] ` or `[ C1] `.
fn caller(mut reader: Reader<'_>) -> Option<Reader<'_>> {
    reader.byte(b'[')?;
    reader.blanks();
    reader.byte(b'T').or_else(|| reader.byte(b'C'))?;
    reader.number()?;
    reader.byte(b']')?;
    reader.blanks();
    Some(reader)
}

/// `host kernel: ` after a time, as journalctl prints on request.
fn host_and_kernel(mut reader: Reader<'_>) -> Option<Reader<'_>> {
    (reader.at > 0).then_some(())?;
    reader.word().filter(|host| !host.ends_with(b":"))?;
    let name: &[u8] = b"kernel: ";
    reader.rest().starts_with(name).then_some(())?;
    reader.at += name.len();
    Some(reader)
}

/// `httpd[1234]: `: the kernel speaks of processes without the colon.
fn is_process_name(text: &[u8]) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.@/()-".contains(byte);
    let name = text.iter().take(64).take_while(|byte| is_name(byte)).count();
    let Some(rest) = text.get(name..).and_then(|rest| rest.strip_prefix(b"[")) else { return false };
    let digits = rest.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
    name > 0 && digits > 0 && rest.get(digits..).is_some_and(|rest| rest.starts_with(b"]:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_prefix(line: &str, text: &str, micros: Option<u64>, from_process: bool) {
        let prefix = read(line.as_bytes());
        assert_eq!(&line[prefix.text..], text, "{line}");
        assert_eq!(prefix.time, micros.map(Duration::from_micros), "{line}");
        assert_eq!(prefix.from_process, from_process, "{line}");
    }

    #[test]
    fn expect_text_and_time_when_the_kernel_wrote_the_line() {
        assert_prefix("plain", "plain", None, false);
        assert_prefix("[    1.25] x", "x", Some(1_250_000), false);
        assert_prefix("<4>[   12.345678][  T123] x", "x", Some(12_345_678), false);
        assert_prefix("[   12.345678][    C1] x", "x", Some(12_345_678), false);
        assert_prefix("[   12.345678] [T123] x", "x", Some(12_345_678), false);
        assert_prefix("6,1234,5678901,-;x", "x", Some(5_678_901), false);
        assert_prefix("6,1234,5678901,-,caller=T12;x", "x", Some(5_678_901), false);
        assert_prefix("Nov  1 23:48:11 host kernel: [ 1.5] x", "x", Some(1_500_000), false);
        assert_prefix("2026-11-21T23:48:11.5+00:00 host kernel: x", "x", None, false);
        assert_prefix("[Mon Nov 21 23:48:11 2026] x", "x", None, false);
        assert_prefix("2026-11-21T23:48:11,123456+00:00 x", "x", None, false);
        assert_prefix("kern  :warn  : [   12.345678] x", "x", Some(12_345_678), false);
        assert_prefix("[   12.345678] host kernel: x", "x", Some(12_345_678), false);
    }

    #[test]
    fn expect_a_process_when_the_line_names_one_or_has_its_facility() {
        assert_prefix("12,1234,5678901,-;x", "x", Some(5_678_901), true);
        assert_prefix("<30>x", "x", None, true);
        assert_prefix("[    1.25] systemd[1]: x", "systemd[1]: x", Some(1_250_000), true);
        assert_prefix("Nov 21 23:48:11 host httpd[12]: x", "x", None, true);
        assert_prefix("user  :warn  : x", "x", None, true);
    }

    #[test]
    fn expect_a_message_when_it_only_resembles_a_prefix() {
        for line in [
            "[<c011a747>] x",
            "[  OK  ] Started x",
            "[12.x] y",
            "<x>",
            "6,1234,x",
            "[ 1.1234567890123] x",
            "httpd[1234] general protection fault",
            "[99999999999999999999999.5] x",
            "",
        ] {
            assert_prefix(line, line, None, false);
        }
    }
}
