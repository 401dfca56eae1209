//! Which ways of booting another kernel a host has, for its facts.

use std::path::Path;

use rustix::process::geteuid;

use super::{efi::variables::Variables, grub, kexec, systemd_boot};
use crate::source::Source;

/// The names of the ways.
const NAMES: [&str; 4] = ["boot-efi-bootnext", "boot-grub", "boot-kexec", "boot-systemd-boot"];

/// Each way by its name in host files, and why it is not there.
pub(crate) fn features(source: Source<'_>) -> [(&'static str, Option<String>); 4] {
    let user = geteuid();
    if source.root == Path::new("/") && !user.is_root() {
        let why = || Some(format!("it takes root, and the agent runs as user {}", user.as_raw()));
        return NAMES.map(|name| (name, why()));
    }
    let [efi, grub, kexec, systemd_boot] = NAMES;
    [
        (efi, why(Variables::of(source).map(drop))),
        (grub, why(grub::usable(source))),
        (kexec, why(kexec::usable(source))),
        (systemd_boot, why(systemd_boot::usable(source).map(drop))),
    ]
}

fn why<E: std::error::Error>(usable: Result<(), E>) -> Option<String> {
    let error = usable.err()?;
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn expect_the_reason_for_each_way_that_a_host_lacks() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let why = || features(Source { root }).map(|(_, why)| why.unwrap_or_default());
        let [efi, grub, kexec, systemd_boot] = why();
        assert!(efi.contains("UEFI") && systemd_boot.contains("UEFI"), "{efi} {systemd_boot}");
        assert!(grub.contains("/boot/grub2") && kexec.contains("without kexec"), "{grub} {kexec}");
        fs::create_dir_all(root.join("sys/kernel")).unwrap();
        fs::write(root.join("sys/kernel/kexec_loaded"), "0").unwrap();
        fs::create_dir_all(root.join("boot/grub")).unwrap();
        fs::write(root.join("boot/grub/grub.cfg"), "").unwrap();
        let [_, grub, kexec, _] = why();
        assert!(grub.contains("grub-editenv") && kexec.is_empty(), "{grub} {kexec}");
    }
}
