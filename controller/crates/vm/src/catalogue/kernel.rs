//! What is known of a kernel in the catalogue.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A kernel that can be booted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// What matrices call it: free text, `test10-pre5+P2`.
    pub label: String,
    /// The image. Relative paths in a record are from its folder; here it is absolute.
    pub image: PathBuf,
    /// What `/lib/modules/RELEASE` is for it; `None` if all that is needed is built in.
    pub modules: Option<PathBuf>,
    /// A first root file system that it needs before the one made here; `None` for most.
    pub initrd: Option<PathBuf>,
    /// Words for its command line.
    pub cmdline: String,
    /// BLAKE3 of the image, in hexadecimal digits.
    pub hash: String,
    /// What `uname -r` will say.
    pub release: String,
    /// What `uname -v` will say.
    pub version: String,
    /// Its GNU build id, in hexadecimal digits; `None` if the image does not tell.
    pub build_id: Option<String>,
    /// The package that it came from.
    pub package: Option<String>,
    /// The package's version.
    pub package_version: Option<String>,
}

/// A kernel for the catalogue that was built by hand; its files stay where they are.
#[derive(Clone, Debug)]
pub struct NewKernel {
    /// What matrices shall call it.
    pub label: String,
    /// The image.
    pub image: PathBuf,
    /// What `/lib/modules/RELEASE` is for it.
    pub modules: Option<PathBuf>,
    /// A first root file system that it needs before the one made here.
    pub initrd: Option<PathBuf>,
    /// Words for its command line.
    pub cmdline: String,
}

impl Kernel {
    /// With the paths of a record made absolute.
    pub(super) fn based_on(mut self, dir: &Path) -> Self {
        self.image = dir.join(self.image);
        self.modules = self.modules.map(|path| dir.join(path));
        self.initrd = self.initrd.map(|path| dir.join(path));
        self
    }
}
