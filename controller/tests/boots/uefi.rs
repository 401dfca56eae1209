//! The disk of a host with UEFI firmware: an EFI system partition with systemd-boot and kernels, the system beside it, and a boot
//! entry of the firmware's for the other kernel, without systemd-boot.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
};

use crate::{
    disk::{SECTOR, cmdline, file_system, partition},
    tree::{GOLDEN, OTHER, Tree, run, tool},
};

/// OVMF, and what it remembers.
pub const FIRMWARE: &str = "/usr/share/OVMF/OVMF_CODE.fd";
const VARIABLES: &str = "/usr/share/OVMF/OVMF_VARS.fd";

const SYSTEMD_BOOT: &str = "/usr/lib/systemd/boot/efi/systemd-bootx64.efi";

/// The EFI system partition, in sectors.
const ESP_START: u64 = 2048;
const ESP_SIZE: u64 = 96 * 2048;
/// The system's partition.
const ROOT_START: u64 = ESP_START + ESP_SIZE;
const ROOT_SIZE: u64 = 512 * 2048;

/// The unique number of the EFI system partition.
const ESP_ID: &str = "11111111-2222-3333-4444-555555555555";
const ESP_ID_BYTES: [u8; 16] =
    [0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55];

/// The firmware's entry for the other kernel.
pub const ENTRY_NAME: &str = "Other kernel";
const ENTRY_VARIABLE: &str = "Boot00D0-8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// What tells its boots from those by systemd-boot.
pub const ENTRY_WORD: &str = "by-firmware";

/// Run at every boot of the host.
const RC_LOCAL: &str = "#!/bin/sh
mount -t vfat /dev/vda1 /boot
entry=/sys/firmware/efi/efivars/VARIABLE
[ -e $entry ] || cat /etc/VARIABLE > $entry
";

/// Makes a disk in `image`, and the firmware's memory beside it in `variables`.
pub fn systemd_boot(tree: &Tree, image: &Path, variables: &Path) {
    fs::copy(VARIABLES, variables).expect("OVMF; scripts/test installs what the tests need");
    tree.write("etc/rc.local", 0o755, RC_LOCAL.replace("VARIABLE", ENTRY_VARIABLE).as_bytes());
    tree.write(&format!("etc/{ENTRY_VARIABLE}"), 0o644, &entry());

    let disk = File::create(image).expect("a writable folder");
    // Behind the last partition is the copy of the table.
    disk.set_len((ROOT_START + ROOT_SIZE + 2048) * SECTOR).expect("room for a disk");
    let esp = format!("start={ESP_START}, size={ESP_SIZE}, type=uefi, uuid={ESP_ID}");
    partition(image, &format!("label: gpt\n{esp}\nstart={ROOT_START}, size={ROOT_SIZE}, type=linux\n"));
    let esp = image.with_extension("esp");
    system_partition(tree, &esp);
    let bytes = fs::read(&esp).expect("what was made");
    let disk = OpenOptions::new().write(true).open(image).expect("our own disk");
    disk.write_all_at(&bytes, ESP_START * SECTOR).expect("a writable disk");
    fs::remove_file(&esp).expect("our own file");
    for name in [GOLDEN, OTHER] {
        for file in ["vmlinuz", "initrd.img"] {
            fs::remove_file(tree.path(&format!("boot/{file}-{name}"))).expect("our own file");
        }
    }
    file_system(tree, image, ROOT_START);
}

/// Makes the file system of the EFI system partition in `esp`.
fn system_partition(tree: &Tree, esp: &Path) {
    let kibibytes = (ESP_SIZE * SECTOR / 1024).to_string();
    run(tool("mkfs.vfat").args(["-C", "-n", "ESP", "-F", "32"]).arg(esp).arg(kibibytes));
    let mtools = |name: &str| {
        let mut command = tool(name);
        command.env("MTOOLS_SKIP_CHECK", "1").arg("-i").arg(esp);
        command
    };
    run(mtools("mmd").args(["::EFI", "::EFI/BOOT", "::loader", "::loader/entries"]));
    let copy = |from: &Path, to: &str| run(mtools("mcopy").arg(from).arg(format!("::{to}")));
    copy(Path::new(SYSTEMD_BOOT), "EFI/BOOT/BOOTX64.EFI");
    let write = |to: &str, text: &str| {
        let file = esp.with_extension("text");
        fs::write(&file, text).expect("a writable folder");
        copy(&file, to);
    };
    write("loader/loader.conf", &format!("timeout 0\ndefault {GOLDEN}.conf\n"));
    for name in [GOLDEN, OTHER] {
        for file in ["vmlinuz", "initrd.img"] {
            copy(&tree.path(&format!("boot/{file}-{name}")), &format!("{file}-{name}"));
        }
        let entry = format!(
            "title Linux {name}\nlinux /vmlinuz-{name}\ninitrd /initrd.img-{name}\noptions {}\n",
            cmdline("/dev/vda2")
        );
        write(&format!("loader/entries/{name}.conf"), &entry);
    }
}

/// A boot entry (`EFI_LOAD_OPTION`) as `efivarfs` takes it: the kernel as an EFI program, with its command line.
fn entry() -> Vec<u8> {
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let node = |kind: u8, subkind: u8, body: Vec<u8>| {
        let length = u16::try_from(body.len() + 4).expect("short");
        [vec![kind, subkind], length.to_le_bytes().to_vec(), body].concat()
    };
    let mut disk = 1_u32.to_le_bytes().to_vec();
    disk.extend(ESP_START.to_le_bytes());
    disk.extend(ESP_SIZE.to_le_bytes());
    disk.extend(ESP_ID_BYTES);
    // A partition of a GPT, known by its unique number.
    disk.extend([2, 2]);
    let file = utf16(&format!("\\vmlinuz-{OTHER}\0"));
    let path = [node(4, 1, disk), node(4, 4, file), node(0x7f, 0xff, Vec::new())].concat();
    let words = format!("initrd=\\initrd.img-{OTHER} {} {ENTRY_WORD}\0", cmdline("/dev/vda2"));
    [
        // Kept, for the firmware and for systems; active.
        7_u32.to_le_bytes().to_vec(),
        1_u32.to_le_bytes().to_vec(),
        u16::try_from(path.len()).expect("short").to_le_bytes().to_vec(),
        utf16(&format!("{ENTRY_NAME}\0")),
        path,
        utf16(&words),
    ]
    .concat()
}
