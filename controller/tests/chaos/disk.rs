//! Disks that fail, below a round's folder: mounted by root, unmounted with the round.
//!
//! Results are on an ext4 file system in a file of its own, because there is a way to make that one fail for good as a dying
//! disk or a loss of power would: `EXT4_IOC_SHUTDOWN` (`ioctl_ext4`, fs/ext4/ioctl.c) without a last flush. From then on every
//! read, write and sync is answered with EIO, and what was not synced before is not there when the file system is mounted
//! again. A FUSE file system would have to be written, a device-mapper target is not in every kernel, and a preloaded
//! library does not reach a static program. The agent's folder is on a tmpfs, which can only be full.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use crate::wait::until;

/// Size of the results' disk. A store of a round and its outputs take 1 MiB.
const STORE: u64 = 24 << 20;
/// Size of the agent's.
const AGENT: &str = "size=8m,mode=0711";
/// Makes an ext4 file system fail: `_IOR('X', 125, __u32)` with `EXT4_GOING_FLAGS_NOLOGFLUSH`.
const SHUT_DOWN: &str = "my $how = pack('L', 2); open(my $top, '<', $ARGV[0]) or die; \
                         ioctl($top, 0x8004587d, $how) or die \"shutdown: $!\"";

/// A mounted file system.
pub struct Disk {
    top: PathBuf,
    /// The file that holds it, if it is on a loop device.
    image: Option<PathBuf>,
}

impl Disk {
    /// A file system in a file, mounted at `top`.
    pub fn ext4(top: &Path) -> Result<Self, String> {
        let image = top.with_extension("image");
        File::create(&image).and_then(|file| file.set_len(STORE)).map_err(|error| error.to_string())?;
        // Blocks as large as on any disk of today. Of small file systems they are smaller than a page of memory, and then a
        // shared index of SQLite that grows on a full disk is answered with SIGBUS.
        command("mkfs.ext4", &["-q", "-F", "-m", "0", "-b", "4096", &text(&image)])?;
        fs::create_dir_all(top).map_err(|error| error.to_string())?;
        let disk = Self { top: top.to_owned(), image: Some(image) };
        disk.mount()?;
        Ok(disk)
    }

    /// A small one in memory, mounted at `top`.
    pub fn tmpfs(top: &Path) -> Result<Self, String> {
        fs::create_dir_all(top).map_err(|error| error.to_string())?;
        let disk = Self { top: top.to_owned(), image: None };
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&self) -> Result<(), String> {
        let top = text(&self.top);
        match &self.image {
            Some(image) => command("mount", &["-o", "loop", &text(image), &top]),
            None => command("mount", &["-t", "tmpfs", "-o", AGENT, "tmpfs", &top]),
        }
    }

    /// Leaves no room, not for a byte.
    pub fn fill(&self) {
        let Ok(mut file) = File::create(self.ballast()) else { return };
        let mut block = vec![0x55; 1 << 20];
        while !block.is_empty() {
            if file.write_all(&block).is_err() {
                block.truncate(block.len() / 2);
            }
        }
        // Blocks are given out when data is written back.
        let _ = file.sync_all();
    }

    pub fn free(&self) {
        let _ = fs::remove_file(self.ballast());
    }

    fn ballast(&self) -> PathBuf {
        self.top.join("ballast")
    }

    /// From now on, nothing can be read or written, and what was not synced is lost. A sync that is under way at that instant may
    /// be answered as if it had succeeded (seen with Linux 6.18 and SQLite alone), which no disk does; so nobody may be in the
    /// middle of one.
    pub fn fail(&self) -> Result<(), String> {
        command("perl", &["-e", SHUT_DOWN, &text(&self.top)])
    }

    /// Puts it in order again after it failed; nobody may use it.
    pub fn replace(&self) -> Result<(), String> {
        self.unmount()?;
        self.mount()?;
        // That it was removed may be among what was lost.
        self.free();
        Ok(())
    }

    fn unmount(&self) -> Result<(), String> {
        let mut result = Ok(());
        // A process that was killed may need a moment to let go of its files.
        until("the disk is not used any more", || {
            result = command("umount", &[&text(&self.top)]);
            result.is_ok()
        })
        .map_err(|late| format!("{late}: {}", result.err().unwrap_or_default()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            eprintln!("a disk stays mounted at {}: {error}", self.top.display());
        }
        self.image.iter().for_each(|image| drop(fs::remove_file(image)));
    }
}

/// Whether file systems in files can be mounted here, for instance at `scratch`.
pub fn has_loops(scratch: &Path) -> Result<(), String> {
    Disk::ext4(&scratch.join("probe")).map(drop)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn command(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C").output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
