//! Virtual machines and the kernels that they boot, as the host file describes them.

use std::time::Duration;

use super::reach;
use crate::{
    decode::{
        fields::{self, Fields, Problems},
        units, value,
    },
    keys,
    scalar::Scalar,
    tree::{Entry, Kind, Node},
};

const EXAMPLE: &str = "kernels: { stable: 6.12.57-cloud-amd64 }";
/// What an axis `kernel` says for whatever runs.
const RUNNING: &str = "running";
/// The longest label of a kernel, in characters.
const MAX_LABEL: usize = 100;
/// The most CPUs of a virtual machine.
const MAX_CPUS: u32 = 1024;
/// Memory of a virtual machine, in bytes: the least, the most, and what it has if nothing is said.
const MEMORY: (u64, u64, u64) = (64 << 20, 1 << 44, 512 << 20);
/// Longest time for a kernel to boot, if nothing is said.
const BOOT: Duration = Duration::from_secs(120);

const ACCELERATORS: [(&str, VmAccelerator); 3] =
    [("auto", VmAccelerator::Auto), ("kvm", VmAccelerator::Kvm), ("tcg", VmAccelerator::Tcg)];

/// A virtual machine. Paths are as written: the caller expands a leading `~/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmReach {
    /// Label of the kernel that it runs where a matrix does not say.
    pub kernel: String,
    /// Words for every kernel's command line.
    pub cmdline: String,
    /// In MiB.
    pub memory_mib: u32,
    /// CPUs where a matrix does not say.
    pub cpus: u32,
    /// Sockets over which its CPUs are spread.
    pub sockets: u32,
    /// Threads of each core.
    pub threads: u32,
    /// What runs its instructions.
    pub accelerator: VmAccelerator,
    /// QEMU's `-machine`.
    pub machine: Option<String>,
    /// QEMU's `-cpu`.
    pub cpu: Option<String>,
    /// QEMU: a path, or a name that is looked up.
    pub qemu: Option<String>,
    /// Files of this machine that it has at the same place; programs with their libraries.
    pub files: Vec<String>,
    /// Longest time from its start until its agent answers.
    pub boot: Duration,
}

/// What is to run the instructions of a virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmAccelerator {
    /// KVM where a kernel boots with it, else TCG.
    Auto,
    /// KVM, or no machine.
    Kvm,
    /// TCG: QEMU translates.
    Tcg,
}

/// A kernel under its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelEntry {
    /// What matrices call it: free text.
    pub label: String,
    /// Where it is.
    pub source: KernelSource,
    /// Words for its command line.
    pub cmdline: String,
}

/// Where a kernel is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelSource {
    /// In the catalogue, by its label there.
    Catalogue(String),
    /// In files of this machine, as written.
    Files {
        /// The image.
        image: String,
        /// What `/lib/modules/RELEASE` is for it.
        modules: Option<String>,
        /// A first root file system that it needs besides the one that is made.
        initrd: Option<String>,
    },
}

/// Decodes `kernels`.
pub(super) fn kernels(node: &Node, problems: &mut Problems) -> Vec<KernelEntry> {
    let entries = fields::entries(node, "`kernels`", EXAMPLE, problems);
    entries.iter().filter_map(|entry| kernel(entry, problems)).collect()
}

fn kernel(entry: &Entry, problems: &mut Problems) -> Option<KernelEntry> {
    let key = &entry.key;
    let label = own_label(key, problems)?;
    if let Kind::Scalar(_) = &entry.value.kind {
        let name = label_of(&entry.value, &format!("kernel `{label}`"), problems)?;
        return Some(KernelEntry { label, source: KernelSource::Catalogue(name), cmdline: String::new() });
    }
    let fields = Fields::open(&entry.value, format!("kernel `{label}`"), keys::KERNEL, problems)?;
    let path = |key: &str, problems: &mut Problems| {
        fields.get(key).and_then(|node| reach::path(node, &format!("`{key}` of {}", fields.what()), problems))
    };
    let (image, modules, initrd) =
        (path("image", problems), path("modules", problems), path("initrd", problems));
    let name = fields.get("catalogue").and_then(|node| label_of(node, "`catalogue`", problems));
    let cmdline = fields.get("cmdline").and_then(|node| words(node, problems)).unwrap_or_default();
    let source = match (fields.entry("catalogue"), fields.entry("image")) {
        (Some(_), _) => {
            for other in ["image", "modules", "initrd"].iter().filter_map(|key| fields.entry(key)) {
                let message = format!("{} has both `catalogue` and `{}`", fields.what(), other.key.text);
                problems.add(
                    other.key.span.clone(),
                    message,
                    "the catalogue knows the files: keep one of them",
                );
            }
            KernelSource::Catalogue(name?)
        }
        (None, Some(_)) => KernelSource::Files { image: image?, modules, initrd },
        (None, None) => {
            if fields.lacks("catalogue") && fields.lacks("image") {
                let message = format!("{} does not say where it is", fields.what());
                let help =
                    "add `image: PATH` (and `modules: PATH`), or `catalogue: LABEL` of `drover kernels list`";
                problems.add(key.span.clone(), message, help);
            }
            return None;
        }
    };
    Some(KernelEntry { label, source, cmdline })
}

