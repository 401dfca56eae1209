//! The checksum of POSIX `cksum`, which every host can compute. Pure.

/// The polynomial of the CRC, POSIX.1-2017, cksum.
const POLYNOMIAL: u32 = 0x04c1_1db7;

/// The checksum of these bytes: a CRC of them and of their number. It finds what was cut or damaged, not what was forged.
pub(super) fn cksum(bytes: &[u8]) -> u32 {
    let table = table();
    let add = |crc: u32, byte: u8| {
        let [top, ..] = crc.to_be_bytes();
        let index = usize::from(top ^ byte);
        (crc << 8) ^ table.get(index).copied().unwrap_or_default()
    };
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes();
    let used = length.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let crc = bytes.iter().fold(0, |crc, byte| add(crc, *byte));
    !length.iter().take(used).fold(crc, |crc, byte| add(crc, *byte))
}

fn table() -> Vec<u32> {
    let entry = |byte: u32| {
        (0..8).fold(byte << 24, |crc, _| if crc >> 31 == 1 { (crc << 1) ^ POLYNOMIAL } else { crc << 1 })
    };
    (0..=255).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn expect_the_checksum_of_the_command_when_files_have_various_sizes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for size in [0, 1, 255, 256, 70_000] {
            let bytes: Vec<u8> =
                (0..size).map(|at: u32| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
            std::fs::write(&path, &bytes).unwrap();
            let output = Command::new("cksum").arg(&path).output().unwrap();
            let expected = format!("{} {size} ", cksum(&bytes));
            assert!(String::from_utf8(output.stdout).unwrap().starts_with(&expected), "{size}");
        }
        assert_eq!(cksum(b"123456789"), 930_766_865);
    }
}
