//! Finding a run by what a user types: `last`, or the beginning of its id.

use drover_model::RunId;

use crate::{RunName, StoreError};

/// Candidates named in a message.
const NAMED: usize = 5;

/// Why no run, or not one run, was found.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum FindError {
    #[error("there are no runs in this store yet")]
    NoRuns,
    #[error("no run has an id that begins with `{wanted}`: `drover list` shows all")]
    NotFound { wanted: String },
    #[error("{count} runs have an id that begins with `{wanted}`: {}", named(candidates, *count))]
    Ambiguous { wanted: String, count: usize, candidates: Vec<RunName> },
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn named(candidates: &[RunName], count: usize) -> String {
    let mut text =
        candidates.iter().map(|run| format!("{} ({})", run.id, run.name)).collect::<Vec<_>>().join(", ");
    if count > candidates.len() {
        text.push_str(", ...");
    }
    text
}

/// Picks the run that `wanted` means. Hyphens and letter case do not matter.
pub(crate) fn find(runs: &[RunName], wanted: &str) -> Result<RunId, FindError> {
    if wanted == "last" {
        return runs.last().map(|run| run.id).ok_or(FindError::NoRuns);
    }
    let digits = wanted.replace('-', "").to_ascii_lowercase();
    let fits = |run: &&RunName| !digits.is_empty() && run.id.0.as_simple().to_string().starts_with(&digits);
    let mut found: Vec<&RunName> = runs.iter().filter(fits).collect();
    match found.as_slice() {
        [] if runs.is_empty() => Err(FindError::NoRuns),
        [] => Err(FindError::NotFound { wanted: wanted.to_owned() }),
        [one] => Ok(one.id),
        many => {
            let count = many.len();
            found.truncate(NAMED);
            let candidates = found.into_iter().cloned().collect();
            Err(FindError::Ambiguous { wanted: wanted.to_owned(), count, candidates })
        }
    }
}
