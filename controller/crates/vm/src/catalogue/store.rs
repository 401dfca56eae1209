//! The catalogue as a folder: for each kernel a folder with a record and, if it was fetched, its files. A kernel appears
//! all at once, by a rename.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use super::{
    error::CatalogueError,
    kernel::{Kernel, NewKernel},
};
use crate::image::{banner, build_id};

/// The record in a kernel's folder.
pub(super) const RECORD: &str = "kernel.json";

/// Folders that are not finished begin with this.
pub(super) const UNFINISHED: &str = ".new-";

/// The longest label, in characters; a folder's name may have 255 bytes.
const MAX_LABEL: usize = 100;

/// A folder of kernels. Several processes may use it at once.
#[derive(Clone, Debug)]
pub struct Catalogue {
    root: PathBuf,
}

impl Catalogue {
    /// The catalogue in this folder, which need not exist.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The user's: `$XDG_DATA_HOME/drover/kernels`, else `~/.local/share/drover/kernels`.
    ///
    /// # Errors
    /// When neither variable is set.
    pub fn of_user() -> Result<Self, CatalogueError> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let data = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")));
        Ok(Self::new(data.ok_or(CatalogueError::NoHome)?.join("drover").join("kernels")))
    }

    /// Its folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All kernels, by label.
    ///
    /// # Errors
    /// When the folder or a record cannot be read.
    pub fn list(&self) -> Result<Vec<Kernel>, CatalogueError> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(CatalogueError::Io { path: self.root.clone(), source }),
        };
        let mut kernels = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|source| CatalogueError::Io { path: self.root.clone(), source })?;
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if !hidden && let Some(kernel) = read(&entry.path())? {
                kernels.push(kernel);
            }
        }
        kernels.sort_by(|one, other| one.label.cmp(&other.label));
        Ok(kernels)
    }

    /// The kernel with this label.
    ///
    /// # Errors
    /// When there is none (with those that are called alike), or its record cannot be read.
    pub fn get(&self, label: &str) -> Result<Kernel, CatalogueError> {
        if let Some(kernel) = read(&self.folder(label)?)? {
            return Ok(kernel);
        }
        let labels: Vec<String> = self.list()?.into_iter().map(|kernel| kernel.label).collect();
        Err(CatalogueError::Unknown { label: label.to_owned(), hint: alike(label, &labels) })
    }

    /// Takes a kernel up that was built by hand. Its files stay where they are.
    ///
    /// # Errors
    /// When the label is no label or taken, the image cannot be booted, or the modules are of another kernel.
    pub fn add(&self, new: &NewKernel) -> Result<Kernel, CatalogueError> {
        let kernel = Kernel::of_files(new)?;
        let _lock = self.lock()?;
        let unfinished = self.unfinished()?;
        self.finish(unfinished, &kernel)?;
        self.get(&new.label)
    }

    /// Takes a kernel out, with its files if it was fetched.
    ///
    /// # Errors
    /// When there is none, or it cannot be removed.
    pub fn remove(&self, label: &str) -> Result<(), CatalogueError> {
        let folder = self.folder(label)?;
        if !folder.join(RECORD).exists() {
            self.get(label)?;
        }
        let _lock = self.lock()?;
        fs::remove_dir_all(&folder).map_err(|source| CatalogueError::Io { path: folder, source })
    }

    /// Keeps other processes from changing the catalogue while the file is open.
    pub(super) fn lock(&self) -> Result<File, CatalogueError> {
        let fail = |path: &Path| {
            let path = path.to_owned();
            |source| CatalogueError::Io { path, source }
        };
        fs::create_dir_all(&self.root).map_err(fail(&self.root))?;
        let path = self.root.join(".lock");
        let file = File::options().create(true).append(true).open(&path).map_err(fail(&path))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| fail(&path)(error.into()))?;
        Ok(file)
    }

    /// A new folder in the catalogue, removed unless it is finished.
    pub(super) fn unfinished(&self) -> Result<tempfile::TempDir, CatalogueError> {
        let dir = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&self.root);
        dir.map_err(|source| CatalogueError::Io { path: self.root.clone(), source })
    }

    /// Makes an unfinished folder the kernel's. The caller has the lock.
    pub(super) fn finish(&self, dir: tempfile::TempDir, kernel: &Kernel) -> Result<(), CatalogueError> {
        let folder = self.folder(&kernel.label)?;
        if let Some(found) = read(&folder)? {
            let package = found.package.unwrap_or(found.release);
            return Err(CatalogueError::Taken { label: kernel.label.clone(), package });
        }
        let path = dir.path().join(RECORD);
        let json = serde_json::to_vec_pretty(kernel)
            .map_err(|source| CatalogueError::Record { path: path.clone(), source })?;
        let write = || {
            fs::write(&path, json)?;
            File::open(&path)?.sync_all()?;
            fs::rename(dir.path(), &folder)?;
            File::open(&self.root)?.sync_all()
        };
        write().map_err(|source| CatalogueError::Io { path: folder.clone(), source })?;
        // It has another name now.
        let _ = dir.keep();
        Ok(())
    }

    /// The folder of a label. Every character that is not harmless in a file's name is written as its number.
    fn folder(&self, label: &str) -> Result<PathBuf, CatalogueError> {
        let length = label.chars().count();
        if !(1..=MAX_LABEL).contains(&length) || label.chars().any(char::is_control) {
            return Err(CatalogueError::Label(label.to_owned()));
        }
        let mut name = String::new();
        for byte in label.bytes() {
            let harmless = byte.is_ascii_alphanumeric() || b"+-_".contains(&byte);
            // A leading dot would hide it.
            if harmless || (byte == b'.' && !name.is_empty()) {
                name.push(char::from(byte));
            } else {
                name.push_str(&format!("%{byte:02x}"));
            }
        }
        Ok(self.root.join(name))
    }
}

