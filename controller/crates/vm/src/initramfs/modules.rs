//! The modules of a kernel: which there are, which are built in, and what each needs to be loaded before it.
//!
//! A package carries no `modules.dep`, because `depmod` runs when it is installed. Then every module is asked itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use crate::image::{Compression, Elf, UnpackError, unpack};

/// Directories below which modules are: the kernel's own, and those that others add.
const PLACES: [&str; 3] = ["kernel", "updates", "extra"];

/// How deep such directories may be, against links that go round.
const DEPTH: usize = 16;

/// Why the modules cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ModulesError {
    /// Something cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A module is compressed in a way that cannot be undone here.
    #[error("module `{}` is compressed by something other than xz or zstd", path.display())]
    Compression {
        /// The module.
        path: PathBuf,
    },
    /// A module's compressed file is damaged.
    #[error("cannot decompress module `{}`; fetch or build the kernel again", path.display())]
    Unpack {
        /// The module.
        path: PathBuf,
        /// Why.
        source: UnpackError,
    },
    /// A file is no module.
    #[error("`{}` is no kernel module: it has no section .modinfo", path.display())]
    NotAModule {
        /// The file.
        path: PathBuf,
    },
    /// A module is neither there nor built in, and one that is wanted does not work without it.
    #[error("`{}` has no module `{name}`{}, and it is not built into the kernel", place.display(), needed(needed_by))]
    Absent {
        /// Where modules were looked for.
        place: PathBuf,
        /// The module.
        name: String,
        /// The module that needs it.
        needed_by: Option<String>,
    },
    /// Modules need each other in a circle.
    #[error("module `{name}` needs itself, by way of others")]
    Circle {
        /// One of them.
        name: String,
    },
}

fn needed(by: &Option<String>) -> String {
    by.as_ref().map(|by| format!(", which `{by}` needs")).unwrap_or_default()
}

/// A module, ready to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name, as `lsmod` shows it: with `_` only.
    pub name: String,
    /// Its file, decompressed.
    pub bytes: Vec<u8>,
}

/// The modules of one kernel.
#[derive(Debug)]
pub struct Modules {
    place: PathBuf,
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
    /// From `modules.dep`; empty if there is none.
    known: BTreeMap<String, Vec<String>>,
}

impl Modules {
    /// The modules in `place`, which is what `/lib/modules/RELEASE` is.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(place: &Path) -> Result<Self, ModulesError> {
        let mut files = BTreeMap::new();
        fs::read_dir(place).map_err(|source| ModulesError::Read { path: place.to_owned(), source })?;
        for below in PLACES.map(|below| place.join(below)).into_iter().filter(|below| below.is_dir()) {
            walk(&below, DEPTH, &mut files)?;
        }
        let built_in = lines(&place.join("modules.builtin"))?;
        let known = lines(&place.join("modules.dep"))?;
        Ok(Self {
            place: place.to_owned(),
            files,
            built_in: built_in.iter().filter_map(|line| module_name(Path::new(line))).collect(),
            known: known.iter().filter_map(|line| dependencies(line)).collect(),
        })
    }

    /// Whether the module is in the kernel itself.
    #[must_use]
    pub fn is_built_in(&self, name: &str) -> bool {
        self.built_in.contains(&normal(name))
    }

    /// The `wanted` modules and all that they need, each after those that it needs. What is built in is left out, and
    /// so is what is `wished` and not there.
    ///
    /// # Errors
    /// When one that is wanted is missing, or one cannot be read.
    pub fn load_order(&self, wanted: &[&str], wished: &[&str]) -> Result<Vec<Module>, ModulesError> {
        let mut order = Vec::new();
        let mut seen = BTreeMap::new();
        for name in wanted {
            self.add(&normal(name), None, &mut seen, &mut order)?;
        }
        for name in wished.iter().map(|name| normal(name)) {
            if self.files.contains_key(&name) {
                self.add(&name, None, &mut seen, &mut order)?;
            }
        }
        Ok(order)
    }

    /// Adds a module after those that it needs. `seen` says of each whether it is in the list already, or on the way.
    fn add(
        &self,
        name: &str,
        needed_by: Option<&str>,
        seen: &mut BTreeMap<String, bool>,
        order: &mut Vec<Module>,
    ) -> Result<(), ModulesError> {
        match seen.get(name) {
            Some(true) => return Ok(()),
            Some(false) => return Err(ModulesError::Circle { name: name.to_owned() }),
            None => {}
        }
        if self.built_in.contains(name) {
            return Ok(());
        }
        let path = self.files.get(name).ok_or_else(|| ModulesError::Absent {
            place: self.place.clone(),
            name: name.to_owned(),
            needed_by: needed_by.map(str::to_owned),
        })?;
        seen.insert(name.to_owned(), false);
        let bytes = module_bytes(path)?;
        let needs = match self.known.get(name) {
            Some(needs) => needs.clone(),
            None => needs(&bytes).ok_or_else(|| ModulesError::NotAModule { path: path.clone() })?,
        };
        for need in needs {
            self.add(&need, Some(name), seen, order)?;
        }
        seen.insert(name.to_owned(), true);
        order.push(Module { name: name.to_owned(), bytes });
        Ok(())
    }
}

