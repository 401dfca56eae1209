//! Which report names the death of a kernel: the first of those that follow each other closely. A panic minutes after an oops that the
//! kernel survived has a name of its own, unless it says that it comes from one.

use std::time::Duration;

/// Lines after which a report is no longer the cause of the next.
const LINGER_LINES: u64 = 100;
/// Time after which it is not, by the kernel's clock.
const LINGER_TIME: Duration = Duration::from_secs(10);

/// Where in the stream something was said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Lines seen.
    pub(super) line: u64,
    /// Time by the kernel's clock.
    pub(super) time: Option<Duration>,
}

impl Moment {
    /// Whether `later` comes soon after.
    fn is_shortly_before(self, later: Self) -> bool {
        let in_time = match (self.time, later.time) {
            (Some(time), Some(later)) => later.saturating_sub(time) <= LINGER_TIME,
            _ => true,
        };
        in_time && later.line.saturating_sub(self.line) <= LINGER_LINES
    }
}

/// Reports that follow each other.
#[derive(Clone, Copy, Debug)]
struct Chain {
    /// Index of the first.
    head: usize,
    /// When the last one said something.
    last: Moment,
}

/// Follows the reports of one kernel.
#[derive(Debug, Default)]
pub(super) struct Deaths {
    /// Failures: severities `F` and `E`.
    chain: Option<Chain>,
    /// Whether the kernel of the chain is dead.
    dead: bool,
    /// The last report of another severity, which a panic can name as its cause.
    other: Option<Chain>,
    first: Option<usize>,
}

impl Deaths {
    /// Index of the finding that names the first death.
    pub(super) fn first(&self) -> Option<usize> {
        self.first
    }

    /// The report that one at `now` would be a consequence of. `consequence`: it says that it is one.
    pub(super) fn cause(&self, now: Moment, consequence: bool) -> Option<usize> {
        let chain = self.chain.filter(|chain| self.dead || consequence || chain.last.is_shortly_before(now));
        let other = self.other.filter(|other| consequence && other.last.is_shortly_before(now));
        // A warning just now says more of a panic than an oops of yesterday does.
        let chain = match (chain, other) {
            (Some(chain), Some(_)) if self.dead || chain.last.is_shortly_before(now) => Some(chain),
            (chain, other) => other.or(chain),
        };
        chain.map(|chain| chain.head)
    }

    /// A failure was reported. Gives the first report of its chain if that is another.
    pub(super) fn failed(&mut self, index: usize, fatal: bool, now: Moment) -> Option<usize> {
        let head = match self.chain {
            Some(chain) if self.dead || chain.last.is_shortly_before(now) => chain.head,
            _ => index,
        };
        self.chain = Some(Chain { head, last: now });
        self.died(head, fatal);
        (head != index).then_some(head)
    }

    /// The kernel panicked because of `head`.
    pub(super) fn panicked(&mut self, head: usize, now: Moment) {
        self.chain = Some(Chain { head, last: now });
        self.died(head, true);
    }

    /// Something else was reported.
    pub(super) fn said(&mut self, index: usize, now: Moment) {
        self.other = Some(Chain { head: index, last: now });
    }

    /// The report goes on.
    pub(super) fn goes_on(&mut self, now: Moment) {
        for chain in [&mut self.chain, &mut self.other].into_iter().flatten() {
            if chain.last.is_shortly_before(now) {
                chain.last = now;
            }
        }
    }

    /// Another kernel runs.
    pub(super) fn booted(&mut self) {
        self.chain = None;
        self.other = None;
        self.dead = false;
    }

    fn died(&mut self, head: usize, fatal: bool) {
        if fatal {
            self.dead = true;
            self.first.get_or_insert(head);
        }
    }
}
