//! Reads the console of a machine, and ends the machine when its kernel has reported a failure: it is no good for another
//! trial.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use drover_machine::console::{Class, Classifier, Hint};
use drover_model::NgCause;
use drover_vm::{Vm, VmState};
use tokio::{sync::watch::Receiver, time::timeout};

/// How often the console is read.
const EVERY: Duration = Duration::from_millis(200);
/// How long a kernel that reported a failure may go on, to say all of it.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(8);
/// When it has said nothing for so long, it has said all.
const QUIET: Duration = Duration::from_secs(3);
/// Most bytes read in one go; what is more comes with the next.
const MOST: u64 = 1 << 20;

/// A failure that a kernel has reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub class: Class,
    pub cause: NgCause,
    /// The line that names it.
    pub first_line: String,
    /// The report.
    pub excerpt: String,
}

/// The console of one boot.
#[derive(Clone, Debug)]
pub(super) struct Watch(Arc<Mutex<Reader>>);

#[derive(Debug)]
struct Reader {
    path: PathBuf,
    begun: Instant,
    classifier: Classifier,
}

impl Watch {
    /// Watches the console of a machine that was started just now.
    pub fn start(vm: &Arc<Vm>) -> Self {
        let mut classifier = Classifier::new();
        classifier.expect_boot();
        let path = vm.console().path().to_owned();
        let watch = Self(Arc::new(Mutex::new(Reader { path, begun: Instant::now(), classifier })));
        tokio::spawn(watch.clone().run(Arc::downgrade(vm)));
        watch
    }

    async fn run(self, vm: Weak<Vm>) {
        let Some(mut state) = vm.upgrade().map(|vm| vm.state()) else { return };
        while timeout(EVERY, state.wait_for(|state| state.end.is_some())).await.is_err() {
            self.read();
            if self.failure().is_some() {
                let _ = timeout(LAST_WORDS, self.last_words(&mut state)).await;
                let Some(vm) = vm.upgrade() else { return };
                vm.kill().await;
                return;
            }
        }
        self.read();
    }

    /// Reads until the machine has ended, or nothing more comes.
    async fn last_words(&self, state: &mut Receiver<VmState>) {
        let mut last = Instant::now();
        while last.elapsed() < QUIET {
            let has_ended = timeout(EVERY, state.wait_for(|state| state.end.is_some())).await.is_ok();
            if self.read() > 0 {
                last = Instant::now();
            }
            if has_ended {
                return;
            }
        }
    }

    /// Reads what the console says by now; how many bytes that is.
    pub fn read(&self) -> usize {
        let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = reader.begun.elapsed();
        let read = |reader: &Reader| {
            let mut file = File::open(&reader.path)?;
            file.seek(SeekFrom::Start(reader.classifier.bytes()))?;
            let mut bytes = Vec::new();
            file.take(MOST).read_to_end(&mut bytes)?;
            Ok::<_, io::Error>(bytes)
        };
        match read(&reader) {
            Ok(bytes) => {
                reader.classifier.push(&bytes, at);
                return bytes.len();
            }
            // It goes with the machine.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, "a console cannot be read"),
        }
        0
    }

    /// Reads what the console says when nothing more comes.
    pub fn finish(&self) {
        self.read();
        let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = reader.begun.elapsed();
        reader.classifier.finish(at);
    }

    /// The first failure that the kernel has reported.
    pub fn failure(&self) -> Option<Failure> {
        let reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match reader.classifier.verdict()? {
            (finding, Hint::Ng(cause)) => Some(Failure {
                class: finding.class,
                cause,
                first_line: finding.first_line.clone(),
                excerpt: [finding.excerpt.before.join("\n"), finding.excerpt.lines.join("\n")].join("\n"),
            }),
            _ => None,
        }
    }
}
