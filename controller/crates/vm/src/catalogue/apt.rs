//! The system's package client, used without root: what it writes goes into folders of ours.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::error::FetchError;

/// Longer output of a program is cut in errors, in bytes.
const SAID: usize = 600;

/// Where packages come from.
#[derive(Clone, Debug, Default)]
pub struct AptOptions {
    /// Lines of a `sources.list` to use instead of the machine's own.
    pub sources: Option<String>,
}

/// The client, with a state of its own where it needs one.
#[derive(Debug)]
pub(super) struct Apt {
    dir: PathBuf,
    options: Vec<String>,
}

impl Apt {
    /// A client that writes into `dir`, and reads the lists of packages that the machine has.
    ///
    /// # Errors
    /// When `dir` cannot be written to.
    pub(super) fn new(dir: &Path) -> Result<Self, FetchError> {
        let cache = dir.join("cache");
        make(&cache.join("archives/partial"))?;
        let options = vec![
            format!("Dir::Cache={}", cache.display()),
            // Whatever the machine says: without it, every call reads all lists anew.
            "Dir::Cache::pkgcache=pkgcache.bin".to_owned(),
            "Dir::Cache::srcpkgcache=".to_owned(),
            // A folder of ours is closed to the user whom it would become when root calls it.
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Retries=2".to_owned(),
            "Acquire::http::Timeout=20".to_owned(),
            "Acquire::https::Timeout=20".to_owned(),
            "Acquire::Languages=none".to_owned(),
        ];
        Ok(Self { dir: dir.to_owned(), options })
    }

    /// Gets fresh lists, into `dir`, and uses those from now on.
    ///
    /// # Errors
    /// When the archive cannot be reached.
    pub(super) fn update(&mut self, options: &AptOptions) -> Result<(), FetchError> {
        let lists = self.dir.join("lists");
        make(&lists.join("partial"))?;
        self.options.push(format!("Dir::State::lists={}", lists.display()));
        if let Some(sources) = &options.sources {
            let path = self.dir.join("sources.list");
            fs::write(&path, sources).map_err(|error| failed("apt-get", &error))?;
            self.options.push(format!("Dir::Etc::sourcelist={}", path.display()));
            self.options.push("Dir::Etc::sourceparts=-".to_owned());
        }
        let output = self.run("apt-get", &["update", "-o", "APT::Update::Error-Mode=any"])?;
        if output.status.success() { Ok(()) } else { Err(fault("apt-get", &output)) }
    }

    /// Names of all packages that begin with `prefix`.
    ///
    /// # Errors
    /// When the client does not run.
    pub(super) fn names(&self, prefix: &str) -> Result<Vec<String>, FetchError> {
        let output = self.run("apt-cache", &["pkgnames", prefix])?;
        if !output.status.success() {
            return Err(fault("apt-cache", &output));
        }
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim().to_owned()).collect())
    }

    /// Names of packages that the newest version of `name` depends on; `None` if there is no such package.
    ///
    /// # Errors
    /// When the client does not run.
    pub(super) fn depends(&self, name: &str) -> Result<Option<Vec<String>>, FetchError> {
        let output = self.run("apt-cache", &["show", "--no-all-versions", "--", name])?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() || text.trim().is_empty() {
            return Ok(None);
        }
        let line = text.lines().find_map(|line| line.strip_prefix("Depends:")).unwrap_or_default();
        let names = line.split([',', '|']).filter_map(|one| one.split_whitespace().next());
        Ok(Some(names.map(str::to_owned).collect()))
    }

    /// Downloads packages; their files.
    ///
    /// # Errors
    /// When the archive cannot be reached or does not have them, or there is no space.
    pub(super) fn download(&self, names: &[String]) -> Result<Vec<PathBuf>, FetchError> {
        let place = self.dir.join("packages");
        make(&place)?;
        let mut command = self.command("apt-get", &["download", "--"]);
        let output = output("apt-get", command.args(names).current_dir(&place))?;
        if !output.status.success() {
            return Err(fault("apt-get", &output));
        }
        let files = fs::read_dir(&place).map_err(|error| failed("apt-get", &error))?.flatten();
        Ok(files
            .map(|file| file.path())
            .filter(|path| path.extension().is_some_and(|end| end == "deb"))
            .collect())
    }

    fn run(&self, program: &'static str, args: &[&str]) -> Result<Output, FetchError> {
        output(program, &mut self.command(program, args))
    }

    fn command(&self, program: &'static str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        for option in &self.options {
            command.arg("-o").arg(option);
        }
        // Its words are looked at.
        command.args(args).env("LC_ALL", "C.UTF-8");
        command
    }
}

