//! `drover kernels`: the catalogue of kernels that virtual machines can boot.

use comfy_table::{Table, presets};
use drover_vm::{AptOptions, Catalogue, CatalogueError, FetchError, Kernel};

use super::hosts::catalogue;
use crate::{
    Context,
    args::{KernelsArgs, KernelsCommand},
    driver::chain,
    error::Failure,
    exit::ExitStatus,
};

/// Digits of a hash that are shown.
const HASH: usize = 12;

/// Fetches, lists or removes kernels.
pub fn kernels(args: &KernelsArgs, context: &Context) -> Result<ExitStatus, Failure> {
    let catalogue = catalogue(args.dir.as_deref())?;
    match &args.command {
        KernelsCommand::Fetch { package, label } => fetch(&catalogue, package, label.as_deref(), context),
        KernelsCommand::List => list(&catalogue, context),
        KernelsCommand::Remove { labels } => remove(&catalogue, labels, context),
    }
}

fn fetch(
    catalogue: &Catalogue,
    package: &str,
    label: Option<&str>,
    context: &Context,
) -> Result<ExitStatus, Failure> {
    let fetched = catalogue.fetch(package, label, &AptOptions::default());
    let kernel = fetched.map_err(|error| {
        let status = match &error {
            FetchError::Source(_) | FetchError::Unknown { .. } | FetchError::NoImage { .. } => {
                ExitStatus::Usage
            }
            FetchError::Catalogue(CatalogueError::Label(_) | CatalogueError::Taken { .. }) => {
                ExitStatus::Usage
            }
            _ => ExitStatus::Infrastructure,
        };
        Failure::new(status, chain(&error))
    })?;
    let (from, label) = (origin(&kernel), &kernel.label);
    context.screen.say(&format!("`{label}` is {} from {from}, {}", kernel.release, kernel.image.display()));
    Ok(ExitStatus::Ok)
}

fn list(catalogue: &Catalogue, context: &Context) -> Result<ExitStatus, Failure> {
    let kernels = catalogue.list().map_err(|error| Failure::infrastructure(&error))?;
    if kernels.is_empty() {
        let hint = "`drover kernels fetch debian:linux-image-cloud-amd64` gets one";
        context.screen.say(&format!("no kernels in {}; {hint}", catalogue.root().display()));
        return Ok(ExitStatus::Ok);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["label", "release", "version", "from", "blake3"]);
    for kernel in &kernels {
        let hash = kernel.hash.get(..HASH).unwrap_or(&kernel.hash).to_owned();
        table.add_row([&kernel.label, &kernel.release, &kernel.version, &origin(kernel), &hash]);
    }
    let text: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    let _ = context.screen.out(&drover_report::printable_lines(&(text.join("\n") + "\n")));
    Ok(ExitStatus::Ok)
}

/// Where a kernel came from.
fn origin(kernel: &Kernel) -> String {
    match (&kernel.package, &kernel.package_version) {
        (Some(package), Some(version)) => format!("{package} {version}"),
        (Some(package), None) => package.clone(),
        (None, _) => kernel.image.display().to_string(),
    }
}

fn remove(catalogue: &Catalogue, labels: &[String], context: &Context) -> Result<ExitStatus, Failure> {
    for label in labels {
        catalogue.remove(label).map_err(|error| match &error {
            CatalogueError::Unknown { .. } | CatalogueError::Label(_) => {
                Failure::new(ExitStatus::Usage, chain(&error))
            }
            _ => Failure::infrastructure(&error),
        })?;
        context.screen.say(&format!("removed `{label}`"));
    }
    Ok(ExitStatus::Ok)
}
