//! GRUB boots an entry once: by the variable `next_entry` of its environment block, which its `grub.cfg` clears before it boots.
//! What it boots by itself (`saved_entry`, `default`) is not touched.

mod block;
mod bls;
mod lex;
mod medium;
mod menu;

use std::{
    io,
    path::{Path, PathBuf},
};

pub use block::BlockError;
pub use medium::MediumError;
pub use menu::EntryError;

use self::{
    block::Block,
    menu::{Menu, VARIABLE},
};
use super::Words;
use crate::source::Source;

/// Where distributions put it.
const FOLDERS: [&str; 2] = ["/boot/grub", "/boot/grub2"];

/// The variable that names the entry for the next boot.
const NEXT: &str = "next_entry";

/// Why GRUB cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum GrubError {
    /// It is not there.
    #[error("there is no `grub.cfg` in {}; if GRUB boots this host, name its folder: `folder` in the host file", .0.join(" or "))]
    Absent(Vec<String>),
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The entry cannot be booted.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// `grub.cfg` would not boot it, or boot it for ever.
    #[error("`{}` does not {what}, as one that `grub-mkconfig` makes does", path.display())]
    NotHonoured {
        /// The `grub.cfg`.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// GRUB could not clear what is set.
    #[error("the entry would be booted for ever: GRUB clears `next_entry` at boot, and cannot write here")]
    Medium(#[from] MediumError),
    /// The environment block cannot be used.
    #[error(transparent)]
    Block(#[from] BlockError),
}

/// What is to be done.
#[derive(Debug)]
pub(super) struct Plan {
    block: Block,
    pub(super) path: PathBuf,
    entry: String,
    words: String,
    pub(super) words_taken: bool,
}

/// Looks whether `entry` can be booted once.
pub(super) fn plan(
    source: Source<'_>,
    entry: &str,
    folder: Option<&str>,
    words: &Words,
) -> Result<Plan, GrubError> {
    let folder = find_folder(source, folder)?;
    let config = folder.join("grub.cfg");
    let mut menu = Menu::parse(&read(&config)?);
    if menu.custom && folder.join("custom.cfg").exists() {
        menu.add(Menu::parse(&read(&folder.join("custom.cfg"))?));
    }
    if menu.blscfg {
        menu.entries.extend(bls::entries(source)?);
    }
    let missing = [
        (menu.loads_next, "load its environment block (load_env)"),
        (menu.boots_next, "boot `next_entry` (set default=\"${next_entry}\")"),
        (menu.clears_next, "clear `next_entry` (save_env next_entry)"),
    ];
    if let Some((_, what)) = missing.into_iter().find(|(has, _)| !has) {
        return Err(GrubError::NotHonoured { path: config, what });
    }
    let found = menu.find(entry)?;
    let path = folder.join("grubenv");
    // On Fedora it is a link to the EFI system partition.
    let path = match path.canonicalize() {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(BlockError::Absent(path).into()),
        Err(source) => return Err(GrubError::Read { path, source }),
    };
    let seen =
        path.strip_prefix(source.root).map_or_else(|_| path.clone(), |below| Path::new("/").join(below));
    medium::check(source, &seen)?;
    let block = Block::read(&path)?;
    Ok(Plan { block, path, entry: found.path, words: words.line(), words_taken: found.takes_words })
}

impl Plan {
    /// Does it, and reads it back.
    pub(super) fn carry_out(mut self) -> Result<(), GrubError> {
        self.block.set(NEXT, Some(&self.entry));
        self.block.set(VARIABLE, Some(&self.words));
        Ok(self.block.write()?)
    }
}

/// Takes back what was set; whether an entry was still to be booted.
pub(super) fn disarm(path: &Path) -> Result<bool, GrubError> {
    let mut block = Block::read(path)?;
    let was_set = block.get(NEXT).is_some_and(|entry| !entry.is_empty());
    if block.get(NEXT).is_some() || block.get(VARIABLE).is_some() {
        block.set(NEXT, None);
        block.set(VARIABLE, None);
        block.write()?;
    }
    Ok(was_set)
}

/// The folder with `grub.cfg`.
pub(super) fn find_folder(source: Source<'_>, folder: Option<&str>) -> Result<PathBuf, GrubError> {
    let places: Vec<&str> = folder.map_or(FOLDERS.to_vec(), |folder| vec![folder]);
    let paths = places.iter().map(|place| source.path(place.trim_start_matches('/')));
    let found = paths.into_iter().find(|path| path.join("grub.cfg").is_file());
    found.ok_or_else(|| GrubError::Absent(places.iter().map(|place| format!("`{place}`")).collect()))
}

/// Whether entries can be booted once at all.
pub(super) fn usable(source: Source<'_>) -> Result<(), GrubError> {
    let path = find_folder(source, None)?.join("grubenv");
    let real = path.canonicalize().map_err(|_| BlockError::Absent(path))?;
    let seen =
        real.strip_prefix(source.root).map_or_else(|_| real.clone(), |below| Path::new("/").join(below));
    medium::check(source, &seen)?;
    Block::read(&real)?;
    Ok(())
}

fn read(path: &Path) -> Result<String, GrubError> {
    let bytes = std::fs::read(path).map_err(|source| GrubError::Read { path: path.to_owned(), source })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    const DEBIAN: &str = include_str!("../../../tests/testdata/boot/debian-12.cfg");
    const EMPTY: &[u8] = include_bytes!("../../../tests/testdata/boot/grubenv.empty");
    const SIMPLE: &str = "gnulinux-simple-3f1c2f6e-5a0b-4a8e-9d57-0c2f6b1f7d11";

    struct Host(tempfile::TempDir);

    impl Host {
        fn new(config: &str) -> Self {
            let host = Self(tempfile::tempdir().unwrap());
            host.write("boot/grub/grub.cfg", config.as_bytes());
            host.write("boot/grub/grubenv", EMPTY);
            host.write("proc/self/mountinfo", b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
            host.write("sys/devices/sda/sda1/partition", b"1");
            fs::create_dir_all(host.path("sys/dev/block")).unwrap();
            symlink(host.path("sys/devices/sda/sda1"), host.path("sys/dev/block/8:1")).unwrap();
            host
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(path)
        }

        fn write(&self, path: &str, bytes: &[u8]) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, bytes).unwrap();
            fs::File::open(&path).unwrap().sync_all().unwrap();
        }

        fn plan(&self, entry: &str) -> Result<Plan, GrubError> {
            let words = Words::new("n1", &["nr_cpus=2".to_owned()]).unwrap();
            plan(Source { root: &self.path("") }, entry, None, &words)
        }
    }

    #[test]
    fn expect_entry_and_words_in_the_block_when_armed_and_neither_when_disarmed() {
        let host = Host::new(DEBIAN);
        let plan = host.plan("Debian GNU/Linux").unwrap();
        assert!(plan.words_taken);
        let path = plan.path.clone();
        assert_eq!(path, host.path("boot/grub/grubenv"));
        plan.carry_out().unwrap();
        let block = Block::read(&path).unwrap();
        assert_eq!(block.get(NEXT), Some(SIMPLE));
        assert_eq!(block.get(VARIABLE), Some("drover.nonce=n1 nr_cpus=2"));
        assert!(disarm(&path).unwrap());
        assert_eq!(fs::read(&path).unwrap(), EMPTY);
        // GRUB clears the one, not the other.
        let mut block = Block::read(&path).unwrap();
        block.set(NEXT, Some(""));
        block.set(VARIABLE, Some("drover.nonce=n1"));
        block.write().unwrap();
        assert!(!disarm(&path).unwrap());
        assert_eq!(fs::read(&path).unwrap(), EMPTY);
    }

    #[test]
    fn expect_a_refusal_and_nothing_changed_when_one_shot_would_not_be_one() {
        let host = Host::new(&DEBIAN.replace("   save_env next_entry\n", ""));
        let text = host.plan("Debian GNU/Linux").unwrap_err().to_string();
        assert!(text.contains("does not clear `next_entry`"), "{text}");
        let host = Host::new(DEBIAN);
        host.write("boot/grub/grubenv", b"# GRUB Environment Block\n");
        let text = host.plan("Debian GNU/Linux").unwrap_err().to_string();
        assert!(text.contains("grub-editenv") && text.contains("1024 bytes"), "{text}");
        fs::remove_file(host.path("boot/grub/grubenv")).unwrap();
        assert!(
            host.plan("Debian GNU/Linux").unwrap_err().to_string().contains("there is no environment block")
        );
        host.write("boot/grub/grubenv", EMPTY);
        host.write("proc/self/mountinfo", b"21 1 0:30 / / rw - btrfs /dev/sda1 rw\n");
        assert!(matches!(host.plan("Debian GNU/Linux"), Err(GrubError::Medium(_))));
        assert_eq!(fs::read(host.path("boot/grub/grubenv")).unwrap(), EMPTY);
        fs::remove_file(host.path("boot/grub/grub.cfg")).unwrap();
        assert!(host.plan("x").unwrap_err().to_string().contains("`/boot/grub` or `/boot/grub2`"));
    }

    #[test]
    fn expect_fedoras_entries_when_grub_takes_them_from_files() {
        let script = "load_env -f ${config_directory}/grubenv\nset default=\"${next_entry}\"\nset next_entry=\nsave_env next_entry\ninsmod blscfg\nblscfg\n";
        let host = Host::new(script);
        let id = "6a9857a393724b7a981ebb5b8495b9ea-6.11.4-301.fc41.x86_64";
        let entry = "title Fedora Linux (6.11.4-301.fc41.x86_64) 41\nversion 6.11.4-301.fc41.x86_64\nlinux /vmlinuz-6.11.4-301.fc41.x86_64\noptions root=UUID=1 ro rhgb quiet $drover\n";
        host.write(&format!("boot/loader/entries/{id}.conf"), entry.as_bytes());
        let plan = host.plan("Fedora Linux (6.11.4-301.fc41.x86_64) 41").unwrap();
        assert!(plan.words_taken);
        assert_eq!(host.plan(id).unwrap().entry, plan.entry);
        // The id begins with a digit, which GRUB would take for a number.
        assert_eq!(plan.entry, "Fedora Linux (6.11.4-301.fc41.x86_64) 41");
    }
}
