//! Whether a host that is no virtual machine is what a cell asks for, and what would make it that. Pure.

use drover_matrix::{Boot, CpusBy};
use drover_model::{Cell, HostFacts, MissingCause, NONCE_KEY, Name, Verdict};
use drover_vm::{Expected, Found};

use super::ledger::{Asked, Standing, Wanted};

/// A host as it is.
pub struct Real<'a> {
    /// Its name.
    pub host: &'a Name,
    /// How it boots other kernels, if it can.
    pub boot: Option<&'a Boot>,
    /// How it gets its CPUs.
    pub cpus: Option<CpusBy>,
    /// What was done to it.
    pub standing: &'a Standing,
    /// What it says of itself.
    pub facts: &'a HostFacts,
}

/// What is to be done to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// It is booted as this.
    Boot(Wanted),
    /// So many CPUs stay online.
    Cpus(u32),
}

/// What it is, by what a cell asks for.
#[derive(Debug, PartialEq)]
pub enum Judged {
    /// It is that.
    Right,
    /// It can be made that.
    Needs(Change),
    /// It cannot.
    Wrong(Verdict),
}

fn wrong_kernel(detail: String) -> Verdict {
    Verdict::Missing { cause: MissingCause::WrongKernel, detail }
}

fn wrong_cpus(detail: String) -> Verdict {
    Verdict::Missing { cause: MissingCause::WrongCpus, detail }
}

