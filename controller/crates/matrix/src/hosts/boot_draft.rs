//! `boot` and `cpus` of a host.

use std::{ops::Range, time::Duration};

use super::{
    boot::{Boot, BootKernel, BootMethod, CpuWord, CpusBy},
    file::Reach,
    machine, placeholders, reach,
};
use crate::{
    decode::{
        fields::{self, Fields, Problems},
        role::command_words,
        units, value,
    },
    keys,
    scalar::Scalar,
    tree::{Entry, Kind, Node},
};

const EXAMPLE: &str = "for instance boot: { by: grub, kernels: { \"6.1\": { entry: \"Debian, with Linux 6.1.0-50-amd64\", \
                       release: 6.1.0-50-amd64 } } }";
const KERNELS: &str = "kernels: { \"6.1\": { entry: NAME, release: 6.1.0-50-amd64 } }";
/// Time for a host to boot, if its file does not say another.
const USUAL_WITHIN: Duration = Duration::from_secs(300);
/// Times that a host is booted for the sake of cells in one run, if its file does not say another number.
const USUAL_TIMES: u32 = 100;
/// The most that a file may say.
const MAX_TIMES: u32 = 10_000;

/// The methods, before what else belongs to each.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Grub,
    EfiBootNext,
    SystemdBoot,
    Kexec,
    Command,
}

const METHODS: [(&str, By); 5] = [
    ("grub", By::Grub),
    ("efi-bootnext", By::EfiBootNext),
    ("systemd-boot", By::SystemdBoot),
    ("kexec", By::Kexec),
    ("command", By::Command),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum CpusKind {
    Affinity,
    Hotplug,
    Boot,
}

const CPUS: [(&str, CpusKind); 3] =
    [("affinity", CpusKind::Affinity), ("hotplug", CpusKind::Hotplug), ("boot", CpusKind::Boot)];
const WORDS: [(&str, CpuWord); 2] = [("nr_cpus", CpuWord::NrCpus), ("maxcpus", CpuWord::MaxCpus)];

/// Something of `boot` or `cpus`, and where it is said.
#[derive(Clone)]
struct Placed<T> {
    value: T,
    span: Range<usize>,
}

/// Decodes `boot`.
fn boot(entry: &Entry, what: &str, problems: &mut Problems) -> Option<Placed<Boot>> {
    let fields = Fields::open(&entry.value, format!("`boot` of {what}"), keys::BOOT, problems)?;
    if fields.lacks("by") {
        problems.add(entry.key.span.clone(), format!("{} does not say `by` what", fields.what()), EXAMPLE);
    }
    let by = fields.get("by").and_then(|node| value::choice(node, "`by`", &METHODS, problems));
    let folder = fields.get("folder").map(|node| on_host(node, "`folder`", problems));
    let command = fields.entry("command").map(|entry| set_next(entry, &fields, problems));
    let (folder, command) = match by {
        Some(by) => {
            let mine = |key: &str, of: By, problems: &mut Problems| {
                if let Some(entry) = fields.entry(key).filter(|_| by != of) {
                    foreign(entry, &format!("`{}`", name_of(of)), &fields, name_of(by), problems);
                }
            };
            mine("folder", By::Grub, problems);
            mine("command", By::Command, problems);
            if by == By::Command && fields.lacks("command") {
                let message = format!("{} has no `command`", fields.what());
                problems.add(
                    fields.place(),
                    message,
                    "add command: [set-next, \"{{ kernel }}\", \"{{ words }}\"]",
                );
            }
            (folder, command)
        }
        None => (None, None),
    };
    let within = fields.get("within");
    let within =
        within.map(|node| units::duration(node, &format!("`within` of {}", fields.what()), problems));
    let times = fields.get("times");
    let times = times
        .map(|node| value::small(node, &format!("`times` of {}", fields.what()), 1..=MAX_TIMES, problems));
    let reboot = fields.get("reboot").map(|node| {
        let words = command_words(node, &format!("`reboot` of {}", fields.what()), problems)?;
        let help = "nothing stands for anything in the command that reboots";
        words.iter().map(|word| placeholders::argument(word, &[], help, problems)).collect::<Option<Vec<_>>>()
    });
    let kernels = kernels(&fields, by, problems);
    let by = match by? {
        By::Grub => BootMethod::Grub { folder: folder.transposed()? },
        By::EfiBootNext => BootMethod::EfiBootNext,
        By::SystemdBoot => BootMethod::SystemdBoot,
        By::Kexec => BootMethod::Kexec,
        By::Command => BootMethod::Command(command??),
    };
    let value = Boot {
        by,
        within: within.unwrap_or(Some(USUAL_WITHIN))?,
        times: times.unwrap_or(Some(USUAL_TIMES))?,
        reboot: reboot.unwrap_or(Some(Vec::new()))?,
        kernels,
    };
    Some(Placed { value, span: entry.key.span.clone() })
}

/// What was given and is wrong, as nothing.
trait Transposed<T> {
    fn transposed(self) -> Option<Option<T>>;
}

impl<T> Transposed<T> for Option<Option<T>> {
    fn transposed(self) -> Option<Option<T>> {
        match self {
            None => Some(None),
            Some(None) => None,
            Some(given) => Some(given),
        }
    }
}

fn name_of(by: By) -> &'static str {
    METHODS.iter().find(|(_, other)| *other == by).map_or("", |(name, _)| name)
}

