//! What a file is that is no x86 kernel image, so that whoever named it sees the mistake.

use super::elf::{half, slice};

/// Where images of arm64 and of RISC-V say what they are (`Documentation/arch/arm64/booting.rst` of the kernel).
const MAGIC_AT: usize = 0x38;
/// Where compressed images for firmware say what is in them (`drivers/firmware/efi/libstub/zboot-header.S` of the kernel).
const ZBOOT_AT: usize = 4;
/// Where an ELF file says for which machine it is.
const ELF_MACHINE_AT: usize = 18;
/// `EM_X86_64`.
const ELF_X86: u16 = 62;

/// What the file is, in words.
pub(super) fn what(bytes: &[u8]) -> String {
    let known = [
        (0, &b"\x7fELF"[..], "an ELF file"),
        (0, b"\x1f\x8b", "a file compressed by gzip, as kernels of other architectures are"),
        (MAGIC_AT, b"ARM\x64", "a kernel image for arm64"),
        (MAGIC_AT, b"RSC\x05", "a kernel image for RISC-V"),
        (ZBOOT_AT, b"zimg", "a compressed kernel image for the firmware of another architecture"),
        (0, b"MZ", "a program for firmware"),
        (0, b"#!", "a script"),
    ];
    let found = known.iter().find(|(at, magic, _)| slice(bytes, *at, magic.len()) == Some(*magic));
    match found {
        Some((_, b"\x7fELF", elf)) => match half(bytes, ELF_MACHINE_AT) {
            Some(ELF_X86) => {
                format!("{elf} (of a kernel, `arch/x86/boot/bzImage` can be booted, and not `vmlinux`)")
            }
            machine => format!("{elf} for another architecture (machine {})", machine.unwrap_or(0)),
        },
        Some((_, _, words)) => (*words).to_owned(),
        None => "something else".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::what;

    fn with(at: usize, magic: &[u8]) -> Vec<u8> {
        let mut bytes = b"MZ".to_vec();
        bytes.resize(512, 0);
        bytes[at..at + magic.len()].copy_from_slice(magic);
        bytes
    }

    #[test]
    fn expect_the_kind_named_when_a_file_is_no_image() {
        assert_eq!(what(&with(0x38, b"ARM\x64")), "a kernel image for arm64");
        assert_eq!(
            what(&with(4, b"zimg")),
            "a compressed kernel image for the firmware of another architecture"
        );
        assert_eq!(what(&with(0, b"MZ")), "a program for firmware");
        assert_eq!(what(b"hello"), "something else");
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(what(&own).starts_with("an ELF file"), "{}", what(&own));
        let mut arm = with(0, b"\x7fELF\x02\x01");
        arm[18..20].copy_from_slice(&183_u16.to_le_bytes());
        assert_eq!(what(&arm), "an ELF file for another architecture (machine 183)");
    }
}