impl Real<'_> {
    /// Compares it with what a cell asks for.
    pub fn judge(&self, cell: &Cell) -> Judged {
        match self.wanted(cell) {
            Err(verdict) => Judged::Wrong(verdict),
            Ok(Some(wanted)) if !self.is(&wanted) => Judged::Needs(Change::Boot(wanted)),
            Ok(_) => self.judge_cpus(cell),
        }
    }

    /// Whether it is what it was before the run.
    pub fn is_golden(&self) -> bool {
        self.is(&Wanted::default())
    }

    /// The boot that a cell asks for; `None` if the one that runs will do, whatever it is.
    fn wanted(&self, cell: &Cell) -> Result<Option<Wanted>, Verdict> {
        let label = cell.value("kernel").filter(|kernel| *kernel != "running");
        let running = &self.facts.kernel_release;
        let golden = self.standing.golden.as_ref();
        let kernel = match label {
            None => None,
            Some(label) if self.boot.is_some_and(|boot| boot.kernel(label).is_some()) => Some(label),
            Some(label) if golden.is_some_and(|golden| golden.release == label) => None,
            Some(label) if label == running => return Ok(None),
            Some(label) => return Err(self.unknown_kernel(label)),
        };
        let Some(boot) = self.boot else { return Ok(None) };
        let count = cell.value("cpus").filter(|_| matches!(self.cpus, Some(CpusBy::Boot(_))));
        let cpus = count.map(|count| self.count(count)).transpose()?;
        // All that there are need no word.
        let cpus = cpus.filter(|count| golden.is_none_or(|golden| *count < golden.cpus));
        let kernel = match (kernel, cpus, golden) {
            (None, Some(_), Some(golden)) => {
                let known = boot.kernels.iter().find(|kernel| kernel.release == golden.release);
                let known = known.ok_or_else(|| {
                    wrong_cpus(format!(
                        "host {} gets its CPUs by booting, and its `boot: {{ kernels }}` in the host file has no kernel with \
                         `release: {}`, which is the one to boot",
                        self.host, golden.release
                    ))
                })?;
                Some(known.label.as_str())
            }
            (kernel, ..) => kernel,
        };
        Ok(Some(Wanted { kernel: kernel.map(str::to_owned), cpus }))
    }

    fn unknown_kernel(&self, label: &str) -> Verdict {
        let (host, running) = (self.host, &self.facts.kernel_release);
        let remedy = match self.boot {
            None => {
                "`running` means whatever runs; with `boot:` in the host file it can be booted".to_owned()
            }
            Some(boot) => {
                let known: Vec<&str> = boot.kernels.iter().map(|kernel| kernel.label.as_str()).collect();
                format!(
                    "add it to `boot: {{ kernels }}` of {host} in the host file, which has: {}",
                    known.join(", ")
                )
            }
        };
        wrong_kernel(format!("the cell asks for kernel `{label}`, host {host} runs {running}; {remedy}"))
    }

    /// A number of CPUs that the host may have.
    fn count(&self, text: &str) -> Result<u32, Verdict> {
        let most = match (self.cpus, &self.standing.golden) {
            (Some(CpusBy::Boot(_)), Some(golden)) => golden.cpus,
            (Some(CpusBy::Hotplug), _) => self.facts.cpus_present.max(self.online()),
            _ => self.online(),
        };
        text.parse().ok().filter(|count| (1..=most).contains(count)).ok_or_else(|| {
            let what =
                if matches!(self.cpus, Some(CpusBy::Boot(_) | CpusBy::Hotplug)) { "" } else { " online" };
            wrong_cpus(format!("the cell asks for {text} CPUs, host {} has {most}{what}", self.host))
        })
    }

    fn online(&self) -> u32 {
        u32::try_from(self.facts.cpus.len()).unwrap_or(u32::MAX)
    }

    fn judge_cpus(&self, cell: &Cell) -> Judged {
        let Some(text) = cell.value("cpus") else { return Judged::Right };
        let count = match self.count(text) {
            Ok(count) => count,
            Err(verdict) => return Judged::Wrong(verdict),
        };
        match self.cpus {
            Some(CpusBy::Hotplug) if count != self.online() => Judged::Needs(Change::Cpus(count)),
            Some(CpusBy::Boot(word)) if count != self.online() => Judged::Wrong(wrong_cpus(format!(
                "host {} was booted for {count} CPUs (`{}`), and has {} online",
                self.host,
                word.as_str(),
                self.online()
            ))),
            _ => Judged::Right,
        }
    }

    /// Whether it is what that boot makes of it.
    fn is(&self, wanted: &Wanted) -> bool {
        if let Some(asked) = self.made() {
            return asked.wanted == *wanted;
        }
        let Some(boot) = self.boot else { return true };
        let is_golden = self.standing.golden.as_ref().is_none_or(|golden| golden.runs(self.facts));
        match (&wanted.kernel, wanted.cpus) {
            (None, _) => is_golden,
            // What runs already need not be booted, where a release says all that there is to say.
            (Some(label), None) => boot.kernel(label).is_some_and(|kernel| {
                let alike = boot.kernels.iter().filter(|other| other.release == kernel.release);
                let is_only = alike.count() == 1;
                is_golden
                    && is_only
                    && kernel.cmdline.is_none()
                    && kernel.release == self.facts.kernel_release
            }),
            (Some(_), Some(_)) => false,
        }
    }

    /// The boot of this run that it is on, if it is on one of a kernel of the host file.
    fn made(&self) -> Option<&Asked> {
        let asked = self.standing.last.as_ref()?;
        let is_that_boot = match &asked.nonce {
            Some(nonce) => nonce_of(&self.facts.cmdline) == Some(nonce),
            None => self.standing.up.as_ref() == Some(&self.facts.boot_id),
        };
        let kernel = self.boot?.kernel(asked.wanted.kernel.as_deref()?)?;
        (is_that_boot && kernel.release == self.facts.kernel_release).then_some(asked)
    }

    /// What it has to say of itself now, and again after the trial.
    pub fn expected(&self) -> Expected {
        let found = Found::of_facts(self.facts);
        Expected {
            release: Some(found.release),
            version: Some(found.version),
            build_id: found.build_id,
            nonce: found.nonce,
            boot_id: Some(found.boot_id),
            cpu_count: Some(found.cpus.len()),
            cpus: Some(found.cpus),
            smt: found.smt,
            numa_nodes: found.numa_nodes,
        }
    }

    /// Why it is not what it was booted as, if so.
    pub fn story(&self, asked: &Asked) -> String {
        let (host, facts) = (self.host, self.facts);
        let kernel = asked.wanted.kernel.as_deref();
        let entry = kernel.and_then(|label| self.boot?.kernel(label));
        match entry {
            Some(entry) if entry.release != facts.kernel_release => format!(
                "host {host} was booted as kernel `{}` (release {}), and runs {}: the kernel did not come up, or another one is \
                 behind `{}`",
                entry.label, entry.release, facts.kernel_release, entry.entry
            ),
            Some(entry) => format!(
                "host {host} was booted as kernel `{}`, and {} runs from another boot: its command line is `{}`",
                entry.label, facts.kernel_release, facts.cmdline
            ),
            None => format!("host {host} was rebooted, and runs {}", facts.kernel_release),
        }
    }
}

/// The last nonce on a command line.
fn nonce_of(cmdline: &str) -> Option<&str> {
    let mut words = cmdline.split_whitespace().rev();
    words.find_map(|word| word.strip_prefix(NONCE_KEY)?.strip_prefix('='))
}
