//! The file systems that programs expect.

use std::{ffi::CStr, fs, os::unix::fs::PermissionsExt};

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
    ("tmpfs", TMP, Some(c"mode=1777")),
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

/// Where everybody may write.
const TMP: &str = "/tmp";

/// Mounts all of them. What a kernel does not have is said on the console, and the rest goes on.
pub(super) fn mount_all() {
    for (kind, place, options) in MOUNTS {
        // Directories of sysfs are there already.
        let _ = fs::create_dir_all(place);
        if place == TMP && fs::read_dir(TMP).is_ok_and(|mut entries| entries.next().is_some()) {
            // It has files that the machine is to have there, and would be hidden.
            if let Err(error) = fs::set_permissions(TMP, fs::Permissions::from_mode(0o1777)) {
                say(&format!("cannot open `{TMP}` to everybody: {error}"));
            }
            continue;
        }
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
