//! The firmware boots an entry once: by the variable `BootNext`, which it deletes before it does (UEFI specification 2.10,
//! section 3.3). `BootOrder`, by which it boots otherwise, is not touched.

use super::variables::{GLOBAL, VariableError, Variables, from_utf16};
use crate::source::Source;

const NEXT: &str = "BootNext";

/// Before the description of a boot entry: attributes, and the length of the list of paths.
const BEFORE_DESCRIPTION: usize = 6;

/// Why the firmware cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum BootNextError {
    /// Variables cannot be used.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// No entry is called so.
    #[error("the firmware has no boot entry `{name}`; there are: {there}")]
    Absent {
        /// What was asked for.
        name: String,
        /// All entries.
        there: String,
    },
    /// Several are.
    #[error("several boot entries are called `{name}`; name one by its number: {there}")]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// Those entries.
        there: String,
    },
}

/// The number of the entry that is called so: by four hexadecimal digits, with or without `Boot`, or by its description.
pub(in crate::boot) fn plan(source: Source<'_>, name: &str) -> Result<u16, BootNextError> {
    let entries = entries(Variables::of(source)?)?;
    let digits = name.strip_prefix("Boot").unwrap_or(name);
    if digits.len() == 4
        && let Ok(number) = u16::from_str_radix(digits, 16)
        && entries.iter().any(|(known, _)| *known == number)
    {
        return Ok(number);
    }
    let named: Vec<&(u16, String)> = entries.iter().filter(|(_, description)| description == name).collect();
    match named.as_slice() {
        [(number, _)] => Ok(*number),
        [] => Err(BootNextError::Absent {
            name: name.to_owned(),
            there: list(&entries.iter().collect::<Vec<_>>()),
        }),
        several => Err(BootNextError::Ambiguous { name: name.to_owned(), there: list(several) }),
    }
}

/// Sets it, and reads it back.
pub(in crate::boot) fn carry_out(source: Source<'_>, number: u16) -> Result<(), BootNextError> {
    Ok(Variables::of(source)?.set(NEXT, GLOBAL, &number.to_le_bytes())?)
}

/// Takes it back; whether it was still set.
pub(in crate::boot) fn disarm(source: Source<'_>) -> Result<bool, BootNextError> {
    Ok(Variables::of(source)?.delete(NEXT, GLOBAL)?)
}

/// Numbers and descriptions of all boot entries.
fn entries(variables: Variables<'_>) -> Result<Vec<(u16, String)>, VariableError> {
    let number = |name: &String| {
        let digits = name.strip_prefix("Boot").filter(|digits| digits.len() == 4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut entries = Vec::new();
    for (name, number) in variables.names(GLOBAL).iter().filter_map(|name| Some((name, number(name)?))) {
        if let Some(option) = variables.get(name, GLOBAL)? {
            entries.push((number, from_utf16(option.get(BEFORE_DESCRIPTION..).unwrap_or_default())));
        }
    }
    Ok(entries)
}

fn list(entries: &[&(u16, String)]) -> String {
    if entries.is_empty() {
        return "none".to_owned();
    }
    let shown =
        entries.iter().map(|(number, description)| format!("{number:04X} `{}`", description.escape_debug()));
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// As OVMF has them: its shell, and a disk.
    const OVMF: [(&str, &[u8]); 2] = [
        ("Boot0000", include_bytes!("../../../tests/testdata/boot/Boot0000")),
        ("Boot0001", include_bytes!("../../../tests/testdata/boot/Boot0001")),
    ];

    fn host(entries: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("sys/firmware/efi/efivars");
        fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in entries {
            fs::write(folder.join(format!("{name}-{GLOBAL}")), bytes).unwrap();
        }
        fs::write(folder.join(format!("BootOrder-{GLOBAL}")), [7, 0, 0, 0, 0, 0]).unwrap();
        dir
    }

    #[test]
    fn expect_the_number_when_an_entry_is_named_by_number_or_description() {
        let dir = host(&OVMF);
        let source = Source { root: dir.path() };
        for name in ["0001", "Boot0001", "UEFI Misc Device"] {
            assert_eq!(plan(source, name).unwrap(), 1, "{name}");
        }
        carry_out(source, 1).unwrap();
        let next = dir.path().join(format!("sys/firmware/efi/efivars/BootNext-{GLOBAL}"));
        assert_eq!(fs::read(next).unwrap(), [7, 0, 0, 0, 1, 0]);
        assert!(disarm(source).unwrap());
        assert!(!disarm(source).unwrap());
    }

    #[test]
    fn expect_what_there_is_when_no_entry_or_several_are_called_so() {
        let dir = host(&OVMF);
        let text = plan(Source { root: dir.path() }, "0002").unwrap_err().to_string();
        assert!(text.contains("0000 `UiApp`, 0001 `UEFI Misc Device`"), "{text}");
        let twice = [("Boot0001", OVMF[1].1), ("Boot0002", OVMF[1].1)];
        let text = plan(Source { root: host(&twice).path() }, "UEFI Misc Device").unwrap_err().to_string();
        assert!(text.contains("0001 `UEFI Misc Device`, 0002"), "{text}");
        let damaged = [("Boot0001", &b"\x07\0\0\0x"[..])];
        assert!(
            plan(Source { root: host(&damaged).path() }, "x").unwrap_err().to_string().contains("0001 ``")
        );
    }
}
