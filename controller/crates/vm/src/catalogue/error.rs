//! Why the catalogue cannot do what it is asked for.

use std::{io, path::PathBuf};

use crate::image::ImageError;

/// Why the catalogue cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// The folder for user data is not known.
    #[error(
        "where user data belongs is not known: set HOME or XDG_DATA_HOME, or name the catalogue's folder"
    )]
    NoHome,
    /// Something in it cannot be read or written.
    #[error("cannot use `{}`", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A record is damaged.
    #[error("the record `{}` is damaged; remove its folder and fetch the kernel again", path.display())]
    Record {
        /// The record.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A label is empty, too long, or has control characters.
    #[error("`{}` is no label: 1 to 100 characters, no control characters", .0.escape_debug())]
    Label(String),
    /// No kernel has this label.
    #[error("no kernel is called `{label}`{hint}")]
    Unknown {
        /// The label.
        label: String,
        /// Labels that are like it, as the end of the sentence.
        hint: String,
    },
    /// Another kernel has this label.
    #[error("`{label}` is {package} already; remove it, or choose another label")]
    Taken {
        /// The label.
        label: String,
        /// What has it.
        package: String,
    },
    /// The image is none.
    #[error("`{}` cannot be booted", path.display())]
    Image {
        /// The image.
        path: PathBuf,
        /// Why.
        source: ImageError,
    },
    /// The modules are those of another kernel.
    #[error("the modules are of `{modules}`, the image `{}` is of `{image}`", path.display())]
    OtherModules {
        /// The image.
        path: PathBuf,
        /// The release that the image names.
        image: String,
        /// The release in the name of the modules' folder.
        modules: String,
    },
}

/// Why a kernel was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Not `debian:PACKAGE`.
    #[error("`{0}` is no package: write `debian:` and a name, as in `debian:linux-image-cloud-amd64`")]
    Source(String),
    /// The package client is missing.
    #[error(
        "there is no `{program}` here; kernels of Debian can be fetched on Debian and its descendants only"
    )]
    NoApt {
        /// The program.
        program: &'static str,
    },
    /// No package is called so.
    #[error("no package is called `{name}`{hint}")]
    Unknown {
        /// The name or pattern.
        name: String,
        /// Packages that are like it, as the end of the sentence.
        hint: String,
    },
    /// A meta package leads to no image.
    #[error("package `{name}` brings no kernel image, and needs none that does")]
    NoImage {
        /// The package.
        name: String,
    },
    /// The archive cannot be reached.
    #[error("cannot reach the package archive: {said}")]
    Network {
        /// The client's words.
        said: String,
    },
    /// No space.
    #[error("no space is left for the package: {said}")]
    DiskFull {
        /// The client's words.
        said: String,
    },
    /// The package is damaged.
    #[error("the package `{}` is damaged: {said}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The unpacker's words.
        said: String,
    },
    /// A program failed for another reason.
    #[error("`{program}` failed: {said}")]
    Failed {
        /// The program.
        program: &'static str,
        /// Its words.
        said: String,
    },
    /// The catalogue cannot take the kernel.
    #[error("the catalogue cannot take the kernel")]
    Catalogue(#[from] CatalogueError),
}