/// The label under which a file names a kernel.
pub(super) fn own_label(key: &Scalar, problems: &mut Problems) -> Option<String> {
    if key.text == RUNNING {
        let help = "choose another label: in a matrix, `running` means whatever runs";
        problems.add(key.span.clone(), "no kernel can be called `running`", help);
        return None;
    }
    label(&key.text, key.span.clone(), problems)
}

/// Decodes `vm` of a host.
pub(super) fn vm(node: &Node, host: &str, problems: &mut Problems) -> Option<VmReach> {
    let fields = Fields::open(node, format!("`vm` of {host}"), keys::VM, problems)?;
    if fields.lacks("kernel") {
        let help = "add `kernel: LABEL`, the one that it runs where a matrix does not say; `drover kernels list` has labels";
        problems.add(fields.place(), format!("{} has no `kernel`", fields.what()), help);
    }
    let kernel = fields.get("kernel").and_then(|node| label_of(node, "`kernel`", problems));
    let mut count = |key: &str, usual: u32| match fields.get(key) {
        Some(node) => value::small(node, &format!("`{key}` of {}", fields.what()), 1..=MAX_CPUS, problems),
        None => Some(usual),
    };
    let (cpus, sockets, threads) = (count("cpus", 1), count("sockets", 1), count("threads", 1));
    if let (Some(cpus), Some(sockets), Some(threads)) = (cpus, sockets, threads)
        && !cpus.is_multiple_of(sockets.saturating_mul(threads))
    {
        let message =
            format!("{cpus} CPUs cannot be spread over {sockets} sockets with {threads} threads a core");
        let help = "make `cpus` a multiple of `sockets` times `threads`; that holds for an axis `cpus`, too";
        problems.add(node.span.clone(), message, help);
    }
    let memory = match fields.get("memory") {
        Some(node) => units::size_within(node, "`memory`", MEMORY.0..=MEMORY.1, problems),
        None => Some(MEMORY.2),
    };
    let accelerator = match fields.get("accelerator") {
        Some(node) => value::choice(node, "`accelerator`", &ACCELERATORS, problems),
        None => Some(VmAccelerator::Auto),
    };
    let mut option = |key: &str| {
        let node = fields.get(key)?;
        let text = value::text(node, &format!("`{key}` of {}", fields.what()), problems)?;
        if text.is_empty() || text.starts_with('-') || text.contains(char::is_control) {
            let message = format!("`{key}` cannot be `{text}`");
            problems.add(node.span.clone(), message, "it is what QEMU's option of that name takes");
            return None;
        }
        Some(text)
    };
    let (machine, cpu) = (option("machine"), option("cpu"));
    let qemu = fields.get("qemu").and_then(|node| reach::path(node, "`qemu`", problems));
    let cmdline = fields.get("cmdline").and_then(|node| words(node, problems)).unwrap_or_default();
    let files = fields.get("files").map(fields::one_or_many).unwrap_or_default();
    let files = files.iter().filter_map(|node| absolute(node, problems)).collect();
    let boot = match fields.get("boot") {
        Some(node) => units::duration(node, "`boot`", problems),
        None => Some(BOOT),
    };
    Some(VmReach {
        kernel: kernel?,
        cmdline,
        memory_mib: u32::try_from(memory? >> 20).ok()?,
        cpus: cpus?,
        sockets: sockets?,
        threads: threads?,
        accelerator: accelerator?,
        machine,
        cpu,
        qemu,
        files,
        boot: boot?,
    })
}

/// A file that goes to the same place.
fn absolute(node: &Node, problems: &mut Problems) -> Option<String> {
    let path = reach::path(node, "a file", problems)?;
    if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
        let help = "write an absolute path without `..`: it is at the same place in the virtual machine";
        problems.add(node.span.clone(), format!("the file `{path}` cannot be copied"), help);
        return None;
    }
    Some(path)
}

fn label_of(node: &Node, what: &str, problems: &mut Problems) -> Option<String> {
    let scalar = value::scalar(node, what, problems)?;
    label(&scalar.text, scalar.span.clone(), problems)
}

fn label(text: &str, span: std::ops::Range<usize>, problems: &mut Problems) -> Option<String> {
    let good = (1..=MAX_LABEL).contains(&text.chars().count()) && !text.contains(char::is_control);
    if !good {
        let message = format!("`{}` is no label of a kernel", text.escape_debug());
        problems.add(span, message, format!("write 1 to {MAX_LABEL} characters without control characters"));
    }
    good.then(|| text.to_owned())
}

/// Words of a kernel's command line.
pub(super) fn words(node: &Node, problems: &mut Problems) -> Option<String> {
    let text = value::text(node, "`cmdline`", problems)?;
    if text.contains(char::is_control) {
        let help = "write all words on one line";
        problems.add(node.span.clone(), "`cmdline` has line breaks or control characters", help);
        return None;
    }
    Some(text)
}
