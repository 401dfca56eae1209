//! The patterns of `ssh_config(5)` and `known_hosts`: `*`, `?`, and lists with `!`. Pure.

/// Whether `text` matches `pattern`, in which `*` is any number of characters and `?` is one. Case of ASCII letters is
/// ignored, as in host names.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut read) = (0, 0);
    // Where the last star was, and how far it reaches.
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(read) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted.eq_ignore_ascii_case(byte) => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((star_at, reach)) = star else { return false };
                star = Some((star_at, reach + 1));
                at = star_at + 1;
                read = reach + 1;
            }
        }
    }
    pattern.iter().skip(at).all(|byte| *byte == b'*')
}

/// Whether one of the patterns matches, and none of those with a `!` before them.
pub(super) fn list_matches<'a>(patterns: impl IntoIterator<Item = &'a str>, text: &str) -> bool {
    let mut found = false;
    for pattern in patterns {
        match pattern.strip_prefix('!') {
            Some(negated) if matches(negated, text) => return false,
            Some(_) => {}
            None => found |= matches(pattern, text),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_stars_and_question_marks_to_stand_for_characters_when_matched() {
        for (pattern, text) in [
            ("db1", "db1"),
            ("DB1", "db1"),
            ("*", ""),
            ("*", "anything"),
            ("db?", "db1"),
            ("*.example.org", "a.b.example.org"),
            ("a*b*c", "axxbyybzc"),
            ("192.168.0.?", "192.168.0.7"),
            ("db**", "db"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("db?", "db"),
            ("db?", "db12"),
            ("*.example.org", "example.org"),
            ("a*b", "ab1"),
            ("", "x"),
            ("x", ""),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn expect_no_match_when_a_negated_pattern_matches() {
        assert!(list_matches(["!db2", "db*"], "db1"));
        assert!(!list_matches(["db*", "!db2"], "db2"));
        assert!(!list_matches(["!db2"], "db1"));
    }
}