/// A field of a package's file.
///
/// # Errors
/// When the file is damaged.
pub(super) fn field(package: &Path, name: &str) -> Result<String, FetchError> {
    let output = output("dpkg-deb", Command::new("dpkg-deb").arg("--field").arg(package).arg(name))?;
    if !output.status.success() {
        return Err(unpack_fault(package, &output));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Unpacks a package's files into a folder.
///
/// # Errors
/// When the file is damaged, or there is no space.
pub(super) fn unpack(package: &Path, into: &Path) -> Result<(), FetchError> {
    let mut command = Command::new("dpkg-deb");
    command.arg("--extract").arg(package).arg(into).env("LC_ALL", "C.UTF-8");
    let output = output("dpkg-deb", &mut command)?;
    if output.status.success() { Ok(()) } else { Err(unpack_fault(package, &output)) }
}

fn unpack_fault(package: &Path, output: &Output) -> FetchError {
    match fault("dpkg-deb", output) {
        FetchError::Failed { said, .. } => FetchError::Corrupt { path: package.to_owned(), said },
        other => other,
    }
}

fn output(program: &'static str, command: &mut Command) -> Result<Output, FetchError> {
    command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => FetchError::NoApt { program },
        _ => failed(program, &error),
    })
}

/// What went wrong, by the words of the program: it has one exit code for everything.
fn fault(program: &'static str, output: &Output) -> FetchError {
    let said = String::from_utf8_lossy(&output.stderr);
    let wrong: Vec<&str> = said.lines().filter(|line| !line.starts_with("W:")).collect();
    let mut said = wrong.join("; ");
    let cut = (0..=SAID.min(said.len())).rev().find(|at| said.is_char_boundary(*at)).unwrap_or(0);
    said.truncate(cut);
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if has(&["No space left", "enough free space", "Disk quota exceeded"]) {
        FetchError::DiskFull { said }
    } else if has(&["Failed to fetch", "Could not resolve", "Could not connect", "Unable to connect"]) {
        FetchError::Network { said }
    } else {
        FetchError::Failed { program, said }
    }
}

fn failed(program: &'static str, error: &io::Error) -> FetchError {
    FetchError::Failed { program, said: error.to_string() }
}

fn make(dir: &Path) -> Result<(), FetchError> {
    fs::create_dir_all(dir).map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull => FetchError::DiskFull { said: error.to_string() },
        _ => failed("apt-get", &error),
    })
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::ExitStatusExt,
        process::{ExitStatus, Output},
    };

    use super::{FetchError, fault, field, unpack};

    fn said(words: &str) -> FetchError {
        let output = Output { status: ExitStatus::from_raw(256), stdout: vec![], stderr: words.into() };
        fault("apt-get", &output)
    }

    #[test]
    fn expect_the_cause_when_the_client_words_it() {
        let full = "W: x\nE: You don't have enough free space in /c/archives/.";
        assert!(matches!(said(full), FetchError::DiskFull { said } if !said.contains("W: x")));
        let gone = "E: Failed to fetch http://h/p.deb  Could not resolve 'h'";
        assert!(matches!(said(gone), FetchError::Network { .. }));
        assert!(matches!(said("E: other"), FetchError::Failed { .. }));
    }

    #[test]
    fn expect_a_damaged_package_told_when_it_is_unpacked() {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("torn.deb");
        std::fs::write(&package, "!<arch>\ntorn").unwrap();
        assert!(matches!(unpack(&package, dir.path()), Err(FetchError::Corrupt { .. })));
        assert!(matches!(field(&package, "Version"), Err(FetchError::Corrupt { .. })));
    }
}
