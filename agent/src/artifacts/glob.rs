//! Patterns for paths below a folder: `*` and `?` within a name, `**` for any number of folders. There is nothing else to
//! them; names that begin with a dot are names like others.

/// Most patterns of one request.
const MAX_PATTERNS: usize = 64;

/// Longest pattern, in bytes.
const MAX_LENGTH: usize = 1024;

/// Patterns, of which a path has to match one.
#[derive(Clone, Debug)]
pub struct Patterns(Vec<Vec<String>>);

/// How far the names of a path have matched: (pattern, its next part).
pub(super) type Places = Vec<(usize, usize)>;

impl Patterns {
    /// Reads patterns.
    ///
    /// # Errors
    /// When there are too many, or one leads out of the folder.
    pub fn new(texts: &[String]) -> Result<Self, PatternError> {
        if texts.len() > MAX_PATTERNS {
            return Err(PatternError::TooMany(texts.len()));
        }
        texts.iter().map(|text| parts(text)).collect::<Result<_, _>>().map(Self)
    }

    /// Where every path begins.
    pub(super) fn start(&self) -> Places {
        let mut places = Places::new();
        (0..self.0.len()).for_each(|pattern| self.reach(&mut places, (pattern, 0)));
        places
    }

    /// What is left of the patterns after one more name, and whether one is complete.
    pub(super) fn step(&self, places: &Places, name: &str) -> (Places, bool) {
        let (mut next, mut complete) = (Places::new(), false);
        for &(pattern, at) in places {
            let Some(parts) = self.0.get(pattern) else { continue };
            match parts.get(at) {
                Some(part) if part == "**" => self.reach(&mut next, (pattern, at)),
                Some(part) if matches(part, name) => {
                    complete |= at + 1 == parts.len();
                    self.reach(&mut next, (pattern, at + 1));
                }
                _ => {}
            }
        }
        (next, complete)
    }

    /// Adds a place, and those behind a `**` that stands for no folder.
    fn reach(&self, places: &mut Places, (pattern, at): (usize, usize)) {
        let end = self.0.get(pattern).map_or(0, Vec::len);
        if at >= end || places.contains(&(pattern, at)) {
            return;
        }
        places.push((pattern, at));
        if self.is_any(pattern, at) {
            self.reach(places, (pattern, at + 1));
        }
    }

    fn is_any(&self, pattern: usize, at: usize) -> bool {
        self.0.get(pattern).and_then(|parts| parts.get(at)).is_some_and(|part| part == "**")
    }
}

/// The parts of a pattern. A `**` at the end means all files below.
fn parts(text: &str) -> Result<Vec<String>, PatternError> {
    let refuse = |problem| PatternError::Bad { pattern: text.to_owned(), problem };
    if text.len() > MAX_LENGTH {
        return Err(refuse("is too long"));
    }
    if text.starts_with('/') {
        return Err(refuse("is absolute"));
    }
    if text.chars().any(char::is_control) {
        return Err(refuse("has control characters"));
    }
    let mut parts: Vec<String> = Vec::new();
    for part in text.split('/').filter(|part| *part != ".") {
        match part {
            "" => return Err(refuse("has an empty name")),
            ".." => return Err(refuse("leads out of the folder")),
            "**" if parts.last().is_some_and(|last| last == "**") => {}
            part if part.contains("**") && part != "**" => {
                return Err(refuse("has a `**` that is not a whole name"));
            }
            part => parts.push(part.to_owned()),
        }
    }
    match parts.last().map(String::as_str) {
        None => return Err(refuse("names nothing")),
        Some("**") => parts.push("*".to_owned()),
        Some(_) => {}
    }
    Ok(parts)
}

/// Whether a name matches: `*` stands for any characters, `?` for one. Takes time in proportion to both lengths: only the
/// last `*` is ever tried again.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where to go on when the rest does not match: behind the last `*`, one character later.
    let mut retry = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(wanted) if *wanted == '?' || name.get(n) == Some(wanted) => {
                p += 1;
                n += 1;
            }
            _ => match retry.as_mut() {
                Some((behind, from)) => {
                    *from += 1;
                    (p, n) = (*behind, *from);
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|c| *c == '*'))
}

/// Why patterns are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// One cannot be used.
    #[error("the pattern `{pattern}` {problem}")]
    Bad {
        /// Which.
        pattern: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// There are too many.
    #[error("{0} patterns are given, {MAX_PATTERNS} are allowed")]
    TooMany(usize),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn selects(pattern: &str, path: &str) -> bool {
        let patterns = Patterns::new(&[pattern.to_owned()]).unwrap();
        let (mut places, mut complete) = (patterns.start(), false);
        for name in path.split('/') {
            (places, complete) = patterns.step(&places, name);
        }
        complete
    }

    #[test]
    fn expect_the_paths_that_people_mean_when_patterns_have_stars() {
        for (pattern, path, expected) in [
            ("*.log", "a.log", true),
            ("*.log", ".log", true),
            ("*.log", "a.log.gz", false),
            ("*.log", "a/b.log", false),
            ("a/*", "a/b", true),
            ("a/*", "a", false),
            ("a/*", "a/b/c", false),
            ("**/*.log", "a.log", true),
            ("**/*.log", "x/y/a.log", true),
            ("a/**", "a/b/c", true),
            ("a/**", "a/b", true),
            ("a/**", "a", false),
            ("**", "a/b", true),
            ("a/**/z", "a/z", true),
            ("a/**/z", "a/b/z/z", true),
            ("a/**/z", "a/b/zz", false),
            ("./a?c", "abc", true),
            ("a?c", "aéc", true),
            ("a?c", "ac", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("[ab]", "[ab]", true),
        ] {
            assert_eq!(selects(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn expect_a_refusal_when_a_pattern_leads_out_or_means_nothing() {
        for bad in ["/etc/*", "../*", "a/../b", "", ".", "a//b", "a/", "a**b", "a\nb"] {
            assert!(matches!(Patterns::new(&[bad.to_owned()]), Err(PatternError::Bad { .. })), "{bad:?}");
        }
        assert_eq!(Patterns::new(&vec!["a".to_owned(); 65]).unwrap_err(), PatternError::TooMany(65));
    }

    proptest! {
        #[test]
        fn a_name_matches_itself_and_itself_with_stars(name in "[a-c]{1,12}", cut in 0_usize..12) {
            let cut = cut.min(name.len());
            let (left, right) = name.split_at(cut);
            let starred = format!("{left}*{right}");
            prop_assert!(matches(&name, &name));
            prop_assert!(matches(&starred, &name));
            let longer = format!("{starred}d");
            prop_assert!(!matches(&longer, &name));
        }
    }
}
