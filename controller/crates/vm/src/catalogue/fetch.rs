//! Gets kernels out of Debian's packages.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    apt::{Apt, AptOptions, field, unpack},
    error::{CatalogueError, FetchError},
    kernel::Kernel,
    pattern::{by_version, has_gaps, matches},
    store::{Catalogue, alike, describe},
};

/// What a package of Debian begins with, where one is asked for.
const DEBIAN: &str = "debian:";

/// What packages of kernel images are called.
const IMAGE_PREFIX: &str = "linux-image-";

/// What packages are called that bring the parts of a kernel, where the package of the image only needs them: so are
/// those of Debian since Linux 7.
const PART_PREFIXES: [&str; 3] = ["linux-base-", "linux-binary-", "linux-modules-"];

/// How many meta packages may lead to each other.
const META_DEPTH: usize = 4;

impl Catalogue {
    /// Fetches a kernel and takes it up; blocks. `what` is `debian:` and a package: its name, the name of a meta package
    /// (`linux-image-cloud-amd64`), or a name with gaps (`linux-image-6.12.y-cloud-amd64`), of which the newest is taken.
    /// `label` is what matrices shall call it; `None` for the name of the package with the image, without `linux-image-`.
    ///
    /// The machine's lists of packages are used; if they do not have it, or what they have is gone, fresh ones are got
    /// into a folder of the catalogue. A kernel that is there already, of the same package and version, is returned as
    /// it is.
    ///
    /// # Errors
    /// When there is no package client, no such package, no network, no space, or the package is damaged.
    pub fn fetch(&self, what: &str, label: Option<&str>, options: &AptOptions) -> Result<Kernel, FetchError> {
        let name = what.strip_prefix(DEBIAN).filter(|name| is_package(name));
        let name = name.ok_or_else(|| FetchError::Source(what.to_owned()))?;
        let _lock = self.lock()?;
        let dir = self.unfinished()?;
        let work = dir.path().join("apt");
        let mut apt = Apt::new(&work)?;
        if options.sources.is_some() {
            apt.update(options)?;
            let package = resolve(&apt, name)?;
            return self.take(&apt, dir, &package, label);
        }
        let package = match resolve(&apt, name) {
            Err(FetchError::Unknown { .. }) => {
                apt.update(options)?;
                resolve(&apt, name)?
            }
            other => other?,
        };
        if let Some(kernel) = self.same(label, &package.image)? {
            return Ok(kernel);
        }
        match apt.download(&package.all()) {
            // Lists grow old, and archives keep the newest only.
            Err(FetchError::Network { .. } | FetchError::Failed { .. }) => {
                apt.update(options)?;
                let package = resolve(&apt, name)?;
                self.take(&apt, dir, &package, label)
            }
            other => self.unpack(&package, &other?, dir, label),
        }
    }

    fn take(
        &self,
        apt: &Apt,
        dir: tempfile::TempDir,
        package: &Package,
        label: Option<&str>,
    ) -> Result<Kernel, FetchError> {
        match self.same(label, &package.image)? {
            Some(kernel) => Ok(kernel),
            None => self.unpack(package, &apt.download(&package.all())?, dir, label),
        }
    }