fn foreign(entry: &Entry, belongs: &str, fields: &Fields<'_>, by: &str, problems: &mut Problems) {
    let key = &entry.key;
    let message = format!("`{}` belongs to {belongs}, and {} is by `{by}`", key.text, fields.what());
    problems.add(key.span.clone(), message, "leave it out");
}

/// The command that says which kernel comes next.
fn set_next(entry: &Entry, fields: &Fields<'_>, problems: &mut Problems) -> Option<Vec<String>> {
    let what = format!("`command` of {}", fields.what());
    let words = command_words(&entry.value, &what, problems)?;
    let help = "this command has {{ kernel }} and {{ words }}";
    let values = [("kernel", "x"), ("words", "x")];
    let known = words.iter().map(|word| placeholders::argument(word, &values, help, problems));
    known.collect::<Option<Vec<_>>>()?;
    let argv: Vec<String> = words.iter().map(|word| word.as_str().to_owned()).collect();
    let asks = |word: &String| placeholders::render(word, &[("words", "")]).is_err();
    if !argv.iter().any(asks) {
        let help = "put \"{{ kernel }}\" where the command is told which kernel comes next";
        problems.add(entry.value.span.clone(), format!("{what} is not told which kernel"), help);
        return None;
    }
    Some(argv)
}

/// The file of a host.
fn on_host(node: &Node, what: &str, problems: &mut Problems) -> Option<String> {
    let path = reach::path(node, what, problems)?;
    if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
        let message = format!("{what} `{path}` is not an absolute path without `..`");
        problems.add(node.span.clone(), message, "write where it is on the host: /boot/vmlinuz-mine");
        return None;
    }
    Some(path)
}

/// Without a known method, what is wrong whatever it is.
fn kernels(fields: &Fields<'_>, by: Option<By>, problems: &mut Problems) -> Vec<BootKernel> {
    let Some(node) = fields.get("kernels") else {
        if fields.lacks("kernels") {
            let help = format!("add {KERNELS}: label -> how the host boots it");
            problems.add(fields.place(), format!("{} has no `kernels`", fields.what()), help);
        }
        return Vec::new();
    };
    let entries = fields::entries(node, &format!("`kernels` of {}", fields.what()), KERNELS, problems);
    if entries.is_empty() && matches!(node.kind, Kind::Map(_)) {
        let message = format!("`kernels` of {} is empty", fields.what());
        problems.add(node.span.clone(), message, format!("for instance {KERNELS}"));
    }
    entries.iter().filter_map(|entry| kernel(entry, by, problems)).collect()
}