impl Kernel {
    /// A kernel that was built by hand, without taking it up.
    ///
    /// # Errors
    /// When the image cannot be read or booted, or the modules are of another kernel.
    pub fn of_files(new: &NewKernel) -> Result<Self, CatalogueError> {
        let full = |path: &PathBuf| {
            std::path::absolute(path).map_err(|source| CatalogueError::Io { path: path.clone(), source })
        };
        Ok(Self {
            initrd: new.initrd.as_ref().map(full).transpose()?,
            cmdline: new.cmdline.clone(),
            ..describe(&new.label, &full(&new.image)?, new.modules.as_ref().map(full).transpose()?)?
        })
    }
}

/// The kernel in this folder; `None` if there is no record.
fn read(dir: &Path) -> Result<Option<Kernel>, CatalogueError> {
    let path = dir.join(RECORD);
    match fs::read(&path) {
        Ok(bytes) => match serde_json::from_slice::<Kernel>(&bytes) {
            Ok(kernel) => Ok(Some(kernel.based_on(dir))),
            Err(source) => Err(CatalogueError::Record { path, source }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CatalogueError::Io { path, source }),
    }
}

/// What image and modules say about themselves.
pub(super) fn describe(
    label: &str,
    image: &Path,
    modules: Option<PathBuf>,
) -> Result<Kernel, CatalogueError> {
    let bytes = fs::read(image).map_err(|source| CatalogueError::Io { path: image.to_owned(), source })?;
    let banner = banner(&bytes).map_err(|source| CatalogueError::Image { path: image.to_owned(), source })?;
    if let Some(name) = modules.as_ref().and_then(|modules| modules.file_name()) {
        let modules = name.to_string_lossy();
        if modules != banner.release {
            let (image, path) = (banner.release, image.to_owned());
            return Err(CatalogueError::OtherModules { path, image, modules: modules.into_owned() });
        }
    }
    Ok(Kernel {
        label: label.to_owned(),
        image: image.to_owned(),
        modules,
        initrd: None,
        cmdline: String::new(),
        hash: blake3::hash(&bytes).to_hex().to_string(),
        release: banner.release,
        version: banner.version,
        build_id: build_id(&bytes),
        package: None,
        package_version: None,
    })
}

/// Up to three names that are like `name`, as the end of a sentence.
pub(super) fn alike(name: &str, names: &[String]) -> String {
    let mut near: Vec<(f64, &String)> =
        names.iter().map(|other| (strsim::jaro_winkler(name, other), other)).collect();
    near.retain(|(likeness, _)| *likeness > 0.75);
    near.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let near: Vec<String> = near.into_iter().take(3).map(|(_, name)| format!("`{name}`")).collect();
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}
