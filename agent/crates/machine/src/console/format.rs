//! Compares text with message formats as the kernel's source has them.
//!
//! `%d` is a decimal number, with blanks or a sign before it; `%x` a hexadecimal one, with `0x` or without, that is a whole word; `%s` is some text, at least one
//! character. All else is literal. A format matches the beginning of a text.

/// Longest text that `%s` stands for, in bytes: names of tasks, devices and files are shorter.
const TEXT_MAX: usize = 160;

/// The literal that a format begins with.
pub(super) fn anchor(format: &str) -> &str {
    format.split_once('%').map_or(format, |(anchor, _)| anchor)
}

/// Length of the beginning of `text` that `format` describes. Only formats with few `%s` are fast.
pub(super) fn match_length(format: &str, text: &[u8]) -> Option<usize> {
    let literal = anchor(format);
    let rest = text.strip_prefix(literal.as_bytes())?;
    let Some(format) = format.get(literal.len()..).filter(|format| !format.is_empty()) else {
        return Some(literal.len());
    };
    let (kind, after) = (format.get(..2)?, format.get(2..)?);
    let matched = match kind {
        "%d" => number(rest, u8::is_ascii_digit).and_then(|length| Some(length + tail(after, rest, length)?)),
        "%x" => {
            let zero_x = if rest.starts_with(b"0x") { 2 } else { 0 };
            let length = zero_x + number(rest.get(zero_x..)?, u8::is_ascii_hexdigit)?;
            // `double` begins with digits, too.
            rest.get(length).is_none_or(|byte| !byte.is_ascii_alphanumeric()).then_some(())?;
            Some(length + tail(after, rest, length)?)
        }
        _ => (1..=rest.len().min(TEXT_MAX)).find_map(|length| Some(length + tail(after, rest, length)?)),
    };
    Some(literal.len() + matched?)
}

fn tail(format: &str, text: &[u8], from: usize) -> Option<usize> {
    match_length(format, text.get(from..)?)
}

/// Length of a number with what may stand before it.
fn number(text: &[u8], is_digit: impl Fn(&u8) -> bool) -> Option<usize> {
    let before = text.iter().take_while(|byte| matches!(byte, b' ' | b'-')).count();
    let digits = text.iter().skip(before).take_while(|byte| is_digit(byte)).count();
    (digits > 0).then_some(before + digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_matches(format: &str, text: &str, matched: Option<&str>) {
        let length = match_length(format, text.as_bytes());
        assert_eq!(length.map(|length| &text[..length]), matched, "{format} on {text}");
    }

    #[test]
    fn expect_the_matched_beginning_when_a_format_is_compared() {
        assert_matches("soft lockup - CPU#%d", "soft lockup - CPU#12 stuck", Some("soft lockup - CPU#12"));
        assert_matches("soft lockup - CPU#%d", "soft lockup - CPU#x", None);
        assert_matches("wait_on_irq, CPU%d", "wait_on_irq, CPU 3:", Some("wait_on_irq, CPU 3"));
        assert_matches("Oops: %x [#%d]", "Oops: 00ae [#1] SMP", Some("Oops: 00ae [#1]"));
        assert_matches("Oops: %x", "Oops: double fault", None);
        assert_matches("code %x --", "code 0xbf000002 -- SError", Some("code 0xbf000002 --"));
        assert_matches(
            "task %s blocked for %ds",
            "task a b:1 blocked for 12s",
            Some("task a b:1 blocked for 12s"),
        );
        assert_matches("task %s!", "task !", None);
        assert_matches("task %s!", "task !!", Some("task !!"));
        assert_matches("at %s", "at ", None);
        assert_matches("", "x", Some(""));
    }

    #[test]
    fn expect_no_endless_search_when_a_text_has_no_end() {
        assert_matches(
            "a%sb",
            &format!("a{}b", "x".repeat(TEXT_MAX)),
            Some(&format!("a{}b", "x".repeat(TEXT_MAX))),
        );
        assert_matches("a%sb", &format!("a{}b", "x".repeat(TEXT_MAX + 1)), None);
    }
}
