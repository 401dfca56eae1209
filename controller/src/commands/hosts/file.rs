//! Finds and reads the host file.

use std::path::{Path, PathBuf};

use drover_matrix::{HostFile, Source, parse_hosts};
use drover_store::RunRecord;

use super::super::load::{read, refuse};
use crate::{args::HostArgs, error::Failure, exit::ExitStatus, screen::Screen};

/// The host file that is used when none is named and it is there.
const USUAL: &str = "hosts.yaml";

/// Hosts, and where they come from.
pub struct HostSource {
    pub hosts: HostFile,
    /// Path as given and text of the file; `None` for the host `local` alone.
    pub file: Option<(String, String)>,
}

/// Reads the host file that the command line names, or `hosts.yaml` in the working directory if there is one; without either,
/// this machine is the only host.
pub fn load_hosts(args: &HostArgs, screen: &Screen) -> Result<HostSource, Failure> {
    let path = match &args.hosts {
        Some(path) => path.clone(),
        None if Path::new(USUAL).exists() => PathBuf::from(USUAL),
        None => return Ok(HostSource { hosts: HostFile::local(), file: None }),
    };
    let bytes = read(&path).map_err(|why| {
        Failure::new(ExitStatus::Usage, format!("cannot read the host file {}: {why}", path.display()))
    })?;
    let name = path.display().to_string();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let hosts = parse_hosts(&Source::new(name.clone(), bytes)).map_err(|found| refuse(found, screen))?;
    Ok(HostSource { hosts, file: Some((name, text)) })
}

/// The hosts that a stored run was begun with.
pub fn restore_hosts(record: &RunRecord, screen: &Screen) -> Result<HostSource, Failure> {
    let Some((path, text)) = &record.host_file else {
        return Ok(HostSource { hosts: HostFile::local(), file: None });
    };
    let source = Source::new(path.clone(), text.as_bytes());
    let hosts = parse_hosts(&source).map_err(|found| refuse(found, screen))?;
    Ok(HostSource { hosts, file: record.host_file.clone() })
}