fn kernel(entry: &Entry, by: Option<By>, problems: &mut Problems) -> Option<BootKernel> {
    let label = machine::own_label(&entry.key, problems)?;
    if let Kind::Scalar(_) = &entry.value.kind {
        let place = main_place(&entry.value, by?, &label, problems)?;
        return bare(label, place, &entry.key, problems);
    }
    let fields = Fields::open(&entry.value, format!("kernel `{label}`"), keys::BOOT_KERNEL, problems)?;
    let Some(by) = by else {
        fields.get("release").and_then(|node| release(node, &label, problems));
        return None;
    };
    let main = if by == By::Kexec { "image" } else { "entry" };
    let others: &[&str] = if by == By::Kexec { &["entry"] } else { &["image", "initrd", "cmdline"] };
    let mut sound = true;
    for other in others.iter().filter_map(|key| fields.entry(key)) {
        let belongs = if other.key.text == "entry" { "boot loaders" } else { "`kexec`" };
        foreign(other, belongs, &fields, name_of(by), problems);
        sound = false;
    }
    let place = match fields.get(main) {
        Some(node) => main_place(node, by, &label, problems),
        None if by == By::Command => Some(label.clone()),
        None => {
            if fields.lacks(main) {
                let message = format!("{} has no `{main}`", fields.what());
                let help = match by {
                    By::Kexec => "add `image: PATH`, the kernel's file on the host",
                    By::Grub => {
                        "add `entry: TITLE`, as in the menu, with those of its submenus before it: SUBMENU>TITLE"
                    }
                    By::EfiBootNext => "add `entry: 0003`, the number or the name that `efibootmgr` shows",
                    _ => "add `entry: NAME`, the file of the entry: debian-6.12.conf",
                };
                problems.add(entry.key.span.clone(), message, help);
            }
            None
        }
    };
    let initrd = fields.get("initrd").map(|node| on_host(node, "`initrd`", problems));
    let cmdline = fields.get("cmdline").map(|node| machine::words(node, problems));
    let release = match fields.get("release") {
        Some(node) => release(node, &label, problems),
        None => bare(label.clone(), String::new(), &entry.key, problems).map(|kernel| kernel.release),
    };
    let kernel = BootKernel {
        label,
        entry: place?,
        initrd: initrd.transposed()?,
        cmdline: cmdline.transposed()?,
        release: release?,
    };
    sound.then_some(kernel)
}

/// A kernel of which nothing else is said: its label is its release.
fn bare(label: String, entry: String, key: &Scalar, problems: &mut Problems) -> Option<BootKernel> {
    if label.contains(char::is_whitespace) {
        let message = format!("the label `{label}` is no release of a kernel, and nothing says its release");
        problems.add(key.span.clone(), message, "add `release: RELEASE`, what `uname -r` says when it runs");
        return None;
    }
    Some(BootKernel { release: label.clone(), label, entry, initrd: None, cmdline: None })
}

/// `entry` or `image`.
fn main_place(node: &Node, by: By, label: &str, problems: &mut Problems) -> Option<String> {
    if by == By::Kexec {
        return on_host(node, "`image`", problems);
    }
    let text = value::text(node, &format!("`entry` of kernel `{label}`"), problems)?;
    if text.trim().is_empty() || text.contains(char::is_control) {
        let message = format!("`entry` of kernel `{label}` is empty or has control characters");
        problems.add(node.span.clone(), message, "write it as the boot loader calls it");
        return None;
    }
    Some(text)
}

fn release(node: &Node, label: &str, problems: &mut Problems) -> Option<String> {
    let text = value::text(node, &format!("`release` of kernel `{label}`"), problems)?;
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        let message = format!("`release` of kernel `{label}` cannot be `{}`", text.escape_debug());
        problems.add(node.span.clone(), message, "write what `uname -r` says when it runs: 6.1.0-50-amd64");
        return None;
    }
    Some(text)
}

