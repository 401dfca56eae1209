//! Puts an initramfs together: `drover-init`, the program that it starts, the modules that reach it, and what all of
//! them need.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    cpio::{Cpio, TooLarge},
    modules::{Modules, ModulesError},
    program::{ProgramError, program},
};
use crate::guest::{CONFIG_PATH, GuestConfig};

/// Without these there is no way to the agent.
const WANTED: [&str; 2] = ["virtio_pci", "virtio_console"];

/// Entropy at boot, a panic told to QEMU (both of its devices), the power button, the watchdog.
const WISHED: [&str; 6] = ["virtio_rng", "pvpanic_pci", "pvpanic_mmio", "button", "evdev", "i6300esb"];

/// Where the program is in the guest.
const PROGRAM_PATH: &str = "bin/drover-agent";

/// What goes into an initramfs.
#[derive(Clone, Debug)]
pub struct InitramfsSpec {
    /// `drover-init`, best linked statically.
    pub init: PathBuf,
    /// The program that it starts: the agent, best linked statically.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// The Unix socket on which it will serve, in the guest.
    pub socket: PathBuf,
    /// What `/lib/modules/RELEASE` is for the kernel; `None` if all that is needed is built in.
    pub modules: Option<PathBuf>,
    /// More modules to load, by name.
    pub more_modules: Vec<String>,
    /// More files: where they are here, and where they go in the guest. Programs take their libraries along.
    pub files: Vec<(PathBuf, String)>,
}

/// Why there is no initramfs.
#[derive(Debug, thiserror::Error)]
pub enum InitramfsError {
    /// No modules that would do.
    #[error("the kernel's modules do not do")]
    Modules(#[from] ModulesError),
    /// A program cannot go along.
    #[error("a program cannot go into the initramfs")]
    Program(#[from] ProgramError),
    /// A file is too large.
    #[error("a file does not fit")]
    TooLarge(#[from] TooLarge),
    /// What the guest is told cannot be written down.
    #[error("cannot write down what drover-init is to do")]
    Config(#[source] serde_json::Error),
}

/// Makes the archive, uncompressed: to decompress it takes an emulated CPU longer than to copy it.
///
/// # Errors
/// When a module or a program is missing, damaged or unusable.
pub fn build(spec: &InitramfsSpec) -> Result<Vec<u8>, InitramfsError> {
    let mut archive = Cpio::new();
    for directory in ["dev", "proc", "sys", "tmp", "run", "root"] {
        archive.directory(directory);
    }
    // Before there is a devtmpfs, the kernel opens the console for the first process.
    archive.device("dev/console", 0o600, 5, 1);
    archive.device("dev/null", 0o666, 1, 3);
    let mut put = Put { archive, libraries: Vec::new() };
    put.program(&spec.init, "init")?;
    put.program(&spec.program, PROGRAM_PATH)?;
    for (from, to) in &spec.files {
        put.program(from, to.trim_start_matches('/')).or_else(|error| match error {
            InitramfsError::Program(ProgramError::NotAProgram { .. }) => put.plain(from, to),
            other => Err(other),
        })?;
    }
    let mut archive = put.archive;

    let mut modules = Vec::new();
    if let Some(place) = &spec.modules {
        let more = spec.more_modules.iter().map(String::as_str);
        let wanted: Vec<&str> = WANTED.into_iter().chain(more).collect();
        for module in Modules::read(place)?.load_order(&wanted, &WISHED)? {
            let path = format!("lib/modules/{}.ko", module.name);
            archive.file(&path, 0o644, &module.bytes)?;
            modules.push(PathBuf::from(format!("/{path}")));
        }
    }
    let argv = std::iter::once(format!("/{PROGRAM_PATH}")).chain(spec.args.iter().cloned()).collect();
    let config = GuestConfig { modules, argv, socket: spec.socket.clone() };
    let config = serde_json::to_vec_pretty(&config).map_err(InitramfsError::Config)?;
    archive.file(CONFIG_PATH.trim_start_matches('/'), 0o600, &config)?;
    Ok(archive.finish())
}

/// Files that have been put into the archive.
struct Put {
    archive: Cpio,
    libraries: Vec<String>,
}

impl Put {
    fn program(&mut self, from: &Path, to: &str) -> Result<(), InitramfsError> {
        let (bytes, libraries) = program(from)?;
        self.archive.file(to, 0o755, &bytes)?;
        for library in libraries {
            if !self.libraries.contains(&library) {
                self.plain(Path::new(&library), &library)?;
                self.libraries.push(library);
            }
        }
        Ok(())
    }

    /// A file as it is; what is executable here is so there.
    fn plain(&mut self, from: &Path, to: &str) -> Result<(), InitramfsError> {
        let bytes = fs::read(from).map_err(|source| ProgramError::Read { path: from.to_owned(), source })?;
        Ok(self.archive.file(to.trim_start_matches('/'), 0o755, &bytes)?)
    }
}
