//! The disk of a host, made without root: partitions, a file system with the system on it, and GRUB, which the firmware starts.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::FileExt,
    path::Path,
    process::Stdio,
};

use crate::tree::{GOLDEN, OTHER, Tree, run, tool};

/// Bytes of a sector.
pub const SECTOR: u64 = 512;
/// First sector of the first partition, as usual. Before it is room for GRUB.
const FIRST_SECTOR: u64 = 2048;
/// Size of the file system, most of which is never written.
const SIZE: &str = "512M";
const SIZE_SECTORS: u64 = 512 * 2048;

/// Bytes of a boot sector before its partition table.
const BOOT_CODE: usize = 440;

/// What GRUB can do without files of its own.
const GRUB_MODULES: [&str; 12] = [
    "biosdisk",
    "configfile",
    "echo",
    "ext2",
    "linux",
    "loadenv",
    "minicmd",
    "normal",
    "part_msdos",
    "search",
    "serial",
    "test",
];

/// GRUB's features that keep it from reading ext4 as it is made today.
const FEATURES: &str = "^metadata_csum_seed,^orphan_file";

/// Words for every kernel, with its root file system on `root`.
pub fn cmdline(root: &str) -> String {
    format!("root={root} rw console=ttyS0,115200 panic=5")
}

/// An entry whose kernel does not boot.
pub const BROKEN: &str = "broken";

/// What `grub-mkconfig` of Debian 12 writes, without what is for screens.
const GRUB_CFG: &str = r#"### BEGIN /etc/grub.d/00_header ###
if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="0"
fi

if [ x"${feature_menuentry_id}" = xy ]; then
  menuentry_id_option="--id"
else
  menuentry_id_option=""
fi

export menuentry_id_option

serial --unit=0 --speed=115200
terminal_input serial
terminal_output serial
set timeout=0
### END /etc/grub.d/00_header ###

### BEGIN /etc/grub.d/10_linux ###
menuentry 'Debian GNU/Linux' --class debian --class gnu-linux --class gnu --class os $menuentry_id_option 'gnulinux-simple-1' {
	echo	'Loading Linux golden ...'
	linux	/boot/vmlinuz-golden CMDLINE ${drover}
	echo	'Loading initial ramdisk ...'
	initrd	/boot/initrd.img-golden
}
submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-1' {
	menuentry 'Debian GNU/Linux, with Linux other' --class debian --class gnu-linux --class gnu --class os $menuentry_id_option 'gnulinux-other-advanced-1' {
		echo	'Loading Linux other ...'
		linux	/boot/vmlinuz-other CMDLINE ${drover}
		echo	'Loading initial ramdisk ...'
		initrd	/boot/initrd.img-other
	}
	menuentry 'Debian GNU/Linux, with Linux broken' --class debian --class gnu-linux --class gnu --class os $menuentry_id_option 'gnulinux-broken-advanced-1' {
		echo	'Loading Linux broken ...'
		linux	/boot/vmlinuz-other CMDLINE rdinit=/nonsense ${drover}
		echo	'Loading initial ramdisk ...'
		initrd	/boot/initrd.img-other
	}
	menuentry 'Debian GNU/Linux, with Linux golden' --class debian --class gnu-linux --class gnu --class os $menuentry_id_option 'gnulinux-golden-advanced-1' {
		echo	'Loading Linux golden ...'
		linux	/boot/vmlinuz-golden CMDLINE ${drover}
		echo	'Loading initial ramdisk ...'
		initrd	/boot/initrd.img-golden
	}
}
### END /etc/grub.d/10_linux ###

### BEGIN /etc/grub.d/41_custom ###
if [ -f  ${config_directory}/custom.cfg ]; then
  source ${config_directory}/custom.cfg
elif [ -z "${config_directory}" -a -f  $prefix/custom.cfg ]; then
  source $prefix/custom.cfg
fi
### END /etc/grub.d/41_custom ###
"#;

/// The words of the agent are for the next boot only, and reach entries of submenus.
const CUSTOM_CFG: &str = r#"if [ "${boot_once}" != true ]; then
  set drover=
fi
export drover
"#;

/// Makes a disk in `image` that the firmware of a PC boots by GRUB.
pub fn grub(tree: &Tree, image: &Path) {
    for name in [GOLDEN, OTHER, BROKEN] {
        assert!(GRUB_CFG.contains(&format!("with Linux {name}'")), "{name}");
    }
    tree.write("boot/grub/grub.cfg", 0o644, GRUB_CFG.replace("CMDLINE", &cmdline("/dev/vda1")).as_bytes());
    tree.write("boot/grub/custom.cfg", 0o644, CUSTOM_CFG.as_bytes());
    run(tool("grub-editenv").arg(tree.path("boot/grub/grubenv")).arg("create"));

    let disk = File::create(image).expect("a writable folder");
    disk.set_len((FIRST_SECTOR + SIZE_SECTORS) * SECTOR).expect("room for a disk");
    partition(image, &format!("label: dos\nstart={FIRST_SECTOR}, size={SIZE_SECTORS}, type=83, bootable\n"));
    file_system(tree, image, FIRST_SECTOR);

    let core = image.with_extension("core");
    let mut mkimage = tool("grub-mkimage");
    mkimage.args(["--format=i386-pc", "--prefix=(hd0,msdos1)/boot/grub", "--output"]).arg(&core);
    run(mkimage.args(GRUB_MODULES));
    let core = fs::read(core).expect("what was made");
    assert!(u64::try_from(core.len()).expect("small") < (FIRST_SECTOR - 1) * SECTOR);
    let boot = fs::read("/usr/lib/grub/i386-pc/boot.img").expect("GRUB's boot sector");
    let disk = OpenOptions::new().write(true).open(image).expect("our own disk");
    // Without being told otherwise, each part of GRUB looks for the next one just behind itself.
    disk.write_all_at(&boot[..BOOT_CODE], 0).expect("a writable disk");
    disk.write_all_at(&core, SECTOR).expect("a writable disk");
}

/// Writes a partition table, as `sfdisk` reads it.
pub fn partition(image: &Path, table: &str) {
    let mut sfdisk = tool("sfdisk");
    sfdisk.arg("--quiet").arg(image).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = sfdisk.spawn().expect("sfdisk; scripts/test installs what the tests need");
    child.stdin.take().expect("a pipe").write_all(table.as_bytes()).expect("sfdisk reads");
    assert!(child.wait().expect("sfdisk").success());
}

/// Makes the file system of the host, from this sector on.
pub fn file_system(tree: &Tree, image: &Path, first_sector: u64) {
    let offset = format!("offset={},root_owner=0:0", first_sector * SECTOR);
    let mut mke2fs = tool("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-O", FEATURES, "-E", &offset, "-d"]);
    run(mke2fs.arg(tree.root()).arg(image).arg(SIZE));
}
