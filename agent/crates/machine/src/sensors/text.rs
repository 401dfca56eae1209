//! Takes the kernel's text files apart: bytes in, numbers out, nothing allocated.

/// Lines without their ends.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// Words between blanks.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t' | b'\n')).filter(|word| !word.is_empty())
}

/// A decimal number.
pub(crate) fn unsigned(word: &[u8]) -> Option<u64> {
    digits(word, 10)
}

/// A decimal number that may have a minus.
pub(crate) fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(rest) => 0_i64.checked_sub_unsigned(unsigned(rest)?),
        None => i64::try_from(unsigned(word)?).ok(),
    }
}

/// A hexadecimal number.
pub(crate) fn hex(word: &[u8]) -> Option<u64> {
    digits(word, 16)
}

/// A decimal number with a fraction of up to 9 digits.
pub(crate) fn fraction(word: &[u8]) -> Option<f64> {
    let mut parts = word.splitn(2, |byte| *byte == b'.');
    let whole = u32::try_from(unsigned(parts.next()?)?).ok()?;
    let Some(part) = parts.next() else { return Some(f64::from(whole)) };
    let scale = 10_u32.checked_pow(u32::try_from(part.len()).ok()?)?;
    Some(f64::from(whole) + f64::from(u32::try_from(unsigned(part)?).ok()?) / f64::from(scale))
}

/// The number of the line `Name:   123 kB`, by its name with the colon.
pub(crate) fn field(text: &[u8], name: &[u8]) -> Option<u64> {
    let line = lines(text).find_map(|line| line.strip_prefix(name))?;
    unsigned(words(line).next()?)
}

fn digits(word: &[u8], radix: u32) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |number, byte| {
        let digit = char::from(*byte).to_digit(radix)?;
        number.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_numbers_or_nothing_when_words_are_read() {
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b""[..], b"-1", b"18446744073709551616", b"1x", b"+1", b"\xff"] {
            assert_eq!(unsigned(bad), None, "{bad:?}");
        }
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!((signed(b"9223372036854775808"), signed(b"-"), signed(b"--1")), (None, None, None));
        assert_eq!((hex(b"0015dBac"), hex(b"0x1")), (Some(0x15_dbac), None));
        assert_eq!((fraction(b"2.11"), fraction(b"7"), fraction(b"1.")), (Some(2.11), Some(7.0), None));
        assert_eq!((fraction(b".5"), fraction(b"1.99999999999999999999")), (None, None));
    }

    #[test]
    fn expect_the_named_line_when_a_field_is_asked_for() {
        let text = b"MemFree:    12 kB\nMem: 7\nNone:\n";
        assert_eq!(field(text, b"Mem:"), Some(7));
        assert_eq!(field(text, b"MemFree:"), Some(12));
        assert_eq!((field(text, b"None:"), field(text, b"Other:")), (None, None));
    }
}
