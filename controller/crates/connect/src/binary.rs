//! The agent's program, as a file that can be brought to other hosts.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Environment variable that names the program.
const VARIABLE: &str = "DROVER_AGENT";

/// Name of the program that is the agent alone.
const NAME: &str = "drover-agent";

/// How an executable file begins (`elf(5)`), and where it says for which machine it is.
const ELF_MAGIC: &[u8] = b"\x7fELF";
const ELF_LITTLE_ENDIAN: u8 = 1;
const ELF_DATA_AT: usize = 5;
const ELF_MACHINE_AT: usize = 18;

/// Numbers of machines in such files, and what `uname -m` says on machines that run them.
const MACHINES: [(u16, &[&str]); 8] = [
    (62, &["x86_64"]),
    (183, &["aarch64", "arm64"]),
    (243, &["riscv64"]),
    (40, &["armv6l", "armv7l", "armv8l"]),
    (3, &["i386", "i486", "i586", "i686", "x86_64"]),
    (21, &["ppc64", "ppc64le"]),
    (22, &["s390x"]),
    (258, &["loongarch64"]),
];

/// A program that acts as the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentBinary {
    /// The file.
    pub path: PathBuf,
    /// Arguments that come before the agent's subcommand: none for `drover-agent`, `agent` for `drover`.
    pub args: Vec<String>,
    /// BLAKE3 of its bytes, in hexadecimal digits: its version.
    pub hash: String,
}

/// Why there is no program for the agent.
#[derive(Debug, thiserror::Error)]
pub enum BinaryError {
    /// Where this program is cannot be found out.
    #[error("cannot find this program's own file; name the agent in {VARIABLE}")]
    Own(#[source] io::Error),
    /// The file cannot be read.
    #[error("cannot read the agent `{}`; build it with scripts/build-agent and name it in {VARIABLE}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl AgentBinary {
    /// The program to bring to hosts: what `DROVER_AGENT` names, else `drover-agent` beside this program, else this
    /// program itself, which acts as the agent when it is called with `agent`.
    ///
    /// The last may run only on hosts like this one. Reads the whole file, so do it once.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn find() -> Result<Self, BinaryError> {
        if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            return Self::read(PathBuf::from(path), Vec::new());
        }
        let own = std::env::current_exe().map_err(BinaryError::Own)?;
        let beside = own.with_file_name(NAME);
        if beside.is_file() {
            return Self::read(beside, Vec::new());
        }
        Self::read(own, vec!["agent".to_owned()])
    }

    /// The program in this file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: PathBuf, args: Vec<String>) -> Result<Self, BinaryError> {
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Self { hash: blake3::hash(&bytes).to_hex().to_string(), path, args }),
            Err(source) => Err(BinaryError::Read { path, source }),
        }
    }

    /// What the program is for, if that is not a machine of which `uname -sm` says `system`.
    pub(crate) fn not_for(&self, bytes: &[u8], system: &str) -> Option<String> {
        not_for(&self.path, bytes, system)
    }
}

fn not_for(path: &Path, bytes: &[u8], system: &str) -> Option<String> {
    let Some(machine) = elf_machine(bytes) else {
        return Some(format!("nothing: `{}` is no ELF file", path.display()));
    };
    let (kernel, hardware) = system.split_once(' ').unwrap_or((system, ""));
    let names = MACHINES.iter().find(|(number, _)| *number == machine).map(|(_, names)| *names);
    match names {
        Some(names) if kernel == "Linux" && names.contains(&hardware) => None,
        // It may be; whether it runs will show.
        None if kernel == "Linux" => None,
        Some(names) => Some(format!("Linux {}", names.first().copied().unwrap_or_default())),
        None => Some("Linux".to_owned()),
    }
}

fn elf_machine(bytes: &[u8]) -> Option<u16> {
    let number =
        bytes.strip_prefix(ELF_MAGIC).and(bytes.get(ELF_MACHINE_AT..)?.first_chunk::<2>().copied())?;
    let little_endian = *bytes.get(ELF_DATA_AT)? == ELF_LITTLE_ENDIAN;
    Some(if little_endian { u16::from_le_bytes(number) } else { u16::from_be_bytes(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_this_program_to_be_for_this_machine_and_no_other() {
        let own = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&own).unwrap();
        let uname = rustix::system::uname();
        let here = format!("Linux {}", uname.machine().to_str().unwrap());
        assert_eq!(not_for(&own, &bytes, &here), None);
        assert_eq!(not_for(&own, &bytes, "Linux mips"), Some(here));
        assert!(not_for(&own, &bytes, "FreeBSD amd64").is_some());
        assert!(not_for(&own, b"#!/bin/sh", "Linux x86_64").unwrap().contains("no ELF file"));
    }

    #[test]
    fn expect_the_remedy_when_the_program_is_missing() {
        let error = AgentBinary::read(PathBuf::from("/no/agent"), Vec::new()).unwrap_err().to_string();
        assert!(error.contains("/no/agent") && error.contains("scripts/build-agent"), "{error}");
    }
}