fn walk(directory: &Path, depth: usize, files: &mut BTreeMap<String, PathBuf>) -> Result<(), ModulesError> {
    let fail = |source| ModulesError::Read { path: directory.to_owned(), source };
    for entry in fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.is_dir() {
            if depth > 0 {
                walk(&path, depth - 1, files)?;
            }
        } else if let Some(name) = module_name(&path) {
            files.insert(name, path);
        }
    }
    Ok(())
}

/// The lines of a file, none if it does not exist.
fn lines(path: &Path) -> Result<Vec<String>, ModulesError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(ModulesError::Read { path: path.to_owned(), source }),
    }
}

/// The name of the module in this file; `None` if the file is called like no module.
fn module_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let stem = [".ko", ".ko.xz", ".ko.zst", ".ko.gz"].iter().find_map(|end| name.strip_suffix(end))?;
    Some(normal(stem))
}

/// Modules are found under either spelling, `virtio-rng` and `virtio_rng`.
fn normal(name: &str) -> String {
    name.replace('-', "_")
}

/// A line of `modules.dep`: `kernel/b.ko: kernel/a.ko`.
fn dependencies(line: &str) -> Option<(String, Vec<String>)> {
    let (module, needs) = line.split_once(':')?;
    let needs = needs.split_whitespace().filter_map(|need| module_name(Path::new(need)));
    // It names the direct ones first, and those are loaded last.
    let mut needs: Vec<String> = needs.collect();
    needs.reverse();
    Some((module_name(Path::new(module))?, needs))
}

fn module_bytes(path: &Path) -> Result<Vec<u8>, ModulesError> {
    let bytes = fs::read(path).map_err(|source| ModulesError::Read { path: path.to_owned(), source })?;
    if Compression::of(&bytes) == Compression::Other {
        return Err(ModulesError::Compression { path: path.to_owned() });
    }
    unpack(bytes).map_err(|source| ModulesError::Unpack { path: path.to_owned(), source })
}

