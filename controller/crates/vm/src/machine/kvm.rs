//! Whether KVM works: a device node is there on many machines where nothing boots with it, so a kernel is booted.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::Stdio,
    sync::LazyLock,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, Command},
    sync::Mutex,
    time::timeout,
};

/// How long a kernel may take to say its first words. With KVM it takes well under a second.
pub const KVM_LIMIT: Duration = Duration::from_secs(5);

/// The kernel's first words.
const FIRST_WORDS: &str = "Linux version";

/// What was found, by program: it does not change while this process lives. The lock is held while one is tried, so that
/// others wait for that.
static KNOWN: LazyLock<Mutex<HashMap<PathBuf, KvmVerdict>>> = LazyLock::new(Mutex::default);

/// Whether KVM works, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvmVerdict {
    /// A kernel said its first words.
    Works,
    /// It did not.
    Broken {
        /// What was seen instead.
        why: String,
    },
}

/// Whether `kernel` boots in `qemu` with KVM: tried once in the life of this process, for at most [`KVM_LIMIT`].
pub async fn kvm_works(qemu: &Path, kernel: &Path) -> KvmVerdict {
    let mut known = KNOWN.lock().await;
    if let Some(verdict) = known.get(qemu) {
        return verdict.clone();
    }
    let verdict = try_kvm(qemu, kernel).await;
    tracing::info!(?verdict, qemu = %qemu.display(), "tried kvm");
    known.insert(qemu.to_owned(), verdict.clone());
    verdict
}

async fn try_kvm(qemu: &Path, kernel: &Path) -> KvmVerdict {
    let child = Command::new(qemu)
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-m", "256M"])
        .args(["-accel", "kvm", "-cpu", "max", "-serial", "stdio"])
        .arg("-kernel")
        .arg(kernel)
        .args(["-append", "console=ttyS0,115200 earlyprintk=serial,ttyS0,115200 panic=-1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let broken = |why: String| KvmVerdict::Broken { why };
    match child {
        Ok(mut child) => match timeout(KVM_LIMIT, first_words(&mut child)).await {
            Ok(None) => KvmVerdict::Works,
            Ok(Some(said)) => broken(said),
            Err(_) => broken(format!("the kernel said nothing within {KVM_LIMIT:?}")),
        },
        Err(error) => broken(format!("cannot start `{}`: {error}", qemu.display())),
    }
}

/// Waits for the first words; what QEMU says if it ends without them.
async fn first_words(child: &mut Child) -> Option<String> {
    let mut lines = BufReader::new(child.stdout.take()?).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        if String::from_utf8_lossy(&line).contains(FIRST_WORDS) {
            return None;
        }
    }
    let mut said = Vec::new();
    let _ = child.stderr.take()?.take(4096).read_to_end(&mut said).await;
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    Some(last.unwrap_or("QEMU ended before the kernel said anything").to_owned())
}