    /// The kernel that has the label, if it is of this package. A package of Debian's kernels is named for its version.
    fn same(&self, label: Option<&str>, package: &str) -> Result<Option<Kernel>, FetchError> {
        let label = label.unwrap_or_else(|| own_label(package));
        match self.get(label) {
            Ok(kernel) if kernel.package.as_deref() == Some(package) => Ok(Some(kernel)),
            Ok(kernel) => {
                let package = kernel.package.unwrap_or(kernel.release);
                Err(CatalogueError::Taken { label: label.to_owned(), package }.into())
            }
            Err(CatalogueError::Unknown { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes image and modules out of the files of packages.
    fn unpack(
        &self,
        package: &Package,
        from: &[PathBuf],
        dir: tempfile::TempDir,
        label: Option<&str>,
    ) -> Result<Kernel, FetchError> {
        let label = label.unwrap_or_else(|| own_label(&package.image));
        let files = dir.path().join("files");
        let mut version = None;
        for file in from {
            if field(file, "Package")? == package.image {
                version = Some(field(file, "Version")?);
            }
            unpack(file, &files)?;
        }
        let io = |path: &Path| {
            let path = path.to_owned();
            |source| FetchError::Catalogue(CatalogueError::Io { path, source })
        };
        let nothing = || FetchError::NoImage { name: package.image.clone() };
        let modules = ["lib/modules", "usr/lib/modules"].iter().find_map(|at| only(&files.join(at), ""));
        let beside = modules.as_ref().map(|modules| modules.join("vmlinuz")).filter(|image| image.is_file());
        let image = only(&files.join("boot"), "vmlinuz-").or(beside).ok_or_else(nothing)?;
        let place = |path: &Path, name: &str| {
            let to = dir.path().join(name);
            fs::rename(path, &to).map_err(io(path)).map(|()| to)
        };
        let described = describe(label, &image, modules.clone())?;
        place(&image, "vmlinuz")?;
        if let Some(modules) = &modules {
            place(modules, &described.release)?;
        }
        for rest in [files, dir.path().join("apt")] {
            fs::remove_dir_all(&rest).map_err(io(&rest))?;
        }
        let kernel = Kernel {
            image: PathBuf::from("vmlinuz"),
            modules: modules.map(|_| PathBuf::from(&described.release)),
            package: Some(package.image.clone()),
            package_version: version,
            ..described
        };
        self.finish(dir, &kernel)?;
        Ok(self.get(label)?)
    }
}

/// What a package's kernel is called if nothing else is said.
fn own_label(package: &str) -> &str {
    package.strip_prefix(IMAGE_PREFIX).unwrap_or(package)
}

/// Whether this can be the name of a package, with gaps or without; so it is never taken for an option.
fn is_package(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '*')
        && chars.all(|c| c.is_ascii_alphanumeric() || "+-.*".contains(c))
}

/// A kernel's packages.
struct Package {
    /// The one that has the image, or needs the one that does.
    image: String,
    /// Those that have its parts.
    parts: Vec<String>,
}

impl Package {
    fn all(&self) -> Vec<String> {
        std::iter::once(&self.image).chain(&self.parts).cloned().collect()
    }
}

/// The packages with the image.
fn resolve(apt: &Apt, name: &str) -> Result<Package, FetchError> {
    let mut package = if has_gaps(name) { newest(apt, name)? } else { name.to_owned() };
    for _ in 0..META_DEPTH {
        let Some(needs) = apt.depends(&package)? else {
            let hint = alike(&package, &apt.names(IMAGE_PREFIX)?);
            return Err(FetchError::Unknown { name: package, hint });
        };
        match needs.iter().find(|need| need.starts_with(IMAGE_PREFIX)) {
            Some(need) => package = need.clone(),
            None => {
                let Some(release) = package.strip_prefix(IMAGE_PREFIX) else {
                    return Err(FetchError::NoImage { name: package });
                };
                let own = |need: &&String| {
                    PART_PREFIXES.iter().any(|prefix| need.strip_prefix(prefix) == Some(release))
                };
                let parts = needs.iter().filter(own).cloned().collect();
                return Ok(Package { image: package, parts });
            }
        }
    }
    Err(FetchError::NoImage { name: name.to_owned() })
}

/// The newest package that a name with gaps describes.
fn newest(apt: &Apt, pattern: &str) -> Result<String, FetchError> {
    let names = apt.names("linux-image")?;
    let found =
        names.iter().filter(|name| matches(pattern, name)).max_by(|one, other| by_version(one, other));
    found
        .cloned()
        .ok_or_else(|| FetchError::Unknown { name: pattern.to_owned(), hint: alike(pattern, &names) })
}

/// The entry of a folder whose name begins so, if it is the only one.
fn only(dir: &Path, prefix: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?.flatten();
    let mut found = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let first = found.next()?;
    found.next().is_none().then(|| first.path())
}
