//! EFI variables, through `efivarfs`: a file for each, four bytes of attributes before its value.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::PathBuf,
};

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

use crate::source::Source;

/// Where the kernel shows them.
const FOLDER: &str = "sys/firmware/efi/efivars";

/// Kept over a power cut, and for the boot loader and the running system (`EFI_VARIABLE_NON_VOLATILE` and others).
const ATTRIBUTES: u32 = 7;

/// Variables of the firmware (`EFI_GLOBAL_VARIABLE`).
pub(in crate::boot) const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// Variables that boot loaders and systemd agree on.
pub(in crate::boot) const LOADER: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// Why a variable cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum VariableError {
    /// There are none.
    #[error(
        "there are no EFI variables on this host: it was not booted by UEFI firmware, or efivarfs is not mounted on `/sys/firmware/efi/efivars`"
    )]
    None,
    /// A variable cannot be used.
    #[error("cannot {action} the EFI variable {name}{}", hint(source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// The variable.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// It has no attributes.
    #[error("the EFI variable {0} is damaged")]
    Damaged(String),
    /// It is not what was written.
    #[error("the EFI variable {0} was written and does not say so")]
    NotTaken(String),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            " (efivarfs is mounted read-only: `mount -o remount,rw /sys/firmware/efi/efivars`)"
        }
        io::ErrorKind::PermissionDenied => " (it takes root)",
        _ => "",
    }
}

/// The variables of a host.
#[derive(Clone, Copy, Debug)]
pub(in crate::boot) struct Variables<'a>(Source<'a>);

impl<'a> Variables<'a> {
    /// # Errors
    /// When there are none.
    pub(in crate::boot) fn of(source: Source<'a>) -> Result<Self, VariableError> {
        if source.names(FOLDER).is_empty() { Err(VariableError::None) } else { Ok(Self(source)) }
    }

    fn path(self, name: &str, vendor: &str) -> PathBuf {
        self.0.path(&format!("{FOLDER}/{name}-{vendor}"))
    }

    /// Names of a vendor's variables, sorted.
    pub(in crate::boot) fn names(self, vendor: &str) -> Vec<String> {
        let suffix = format!("-{vendor}");
        let names = self.0.names(FOLDER);
        names.iter().filter_map(|name| name.strip_suffix(&suffix)).map(str::to_owned).collect()
    }

    /// A variable's value; `None` if it does not exist.
    pub(in crate::boot) fn get(self, name: &str, vendor: &str) -> Result<Option<Vec<u8>>, VariableError> {
        match fs::read(self.path(name, vendor)) {
            Ok(bytes) => match bytes.get(4..) {
                Some(value) => Ok(Some(value.to_vec())),
                // The kernel shows a variable that is being deleted as an empty file.
                None if bytes.is_empty() => Ok(None),
                None => Err(VariableError::Damaged(name.to_owned())),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(VariableError::Io { action: "read", name: name.to_owned(), source }),
        }
    }

    /// Gives a variable a value, and reads it back.
    pub(in crate::boot) fn set(self, name: &str, vendor: &str, value: &[u8]) -> Result<(), VariableError> {
        let path = self.path(name, vendor);
        let fail = |source| VariableError::Io { action: "write", name: name.to_owned(), source };
        if path.exists() {
            make_mutable(&path).map_err(fail)?;
        }
        let mut bytes = ATTRIBUTES.to_le_bytes().to_vec();
        bytes.extend(value);
        // The firmware takes attributes and value at once, in one write.
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(fail)?;
        file.write_all(&bytes).map_err(fail)?;
        drop(file);
        if self.get(name, vendor)?.as_deref() == Some(value) {
            Ok(())
        } else {
            Err(VariableError::NotTaken(name.to_owned()))
        }
    }

    /// Deletes a variable; whether it was there.
    pub(in crate::boot) fn delete(self, name: &str, vendor: &str) -> Result<bool, VariableError> {
        let path = self.path(name, vendor);
        let fail = |source| VariableError::Io { action: "delete", name: name.to_owned(), source };
        if !path.exists() {
            return Ok(false);
        }
        make_mutable(&path).map_err(fail)?;
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(fail(error)),
        }
    }
}

/// The kernel protects variables that it does not know, so that nobody deletes what the firmware needs to boot.
fn make_mutable(path: &PathBuf) -> io::Result<()> {
    let file = File::open(path)?;
    // Other file systems, on which this is tested, may have no flags.
    let Ok(flags) = ioctl_getflags(&file) else { return Ok(()) };
    if flags.contains(IFlags::IMMUTABLE) {
        ioctl_setflags(&file, flags - IFlags::IMMUTABLE)?;
    }
    Ok(())
}

/// UTF-16 with a final zero, as EFI has text.
pub(in crate::boot) fn to_utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

/// The text before the first zero.
pub(in crate::boot) fn from_utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_what_was_set_when_a_variable_is_read_and_nothing_when_it_was_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let source = Source { root: dir.path() };
        assert!(Variables::of(source).unwrap_err().to_string().contains("UEFI"));
        let folder = dir.path().join(FOLDER);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("BootOrder-{GLOBAL}")), [7, 0, 0, 0, 1, 0]).unwrap();
        let variables = Variables::of(source).unwrap();
        assert_eq!(variables.get("BootOrder", GLOBAL).unwrap(), Some(vec![1, 0]));
        assert_eq!(variables.get("BootNext", GLOBAL).unwrap(), None);
        variables.set("BootNext", GLOBAL, &[2, 0]).unwrap();
        assert_eq!(fs::read(folder.join(format!("BootNext-{GLOBAL}"))).unwrap(), [7, 0, 0, 0, 2, 0]);
        assert_eq!(variables.names(GLOBAL), ["BootNext", "BootOrder"]);
        assert!(variables.delete("BootNext", GLOBAL).unwrap());
        assert!(!variables.delete("BootNext", GLOBAL).unwrap());
    }

    #[test]
    fn expect_the_text_back_when_it_was_made_utf_16() {
        for text in ["", "debian", "Größe ☃ 𝄞"] {
            assert_eq!(from_utf16(&to_utf16(text)), text);
        }
        assert_eq!(from_utf16(b"a\0b\0\0\0c\0x"), "ab");
    }
}
