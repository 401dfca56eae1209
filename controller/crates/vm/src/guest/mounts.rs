//! The file systems that programs expect.

use std::{ffi::CStr, fs};

use rustix::{
    io::Errno,
    mount::{MountFlags, mount},
};

use super::init::say;

/// Type, place, options.
const MOUNTS: [(&str, &str, Option<&CStr>); 8] = [
    ("proc", "/proc", None),
    ("sysfs", "/sys", None),
    ("devtmpfs", "/dev", Some(c"mode=0755")),
    ("devpts", "/dev/pts", Some(c"mode=0620,ptmxmode=0666")),
    ("tmpfs", "/dev/shm", Some(c"mode=1777")),
    ("tmpfs", "/tmp", Some(c"mode=1777")),
    ("tmpfs", "/run", Some(c"mode=0755")),
    ("cgroup2", "/sys/fs/cgroup", None),
];

/// Where `/dev` points to what a process has open.
const LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Mounts all of them. What a kernel does not have is said on the console, and the rest goes on.
pub(super) fn mount_all() {
    for (kind, place, options) in MOUNTS {
        // Directories of sysfs are there already.
        let _ = fs::create_dir_all(place);
        match mount(kind, place, kind, MountFlags::NOSUID, options) {
            // The kernel may have mounted devtmpfs itself.
            Ok(()) | Err(Errno::BUSY) => {}
            Err(error) => say(&format!("cannot mount {kind} on `{place}`: {error}")),
        }
    }
    for (target, link) in LINKS {
        if let Err(error) = std::os::unix::fs::symlink(target, link) {
            say(&format!("cannot make `{link}`: {error}"));
        }
    }
}
