//! "Did you mean": the known word closest to a mistyped one.

/// The known word closest to `word`, if any is close enough to be a slip of the fingers.
pub(crate) fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    // `environment` for `env`: one is the beginning of the other.
    let begins = |candidate: &str| {
        candidate.len() >= 3
            && lower.len() >= 3
            && (lower.starts_with(candidate) || candidate.starts_with(&lower))
    };
    known
        .into_iter()
        .filter(|candidate| *candidate != word)
        .map(|candidate| (distance(&lower, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= allowed || begins(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edits between two words, where a changed case, or `-` for `_`, costs nothing.
fn distance(lower: &str, candidate: &str) -> usize {
    let candidate = candidate.to_lowercase();
    if lower.replace('-', "_") == candidate.replace('-', "_") {
        return 0;
    }
    strsim::damerau_levenshtein(lower, &candidate)
}

/// Did you mean `closest`? Then all that is known: "did you mean `run`? Known keys: a, b, c".
pub(crate) fn remedy<'a, I>(word: &str, known: I, what: &str) -> String
where
    I: IntoIterator<Item = &'a str> + Clone,
{
    let list = known.clone().into_iter().collect::<Vec<_>>().join(", ");
    let all = if list.is_empty() { String::new() } else { format!("{what}: {list}") };
    match closest(word, known) {
        Some(candidate) => format!("did you mean `{candidate}`? {all}").trim_end().to_owned(),
        None => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_a_suggestion_when_few_letters_differ() {
        let known = ["run", "shell", "measure", "epoll-exclusive"];
        assert_eq!(closest("mesure", known), Some("measure"));
        assert_eq!(closest("Shell", known), Some("shell"));
        assert_eq!(closest("epoll_exclusive", known), Some("epoll-exclusive"));
        assert_eq!(closest("rnu", known), Some("run"));
        assert_eq!(closest("environment", ["env", "run"]), Some("env"));
        assert_eq!(closest("placement", known), None);
        assert_eq!(remedy("rnu", ["run", "shell"], "keys here"), "did you mean `run`? keys here: run, shell");
    }
}
