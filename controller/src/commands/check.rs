//! `drover check`: finds every mistake in matrix files, and runs nothing.

use drover_matrix::Options;

use super::load::load;
use crate::{args::CheckArgs, error::Failure, exit::ExitStatus, screen::Screen};

/// Checks the files one after the other; all are checked, even when the first has mistakes.
pub fn check(args: &CheckArgs, screen: &Screen) -> Result<ExitStatus, Failure> {
    let options = Options { set: args.set.clone(), only: args.only.clone(), ..Options::default() };
    let mut status = ExitStatus::Ok;
    for path in &args.matrices {
        match load(path, &options, screen) {
            Ok(loaded) => {
                let matrix = &loaded.matrix;
                let excluded = matrix.cells().filter(|planned| planned.excluded.is_some()).count();
                let cells = matrix.count();
                let note =
                    if excluded > 0 { format!(", {excluded} of them excluded") } else { String::new() };
                let repeat = matrix.policy().repeat;
                screen.say(&format!("{}: ok: {cells} cells{note}, {repeat} trials each", path.display()));
            }
            Err(failure) => {
                screen.complain(&failure.to_string());
                status = failure.status;
            }
        }
    }
    Ok(status)
}
