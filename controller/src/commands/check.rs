//! `drover check`: finds every mistake in matrix files and host files, and runs nothing.

use std::path::Path;

use drover_matrix::{HostEntry, Options, Source, is_host_file, parse_hosts};

use super::{
    hosts::abilities,
    load::{load, read, refuse},
};
use crate::{args::CheckArgs, error::Failure, exit::ExitStatus, screen::Screen};

/// Hosts of a file of which is said what they can be made, at most.
const MOST_HOSTS: usize = 8;

/// Checks the files one after the other; all are checked, even when the first has mistakes.
pub fn check(args: &CheckArgs, screen: &Screen) -> Result<ExitStatus, Failure> {
    let options = Options { set: args.set.clone(), only: args.only.clone(), ..Options::default() };
    let mut status = ExitStatus::Ok;
    for path in &args.files {
        match check_file(path, &options, screen) {
            Ok(found) => screen.say(&format!("{}: ok: {found}", path.display())),
            Err(failure) => {
                screen.complain(&failure.to_string());
                status = failure.status;
            }
        }
    }
    Ok(status)
}

/// What is in a file without mistakes.
fn check_file(path: &Path, options: &Options, screen: &Screen) -> Result<String, Failure> {
    if let Ok(bytes) = read(path)
        && is_host_file(&bytes)
    {
        let source = Source::new(path.display().to_string(), bytes);
        let file = parse_hosts(&source).map_err(|found| refuse(found, screen))?;
        let count = file.hosts.len();
        let mut found = if count == 1 { "1 host".to_owned() } else { format!("{count} hosts") };
        let can = |host: &HostEntry| Some(format!("\n  {} {}", host.name, abilities(host)?));
        file.hosts.iter().filter_map(can).take(MOST_HOSTS).for_each(|line| found.push_str(&line));
        return Ok(found);
    }
    let matrix = load(path, options, screen)?.matrix;
    let excluded = matrix.cells().filter(|planned| planned.excluded.is_some()).count();
    let note = if excluded > 0 { format!(", {excluded} of them excluded") } else { String::new() };
    Ok(format!("{} cells{note}, {} trials each", matrix.count(), matrix.policy().repeat))
}
