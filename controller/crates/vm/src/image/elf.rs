//! The few parts of ELF files (`elf(5)`) that are needed here: sections and the interpreter of 64-bit little-endian
//! files. Every offset in a file is data: what points outside of it is as if it were not there.

/// How an ELF file of 64 bits, little-endian, begins.
const MAGIC: &[u8] = b"\x7fELF\x02\x01";

/// `PT_INTERP`: names the program that loads this one.
const PROGRAM_INTERPRETER: u32 = 3;
/// `PT_LOAD`: a part that is in memory when it runs.
const PROGRAM_LOAD: u32 = 1;

/// Lengths of a program header and of a section header.
const PROGRAM_HEADER: usize = 56;
const SECTION_HEADER: usize = 64;

/// An ELF file in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elf<'a> {
    bytes: &'a [u8],
}

impl<'a> Elf<'a> {
    /// The file in these bytes; `None` if they are none of 64 bits, little-endian.
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        bytes.starts_with(MAGIC).then_some(Self { bytes })
    }

    /// The program that loads this one; `None` for a static one.
    pub(crate) fn interpreter(self) -> Option<&'a str> {
        let table = long(self.bytes, 32)?;
        let count = usize::from(half(self.bytes, 56)?);
        (0..count).find_map(|index| {
            let header = slice(self.bytes, table.checked_add(index * PROGRAM_HEADER)?, PROGRAM_HEADER)?;
            if word(header, 0)? != PROGRAM_INTERPRETER {
                return None;
            }
            let text = slice(self.bytes, long(header, 8)?, long(header, 32)?)?;
            std::str::from_utf8(text.split(|byte| *byte == 0).next()?).ok()
        })
    }

    /// The file without what is not needed to run it: symbols, and what debuggers read. As it is if that cannot be told.
    pub(crate) fn loaded(self) -> Vec<u8> {
        self.without_sections().unwrap_or_else(|| self.bytes.to_vec())
    }

    fn without_sections(self) -> Option<Vec<u8>> {
        let table = long(self.bytes, 32)?;
        let count = usize::from(half(self.bytes, 56)?);
        let mut end = table.checked_add(count.checked_mul(PROGRAM_HEADER)?)?;
        let mut is_loaded = false;
        for index in 0..count {
            let header = slice(self.bytes, table.checked_add(index * PROGRAM_HEADER)?, PROGRAM_HEADER)?;
            is_loaded |= word(header, 0)? == PROGRAM_LOAD;
            end = end.max(long(header, 8)?.checked_add(long(header, 32)?)?);
        }
        let mut bytes = self.bytes.get(..end).filter(|_| is_loaded)?.to_vec();
        // Where the table of the sections begins, and how many there are with their names.
        bytes.get_mut(40..48)?.fill(0);
        bytes.get_mut(60..64)?.fill(0);
        Some(bytes)
    }

    /// The contents of the section with this name.
    pub(crate) fn section(self, name: &str) -> Option<&'a [u8]> {
        let table = long(self.bytes, 40)?;
        let count = usize::from(half(self.bytes, 60)?);
        let header = |index: usize| {
            slice(self.bytes, table.checked_add(index.checked_mul(SECTION_HEADER)?)?, SECTION_HEADER)
        };
        let contents = |header: &[u8]| slice(self.bytes, long(header, 24)?, long(header, 32)?);
        let names = contents(header(usize::from(half(self.bytes, 62)?))?)?;
        (0..count).find_map(|index| {
            let header = header(index)?;
            let at = usize::try_from(word(header, 0)?).ok()?;
            let found = names.get(at..)?.split(|byte| *byte == 0).next()?;
            (found == name.as_bytes()).then(|| contents(header))?
        })
    }
}

/// A part of `bytes`, if it has it.
pub(crate) fn slice(bytes: &[u8], at: usize, length: usize) -> Option<&[u8]> {
    bytes.get(at..at.checked_add(length)?)
}

pub(crate) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(slice(bytes, at, 2)?.try_into().ok()?))
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(slice(bytes, at, 4)?.try_into().ok()?))
}

/// An offset or a length of 64 bits.
fn long(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(slice(bytes, at, 8)?.try_into().ok()?)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Elf;

    #[test]
    fn expect_this_programs_interpreter_and_build_id_when_its_file_is_read() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = Elf::new(&bytes).unwrap();
        assert!(elf.section(".text").is_some_and(|text| !text.is_empty()));
        assert_eq!(elf.section(".no-such-section"), None);
        if cfg!(not(target_feature = "crt-static")) {
            assert!(elf.interpreter().is_some_and(|loader| loader.contains("ld-linux")));
        }
    }

    #[test]
    fn expect_a_smaller_program_that_runs_when_it_is_stripped() {
        use std::os::unix::fs::PermissionsExt;

        let own = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&own).unwrap();
        let stripped = Elf::new(&bytes).unwrap().loaded();
        assert!(stripped.len() < bytes.len(), "{} of {}", stripped.len(), bytes.len());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stripped");
        std::fs::write(&path, stripped).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        let output = std::process::Command::new(&path).arg("--list").output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    proptest! {
        #[test]
        fn expect_no_panic_when_the_bytes_are_nonsense(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut file = b"\x7fELF\x02\x01".to_vec();
            file.extend(bytes);
            let elf = Elf::new(&file).unwrap();
            let _ = (elf.interpreter(), elf.section(".modinfo"), elf.loaded());
        }
    }
}