/// Decodes `cpus`.
fn cpus(entry: &Entry, what: &str, problems: &mut Problems) -> Option<Placed<CpusBy>> {
    let fields = Fields::open(&entry.value, format!("`cpus` of {what}"), keys::HOST_CPUS, problems)?;
    if fields.lacks("by") {
        let help = "add `by: affinity`, `by: hotplug` or `by: boot`";
        problems.add(entry.key.span.clone(), format!("{} does not say `by` what", fields.what()), help);
    }
    let by = fields.get("by").and_then(|node| value::choice(node, "`by`", &CPUS, problems));
    let word = fields.get("word").map(|node| value::choice(node, "`word`", &WORDS, problems));
    if let (Some(other), Some(entry)) = (by.filter(|by| *by != CpusKind::Boot), fields.entry("word")) {
        let name = CPUS.iter().find(|(_, by)| *by == other).map_or("", |(name, _)| name);
        foreign(entry, "`boot`", &fields, name, problems);
        return None;
    }
    let value = match by? {
        CpusKind::Affinity => CpusBy::Affinity,
        CpusKind::Hotplug => CpusBy::Hotplug,
        CpusKind::Boot => CpusBy::Boot(word.unwrap_or(Some(CpuWord::NrCpus))?),
    };
    Some(Placed { value, span: entry.key.span.clone() })
}

/// What a host, or `defaults`, say of boots and CPUs.
#[derive(Clone, Default)]
pub(super) struct MachineDraft {
    boot: Option<Placed<Boot>>,
    /// `boot` is there, with or without mistakes.
    says_boot: bool,
    cpus: Option<Placed<CpusBy>>,
}

/// Decodes `boot` and `cpus`.
pub(super) fn draft(fields: &Fields<'_>, problems: &mut Problems) -> MachineDraft {
    let what = fields.what();
    MachineDraft {
        boot: fields.entry("boot").and_then(|entry| boot(entry, what, problems)),
        says_boot: !fields.lacks("boot"),
        cpus: fields.entry("cpus").and_then(|entry| cpus(entry, what, problems)),
    }
}

/// What holds for one host: its own, or what `defaults` say, which leave this machine and virtual ones alone.
pub(super) fn of_host(
    own: &MachineDraft,
    defaults: &MachineDraft,
    key: &Scalar,
    reach: &Reach,
    problems: &mut Problems,
) -> (Option<Boot>, Option<CpusBy>) {
    let host = &key.text;
    if matches!(reach, Reach::Vm(_)) {
        return (None, None);
    }
    let is_local = matches!(reach, Reach::Local);
    if let Some(boot) = own.boot.as_ref().filter(|_| is_local) {
        let message = format!("`boot` of host `{host}`, which is this machine");
        problems.add(boot.span.clone(), message, "leave it out: the run would end with it");
    }
    let by_boot = |cpus: &&Placed<CpusBy>| matches!(cpus.value, CpusBy::Boot(_));
    let boot = own.boot.as_ref().or(defaults.boot.as_ref()).filter(|_| !is_local);
    let usual = defaults.cpus.as_ref().filter(|cpus| !is_local || !by_boot(cpus));
    let cpus = own.cpus.as_ref().or(usual);
    let says_boot = (own.says_boot || defaults.says_boot) && !is_local;
    if let Some(cpus) = cpus.filter(by_boot).filter(|_| !says_boot) {
        let message = format!("`cpus` of host `{host}` is by `boot`, and nothing says how it boots");
        let help = if is_local { "this machine is not booted: use `by: hotplug`" } else { EXAMPLE };
        problems.add(cpus.span.clone(), message, help);
    }
    (boot.map(|boot| boot.value.clone()), cpus.map(|cpus| cpus.value))
}
