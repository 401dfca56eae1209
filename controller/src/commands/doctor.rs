//! `drover doctor`: what on this machine would spoil a measurement, and what to do about it.

use std::path::Path;

use drover_matrix::Options;
use drover_store::ResultsDir;

use super::{
    hosts::check_hosts,
    load::load as load_matrix,
    preflight::{Finding, Needs, bad, doubtful, good, judge, show},
    requires,
};
use crate::{Context, args::DoctorArgs, driver::chain, error::Failure, exit::ExitStatus};

/// Free space below which results are in danger, in bytes.
const FREE_SPACE: u64 = 1 << 30;

/// Prints what it finds. Fails if a run would fail.
pub fn doctor(args: &DoctorArgs, context: &Context) -> Result<ExitStatus, Failure> {
    let loaded = args.matrix.as_deref().map(|path| load_matrix(path, &Options::default(), &context.screen));
    let loaded = loaded.transpose()?;
    let (text, failed) = if args.hosts.is_some() {
        check_hosts(args, loaded.as_ref().map(|loaded| &loaded.matrix), context)?
    } else {
        let mut facts = drover_machine::facts("", 0);
        facts.open_files_limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        let needs = loaded.as_ref().map(|loaded| Needs::of(&loaded.matrix, |_| true)).unwrap_or_default();
        let mut findings = judge(&facts, &drover_agent::survey(&needs.ports), &needs);
        findings.push(results_folder(&context.global.results));
        if let Some(loaded) = loaded {
            findings.push(match requires::check(&loaded.matrix) {
                Ok(()) => good("commands", "all that the matrix requires are installed".to_owned()),
                Err(failure) => bad("commands", failure.to_string(), "install the packages named".to_owned()),
            });
        }
        let mut text = String::new();
        let failed = show(&findings, &mut text);
        (text, failed)
    };
    let _ = context.screen.out(&drover_report::printable_lines(&text));
    Ok(if failed { ExitStatus::Infrastructure } else { ExitStatus::Ok })
}

fn results_folder(path: &Path) -> Finding {
    let dir = match ResultsDir::create(path) {
        Ok(dir) => dir,
        Err(error) => return bad("results", chain(&error), ""),
    };
    match rustix::fs::statvfs(dir.path()) {
        Ok(stat) if stat.f_bavail.saturating_mul(stat.f_frsize) < FREE_SPACE => {
            let mib = stat.f_bavail.saturating_mul(stat.f_frsize) >> 20;
            let text = format!("{} has {mib} MiB free", dir.path().display());
            doubtful("results", text, "free some space, or name another folder with --results")
        }
        Ok(stat) => {
            let gib = stat.f_bavail.saturating_mul(stat.f_frsize) >> 30;
            good("results", format!("{} has {gib} GiB free", dir.path().display()))
        }
        Err(error) => bad("results", format!("{}: {error}", dir.path().display()), ""),
    }
}
