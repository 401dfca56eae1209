//! The header of an x86 kernel image, as `Documentation/arch/x86/boot.rst` of the kernel describes it.

use drover_machine::gnu_build_id;

use super::{
    elf::{Elf, half, slice, word},
    other::what,
    unpack,
};

/// Where the header's fields are.
const SETUP_SECTORS_AT: usize = 0x1f1;
const SYSTEM_SIZE_AT: usize = 0x1f4;
const MAGIC_AT: usize = 0x202;
const VERSION_POINTER_AT: usize = 0x20e;
const PAYLOAD_OFFSET_AT: usize = 0x248;
const PAYLOAD_LENGTH_AT: usize = 0x24c;

const MAGIC: &[u8] = b"HdrS";
const SECTOR: usize = 512;
/// Unit of the system's size.
const PARAGRAPH: usize = 16;

/// What an image says about the kernel in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Banner {
    /// What `uname -r` will say: `6.12.48+deb13-cloud-amd64`.
    pub release: String,
    /// What `uname -v` will say: `#1 SMP PREEMPT_DYNAMIC Debian 6.12.48-1 (2025-09-20)`. Empty if the image leaves it out.
    pub version: String,
}

/// Why a file is no kernel image that can be booted.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It is something else, or for another architecture.
    #[error("this is {what}, and no x86 kernel image (bzImage)")]
    NotAnImage {
        /// What it is, as far as that can be told.
        what: String,
    },
    /// Its end is missing.
    #[error("the image is cut off: its header says {expected} bytes, the file has {found}")]
    Truncated {
        /// What the header says, in bytes.
        expected: usize,
        /// What there is, in bytes.
        found: usize,
    },
    /// It does not say which kernel it is.
    #[error("the image does not say its release")]
    Nameless,
}

/// What the image in `bytes` says about its kernel.
///
/// # Errors
/// When it is no x86 image, cut off, or nameless.
pub fn banner(bytes: &[u8]) -> Result<Banner, ImageError> {
    let setup = setup_length(bytes).ok_or_else(|| ImageError::NotAnImage { what: what(bytes) })?;
    let system = word(bytes, SYSTEM_SIZE_AT).and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
    let expected = setup.saturating_add(system.saturating_mul(PARAGRAPH));
    if bytes.len() < expected {
        return Err(ImageError::Truncated { expected, found: bytes.len() });
    }
    let at = half(bytes, VERSION_POINTER_AT).filter(|at| *at != 0).ok_or(ImageError::Nameless)?;
    let text = bytes.get(usize::from(at) + SECTOR..).unwrap_or_default();
    let text = String::from_utf8_lossy(text.split(|byte| *byte == 0).next().unwrap_or_default());
    let release = text.split(' ').next().filter(|release| !release.is_empty());
    // `RELEASE (BUILDER@HOST) VERSION`
    let version = text.find(") #").and_then(|at| text.get(at + 2..)).unwrap_or_default().trim_end();
    Ok(Banner { release: release.ok_or(ImageError::Nameless)?.to_owned(), version: version.to_owned() })
}

/// The build id of the kernel in the image, in hexadecimal digits; `None` if it is compressed by something other than
/// xz or zstd, or has none. Takes as much memory as the kernel, some 60 MB.
#[must_use]
pub fn build_id(bytes: &[u8]) -> Option<String> {
    let number = |at| word(bytes, at).and_then(|number| usize::try_from(number).ok());
    let at = setup_length(bytes)?.checked_add(number(PAYLOAD_OFFSET_AT)?)?;
    let payload = slice(bytes, at, number(PAYLOAD_LENGTH_AT)?)?;
    let kernel = unpack(payload.to_vec()).ok()?;
    gnu_build_id(Elf::new(&kernel)?.section(".notes")?)
}

/// Length of the part that precedes the kernel proper; `None` if this is no image.
fn setup_length(bytes: &[u8]) -> Option<usize> {
    if slice(bytes, MAGIC_AT, MAGIC.len())? != MAGIC {
        return None;
    }
    let sectors = match *bytes.get(SETUP_SECTORS_AT)? {
        // Of the days when it was not written down.
        0 => 4,
        sectors => usize::from(sectors),
    };
    Some((sectors + 1) * SECTOR)
}

#[cfg(test)]
mod tests {
    use super::{Banner, ImageError, banner, build_id};

    /// An image with one sector of setup after the boot sector, and a kernel of 32 bytes.
    fn image(text: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 2 * 512 + 32];
        bytes[0x1f1] = 1;
        bytes[0x1f4] = 2;
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x80_u16.to_le_bytes());
        bytes[0x280..0x280 + text.len()].copy_from_slice(text);
        bytes
    }

    #[test]
    fn expect_release_and_version_when_the_header_names_them() {
        let found =
            banner(&image(b"6.1.0-57 (debian-kernel@lists.debian.org) #1 SMP Debian 6.1.192-3\0")).unwrap();
        let expected = Banner { release: "6.1.0-57".into(), version: "#1 SMP Debian 6.1.192-3".into() };
        assert_eq!(found, expected);
    }

    #[test]
    fn expect_the_missing_bytes_said_when_an_image_is_cut_off() {
        let mut bytes = image(b"6.1.0 (a@b) #1\0");
        bytes.truncate(1030);
        let error = banner(&bytes).unwrap_err();
        assert!(matches!(error, ImageError::Truncated { expected: 1056, found: 1030 }), "{error}");
    }

    #[test]
    fn expect_a_refusal_when_the_file_is_no_image_or_nameless() {
        assert!(matches!(banner(b"MZ"), Err(ImageError::NotAnImage { .. })));
        assert!(matches!(banner(&vec![0; 4096]), Err(ImageError::NotAnImage { .. })));
        assert!(matches!(banner(&image(b"\0")), Err(ImageError::Nameless)));
        assert_eq!(build_id(&image(b"6.1\0")), None);
    }
}