/// What a module says that it needs (`depends=a,b` among its `.modinfo`).
fn needs(module: &[u8]) -> Option<Vec<String>> {
    let info = Elf::new(module)?.section(".modinfo")?;
    let mut fields = info.split(|byte| *byte == 0).filter_map(|field| std::str::from_utf8(field).ok());
    let names = fields.find_map(|field| field.strip_prefix("depends=")).unwrap_or_default();
    Some(names.split(',').filter(|name| !name.is_empty()).map(normal).collect())
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{Modules, ModulesError};

    /// A module that needs others: an ELF file with the sections `.modinfo` and `.shstrtab`.
    fn module(needs: &str) -> Vec<u8> {
        let info = format!("license=GPL\0depends={needs}\0");
        let names = b"\0.modinfo\0.shstrtab\0";
        let info_at = 64;
        let names_at = info_at + info.len();
        let table_at = names_at + names.len();
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[40..48].copy_from_slice(&u64::try_from(table_at).unwrap().to_le_bytes());
        bytes[60..62].copy_from_slice(&2_u16.to_le_bytes());
        bytes[62..64].copy_from_slice(&1_u16.to_le_bytes());
        bytes.extend(info.bytes());
        bytes.extend(names);
        for (name, at, length) in [(1_u32, info_at, info.len()), (10, names_at, names.len())] {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[24..32].copy_from_slice(&u64::try_from(at).unwrap().to_le_bytes());
            header[32..40].copy_from_slice(&u64::try_from(length).unwrap().to_le_bytes());
            bytes.extend(header);
        }
        bytes
    }

    fn put(place: &Path, file: &str, bytes: &[u8]) {
        let path = place.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// `net` needs `ring` and `failover`, `failover` needs `ring`, and `ring` what is built in.
    fn place() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "kernel/net.ko", &module("ring,fail-over"));
        put(dir.path(), "kernel/a/fail-over.ko.zst", &zstd::encode_all(&module("ring")[..], 1).unwrap());
        put(dir.path(), "kernel/a/b/ring.ko", &module("virtio"));
        put(dir.path(), "modules.builtin", b"kernel/drivers/virtio/virtio.ko\n");
        dir
    }

    fn names(modules: &Modules, wanted: &[&str], wished: &[&str]) -> Vec<String> {
        modules.load_order(wanted, wished).unwrap().into_iter().map(|module| module.name).collect()
    }

    #[test]
    fn expect_needed_modules_first_when_there_is_no_list_of_dependencies() {
        let dir = place();
        let modules = Modules::read(dir.path()).unwrap();
        assert_eq!(names(&modules, &["net"], &["absent", "ring"]), ["ring", "fail_over", "net"]);
        assert_eq!(names(&modules, &["virtio"], &[]), [""; 0]);
    }

    #[test]
    fn expect_the_list_of_dependencies_followed_when_there_is_one() {
        let dir = place();
        let list = b"kernel/net.ko: kernel/a/b/ring.ko\nkernel/a/b/ring.ko:\n";
        put(dir.path(), "modules.dep", list);
        assert_eq!(names(&Modules::read(dir.path()).unwrap(), &["net"], &[]), ["ring", "net"]);
    }

    #[test]
    fn expect_the_bytes_of_the_module_when_it_is_compressed() {
        let dir = place();
        let order = Modules::read(dir.path()).unwrap().load_order(&["fail-over"], &[]).unwrap();
        assert_eq!(order.last().unwrap().bytes, module("ring"));
    }

    #[test]
    fn expect_the_fault_named_when_modules_are_missing_damaged_or_need_each_other() {
        let dir = place();
        put(dir.path(), "kernel/needy.ko", &module("gone"));
        put(dir.path(), "kernel/egg.ko", &module("hen"));
        put(dir.path(), "kernel/hen.ko", &module("egg"));
        put(dir.path(), "kernel/torn.ko.xz", b"\xfd7zXZ\0torn");
        put(dir.path(), "kernel/text.ko", b"text");
        put(dir.path(), "kernel/zipped.ko.gz", b"\x1f\x8b");
        let modules = Modules::read(dir.path()).unwrap();
        let fault = |name: &str| modules.load_order(&[name], &[]).unwrap_err();
        assert!(fault("needy").to_string().contains("no module `gone`, which `needy` needs"));
        assert!(matches!(fault("hen"), ModulesError::Circle { .. }));
        assert!(matches!(fault("torn"), ModulesError::Unpack { .. }));
        assert!(matches!(fault("text"), ModulesError::NotAModule { .. }));
        assert!(matches!(fault("zipped"), ModulesError::Compression { .. }));
        assert!(matches!(Modules::read(&dir.path().join("none")), Err(ModulesError::Read { .. })));
    }
}
