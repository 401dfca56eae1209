//! Notes, as the linker puts them into a kernel and `/sys/kernel/notes` shows them. Read for the facts of a machine, and
//! from a kernel's image before it is booted.

/// `NT_GNU_BUILD_ID`.
const NOTE_BUILD_ID: u32 = 3;

/// The GNU build id, in hexadecimal digits, in the notes of a section `.notes` or of `/sys/kernel/notes`.
#[must_use]
pub fn gnu_build_id(mut notes: &[u8]) -> Option<String> {
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

fn slice(bytes: &[u8], at: usize, length: usize) -> Option<&[u8]> {
    bytes.get(at..at.checked_add(length)?)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(slice(bytes, at, 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::gnu_build_id;

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

    proptest! {
        #[test]
        fn expect_no_panic_when_the_bytes_are_nonsense(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = gnu_build_id(&bytes);
        }
    }
}
