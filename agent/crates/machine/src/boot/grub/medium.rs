//! Whether GRUB can write to a file at boot, as it must to clear what was set for one boot: it writes to plain disks, and to file
//! systems whose data stay where they are.

use std::path::{Path, PathBuf};

use crate::{
    boot::mounts::{Mount, mount_of},
    source::Source,
};

/// File systems in which GRUB can write over a file in place.
const FILE_SYSTEMS: [&str; 6] = ["ext2", "ext3", "ext4", "msdos", "vfat", "xfs"];

/// Disks that no firmware knows.
const NOT_OF_FIRMWARE: [&str; 6] = ["bcache", "drbd", "loop", "nbd", "rbd", "zram"];

/// Why it cannot.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediumError {
    /// It is not known where the file is.
    #[error("nothing says on which file system `{}` is", .0.display())]
    Unknown(PathBuf),
    /// The file system is of another kind.
    #[error("GRUB cannot write to {kind}, which `{}` is on; put /boot on ext4", path.display())]
    Kind {
        /// The file.
        path: PathBuf,
        /// The file system.
        kind: String,
    },
    /// It is mounted read-only.
    #[error("`{}` is mounted read-only{}", mount.display(), if *for_us { " for the agent alone (ProtectSystem= of its service?)" } else { "" })]
    ReadOnly {
        /// The place.
        mount: PathBuf,
        /// Whether the file system itself can be written.
        for_us: bool,
    },
    /// The disk is none.
    #[error("GRUB cannot write to {what}, which `{}` is on; put /boot on a partition of a plain disk", path.display())]
    Device {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
}

/// Whether GRUB can write to the file `path`, which has no symbolic links.
///
/// # Errors
/// When it cannot, or not for sure.
pub(super) fn check(source: Source<'_>, path: &Path) -> Result<(), MediumError> {
    let Mount { place, kind, device, read_only, all_read_only, .. } =
        mount_of(source, path).ok_or_else(|| MediumError::Unknown(path.to_owned()))?;
    if !FILE_SYSTEMS.contains(&kind.as_str()) {
        return Err(MediumError::Kind { path: path.to_owned(), kind });
    }
    if read_only || all_read_only {
        return Err(MediumError::ReadOnly { mount: place, for_us: !all_read_only });
    }
    match stacked(source, &device) {
        None => Ok(()),
        Some(what) => Err(MediumError::Device { path: path.to_owned(), what }),
    }
}

/// What a block device is, if it is no disk and no partition of one.
fn stacked(source: Source<'_>, device: &str) -> Option<String> {
    let Ok(place) = source.path(&format!("sys/dev/block/{device}")).canonicalize() else {
        return Some(format!("a device that the kernel does not describe ({device})"));
    };
    let disk = if place.join("partition").exists() { place.parent()? } else { &place };
    let name = disk.file_name()?.to_string_lossy().into_owned();
    if disk.join("dm").is_dir() {
        let uuid = std::fs::read_to_string(disk.join("dm/uuid")).unwrap_or_default();
        let kind = match uuid.split('-').next() {
            Some("LVM") => "an LVM volume",
            Some("CRYPT") => "an encrypted volume (dm-crypt)",
            _ => "a volume of the device mapper",
        };
        return Some(format!("{kind} ({name})"));
    }
    if disk.join("md").is_dir() {
        return Some(format!("a software RAID ({name})"));
    }
    NOT_OF_FIRMWARE
        .iter()
        .any(|kind| name.starts_with(kind))
        .then(|| format!("{name}, which firmware does not know"))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(mountinfo: &str) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            tree.write("proc/self/mountinfo", mountinfo);
            for (device, place) in [
                ("8:1", "sda/sda1"),
                ("253:0", "dm-0"),
                ("9:0", "md0"),
                ("259:0", "md0/md0p1"),
                ("7:0", "loop0"),
            ] {
                let at = format!("sys/devices/{place}");
                tree.write(&format!("{at}/dev"), device);
                fs::create_dir_all(tree.path("sys/dev/block")).unwrap();
                symlink(tree.path(&at), tree.path(&format!("sys/dev/block/{device}"))).unwrap();
            }
            tree.write("sys/devices/sda/sda1/partition", "1");
            tree.write("sys/devices/md0/md0p1/partition", "1");
            tree.write("sys/devices/dm-0/dm/uuid", "LVM-abc");
            tree.write("sys/devices/md0/md/level", "raid1");
            tree
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn check(&self, path: &str) -> Result<(), String> {
            check(Source { root: self.0.path() }, Path::new(path)).map_err(|error| error.to_string())
        }
    }

    fn root_on(kind: &str, device: &str, mount: &str, all: &str) -> String {
        format!("21 1 {device} / / {mount},relatime shared:1 - {kind} /dev/x {all}\n")
    }

    #[test]
    fn expect_yes_when_the_block_is_on_a_partition() {
        for kind in ["ext4", "xfs", "vfat"] {
            assert_eq!(Tree::new(&root_on(kind, "8:1", "rw", "rw")).check("/boot/grub/grubenv"), Ok(()));
        }
    }

    #[test]
    fn expect_the_reason_when_grub_cannot_write() {
        let why = |kind, device, mount, all| {
            Tree::new(&root_on(kind, device, mount, all)).check("/boot/grub/grubenv").unwrap_err()
        };
        assert!(why("btrfs", "0:30", "rw", "rw").contains("cannot write to btrfs"));
        assert!(why("ext4", "253:0", "rw", "rw").contains("an LVM volume (dm-0)"));
        assert!(why("ext4", "9:0", "rw", "rw").contains("a software RAID (md0)"));
        assert!(why("ext4", "259:0", "rw", "rw").contains("a software RAID (md0)"));
        assert!(why("ext4", "7:0", "rw", "rw").contains("loop0"));
        assert!(why("ext4", "99:0", "rw", "rw").contains("does not describe"));
        assert!(why("ext4", "8:1", "rw", "ro").ends_with("mounted read-only"));
        assert!(why("ext4", "8:1", "ro", "rw").contains("ProtectSystem"));
    }

    #[test]
    fn expect_the_innermost_mount_to_count_when_boot_is_one_of_its_own() {
        let mounts = root_on("btrfs", "0:30", "rw", "rw")
            + "30 21 8:1 / /boot rw - ext4 /dev/sda1 rw\n31 21 0:9 / /bootx rw - tmpfs t rw\n";
        let tree = Tree::new(&mounts);
        assert_eq!(tree.check("/boot/grub/grubenv"), Ok(()));
        assert!(tree.check("/boot2/grubenv").unwrap_err().contains("btrfs"));
    }
}
