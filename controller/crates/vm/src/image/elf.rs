//! The few parts of ELF files (`elf(5)`) that are needed here: sections and the interpreter of 64-bit little-endian
//! files, and notes. Every offset in a file is data: what points outside of it is as if it were not there.

/// How an ELF file of 64 bits, little-endian, begins.
const MAGIC: &[u8] = b"\x7fELF\x02\x01";

/// `PT_INTERP`: names the program that loads this one.
const PROGRAM_INTERPRETER: u32 = 3;
/// `NT_GNU_BUILD_ID`.
const NOTE_BUILD_ID: u32 = 3;

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

/// The GNU build id, in hexadecimal digits, in the notes of a section `.notes` or of `/sys/kernel/notes`.
pub(crate) fn gnu_build_id(mut notes: &[u8]) -> Option<String> {
    while notes.len() >= 12 {
        let name_length = usize::try_from(word(notes, 0)?).ok()?;
        let length = usize::try_from(word(notes, 4)?).ok()?;
        let kind = word(notes, 8)?;
        let contents_at = 12_usize.checked_add(padded(name_length)?)?;
        let name = slice(notes, 12, name_length)?;
        let contents = slice(notes, contents_at, length)?;
        if kind == NOTE_BUILD_ID && name == b"GNU\0" && !contents.is_empty() {
            return Some(contents.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = notes.get(contents_at.checked_add(padded(length)?)?..).unwrap_or_default();
    }
    None
}

/// Rounded up to the 4 bytes to which parts of a note are aligned.
fn padded(length: usize) -> Option<usize> {
    length.checked_next_multiple_of(4)
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

    use super::{Elf, gnu_build_id};

    /// A note as the linker writes it.
    fn note(kind: u32, name: &[u8], contents: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [u32::try_from(name.len()).unwrap(), u32::try_from(contents.len()).unwrap(), kind] {
            bytes.extend(number.to_le_bytes());
        }
        for part in [name, contents] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn expect_the_build_id_when_other_notes_come_first() {
        let mut notes = note(0x100, b"Linux\0", &[1, 2, 3]);
        notes.extend(note(3, b"Xen\0", b"not this"));
        notes.extend(note(3, b"GNU\0", &[0xde, 0xad, 0x0b]));
        assert_eq!(gnu_build_id(&notes).as_deref(), Some("dead0b"));
    }

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

    proptest! {
        #[test]
        fn expect_no_panic_when_the_bytes_are_nonsense(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = gnu_build_id(&bytes);
            let mut file = b"\x7fELF\x02\x01".to_vec();
            file.extend(bytes);
            let elf = Elf::new(&file).unwrap();
            let _ = (elf.interpreter(), elf.section(".modinfo"));
        }
    }
}
