//! What a host is asked to boot.

use drover_model::BootOnce;

use crate::{ConversionError, Problem, v1};

impl From<BootOnce> for v1::BootOnce {
    fn from(boot: BootOnce) -> Self {
        use v1::boot_once::By;
        let by = match boot {
            BootOnce::Grub { entry, folder } => By::Grub(v1::GrubEntry { entry, folder }),
            BootOnce::EfiBootNext { entry } => By::EfiBootNext(entry),
            BootOnce::SystemdBoot { entry } => By::SystemdBoot(entry),
            BootOnce::Kexec { image, initrd, cmdline } => {
                By::Kexec(v1::KexecKernel { image, initrd, cmdline })
            }
            BootOnce::Command { argv } => By::Command(v1::BootCommand { argv }),
        };
        Self { by: Some(by) }
    }
}

impl TryFrom<v1::BootOnce> for BootOnce {
    type Error = ConversionError;

    fn try_from(boot: v1::BootOnce) -> Result<Self, ConversionError> {
        use v1::boot_once::By;
        let boot = match boot.by.ok_or_else(|| ConversionError::new("by", Problem::Missing))? {
            By::Grub(v1::GrubEntry { entry, folder }) => Self::Grub { entry, folder },
            By::EfiBootNext(entry) => Self::EfiBootNext { entry },
            By::SystemdBoot(entry) => Self::SystemdBoot { entry },
            By::Kexec(v1::KexecKernel { image, initrd, cmdline }) => Self::Kexec { image, initrd, cmdline },
            By::Command(v1::BootCommand { argv }) => Self::Command { argv },
        };
        let what = match &boot {
            Self::Grub { entry, .. } if entry.is_empty() => "grub.entry",
            Self::EfiBootNext { entry } if entry.is_empty() => "efi_boot_next",
            Self::SystemdBoot { entry } if entry.is_empty() => "systemd_boot",
            Self::Kexec { image, .. } if image.is_empty() => "kexec.image",
            Self::Command { argv } if argv.is_empty() => "command.argv",
            _ => return Ok(boot),
        };
        Err(ConversionError::new(what, Problem::Missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_every_method_unchanged_when_it_travels() {
        let text = |text: &str| text.to_owned();
        let all = [
            BootOnce::Grub { entry: text("a>b"), folder: Some(text("/boot/grub2")) },
            BootOnce::EfiBootNext { entry: text("0003") },
            BootOnce::SystemdBoot { entry: text("debian-6.1.conf") },
            BootOnce::Kexec { image: text("/vmlinuz"), initrd: None, cmdline: Some(text("quiet")) },
            BootOnce::Command { argv: vec![text("set-next"), text("6.1")] },
        ];
        for boot in all {
            assert_eq!(BootOnce::try_from(v1::BootOnce::from(boot.clone())).unwrap(), boot);
        }
    }

    #[test]
    fn expect_the_field_named_when_there_is_nothing_to_boot() {
        let field = |boot: v1::BootOnce| BootOnce::try_from(boot).unwrap_err().field;
        assert_eq!(field(v1::BootOnce { by: None }), "by");
        let empty = BootOnce::Command { argv: Vec::new() };
        assert_eq!(field(empty.into()), "command.argv");
        assert_eq!(field(BootOnce::EfiBootNext { entry: String::new() }.into()), "efi_boot_next");
    }
}
