//! The classifier: bytes in, findings out.

use std::time::Duration;

use drover_model::{DoubtKind, NgCause};

use super::{
    class::{Class, Hint, Severity, Shape},
    death::{Deaths, Moment},
    excerpt::{AFTER_LINES, Excerpt, Recent, TRACE_LINES, kept},
    finding::{Finding, Findings, Stored},
    lines::{Lines, RawLine, printable, unescaped},
    matcher::{Hit, find, has_candidates},
    patterns::Meaning,
    prefix::Prefix,
};

/// A report has ended when the kernel's clock went on by this much.
const QUIET: Duration = Duration::from_secs(12);
/// Lines after the opening line of a report within which it says what it is.
const MARKER_LINES: usize = 12;
/// A kernel names its version before its clock shows this.
const BOOT_TIME: Duration = Duration::from_secs(10);

/// Reads the console or the log of a kernel and finds what it reports.
///
/// Never stops reading: after a death come more reports, or another kernel. Memory is bounded, whatever comes.
#[derive(Debug)]
pub struct Classifier {
    lines: Lines,
    state: State,
}

/// All but the cutting into lines.
#[derive(Debug, Default)]
struct State {
    recent: Recent,
    findings: Findings,
    deaths: Deaths,
    /// The report whose lines come now.
    trace: Option<Trace>,
    /// Messages seen.
    seen: u64,
    boots_expected: u32,
    sysrq_is_ours: bool,
}

/// A report whose lines come now.
#[derive(Debug)]
struct Trace {
    of: Of,
    /// Lines of it so far.
    lines: usize,
    /// Most lines of it.
    max: usize,
    /// When its last line was written.
    time: Option<Duration>,
}

/// What a trace belongs to.
#[derive(Debug)]
enum Of {
    /// A report that was opened and has not said what it is.
    Marker(Box<Finding>),
    /// A finding that keeps the lines.
    Finding(usize),
    /// A finding that has lines of an earlier report, or none that is kept.
    Repeat(Option<usize>),
}

/// A line that is read, with all that is known of it.
#[derive(Clone, Copy)]
struct Message<'a> {
    /// All of the line that can be printed.
    line: &'a [u8],
    raw: RawLine<'a>,
    prefix: Prefix,
    at: Duration,
    moment: Moment,
}

impl Classifier {
    /// A classifier that has read nothing.
    #[must_use]
    pub fn new() -> Self {
        Self { lines: Lines::new(), state: State::default() }
    }

    /// Reads bytes, cut anywhere. `at` is the time of reception by a monotonic clock of the caller's, and goes into the findings.
    pub fn push(&mut self, bytes: &[u8], at: Duration) {
        let state = &mut self.state;
        self.lines.push(bytes, |line| state.raw_line(line, at));
    }

    /// Reads what has no line end yet as a line, and ends the report that lines came for: nothing more is expected, or not soon.
    pub fn finish(&mut self, at: Duration) {
        let state = &mut self.state;
        self.lines.finish(|line| state.raw_line(line, at));
        state.close();
    }

    /// The next kernel that starts is expected: it is no [`Class::UnexpectedReboot`]. To be called before the first boot that is read,
    /// too.
    pub fn expect_boot(&mut self) {
        self.state.boots_expected = self.state.boots_expected.saturating_add(1);
    }

    /// Whether a crash or reset by sysrq that is read from now on was requested by the caller.
    pub fn expect_sysrq(&mut self, is_ours: bool) {
        self.state.sysrq_is_ours = is_ours;
    }

    /// All findings, in the order of their first lines' end. An index into it never changes.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        self.state.findings.all()
    }

    /// Reports that were not kept because there were too many different ones.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.state.findings.dropped()
    }

    /// Bytes read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lines.offset()
    }

    /// The finding that names the first death of a kernel: the first report of those that led to it.
    #[must_use]
    pub fn death(&self) -> Option<&Finding> {
        self.state.findings.get(self.state.deaths.first()?)
    }

    /// The finding that decides the verdict, with what it means: the death, else the first bug, else the first doubt.
    #[must_use]
    pub fn verdict(&self) -> Option<(&Finding, Hint)> {
        if let Some(death) = self.death() {
            let hint = match death.hint() {
                // A warning alone is none, but the kernel panicked over it.
                Hint::Doubt(_) => Hint::Ng(NgCause::Panic),
                hint => hint,
            };
            return Some((death, hint));
        }
        let first = |wanted: fn(Hint) -> bool| {
            self.findings().iter().map(|found| (found, found.hint())).find(|(_, hint)| wanted(*hint))
        };
        first(|hint| matches!(hint, Hint::Ng(_) | Hint::Missing(_)))
            .or_else(|| first(|hint| matches!(hint, Hint::Doubt(_))))
    }

    /// Every reason for doubt that was found, once, with the first finding of it.
    #[must_use]
    pub fn doubts(&self) -> Vec<(DoubtKind, &Finding)> {
        let mut doubts: Vec<(DoubtKind, &Finding)> = Vec::new();
        for finding in self.findings() {
            if let Hint::Doubt(doubt) = finding.hint()
                && !doubts.iter().any(|(known, _)| *known == doubt)
            {
                doubts.push((doubt, finding));
            }
        }
        doubts
    }
}

impl Default for Classifier {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    fn raw_line(&mut self, raw: RawLine<'_>, at: Duration) {
        let line = printable(raw.bytes);
        self.seen += 1;
        if self.trace.is_none() && !has_candidates(&line) {
            self.recent.push(&line);
            return;
        }
        let (prefix, hit) = find(&line);
        let moment = Moment { line: self.seen, time: prefix.time };
        let message = Message { line: &line, raw, prefix, at, moment };
        if prefix.record && line.windows(2).any(|pair| pair == b"\\x") {
            self.record(message);
        } else {
            self.message(message, hit);
        }
        self.recent.push(&line);
    }

    /// A record of `/dev/kmsg` is one line, whatever lines its message has.
    fn record(&mut self, message: Message<'_>) {
        let (head, text) = message.line.split_at(message.prefix.text);
        for part in unescaped(text).split(|byte| *byte == b'\n').filter(|part| !part.is_empty()) {
            let line = [head, &printable(part)].concat();
            let (prefix, hit) = find(&line);
            self.message(Message { line: &line, prefix, ..message }, hit);
        }
    }

    fn message(&mut self, message: Message<'_>, hit: Option<Hit>) {
        let quiet = |trace: &Trace| match (trace.time, message.moment.time) {
            (Some(last), Some(now)) => now.saturating_sub(last) > QUIET,
            _ => false,
        };
        if self.trace.as_ref().is_some_and(quiet) {
            self.close();
        }
        match hit.map(|hit| (hit.meaning, hit.at)) {
            None | Some((Meaning::Ignore, _)) => self.goes_on(message),
            Some((Meaning::End, _)) => {
                self.goes_on(message);
                self.close();
            }
            Some((Meaning::Boot, at)) => self.boot(message, at),
            Some((Meaning::Report(class, severity), at)) => self.report(class, severity, message, at),
            Some((Meaning::Panic { class, consequence }, at)) => {
                self.panic(class, consequence, message, at);
            }
        }
    }

    /// A line of the report that lines come for, if there is one.
    fn goes_on(&mut self, message: Message<'_>) {
        let Some(trace) = self.trace.as_mut().filter(|_| !message.prefix.from_process) else { return };
        trace.lines += 1;
        trace.time = message.moment.time.or(trace.time);
        let finding = match &mut trace.of {
            Of::Marker(finding) => Some(finding.as_mut()),
            Of::Finding(index) => self.findings.get_mut(*index),
            Of::Repeat(_) => None,
        };
        if let Some(finding) = finding {
            finding.excerpt.push(message.line);
        }
        let full = trace.lines >= trace.max;
        self.deaths.goes_on(message.moment);
        if full {
            if let Some(Trace { of: Of::Finding(index), max: TRACE_LINES, .. }) = &self.trace
                && let Some(finding) = self.findings.get_mut(*index)
            {
                finding.excerpt.cut = true;
            }
            self.close();
        }
    }

    /// Ends the report that lines come for.
    fn close(&mut self) {
        let Some(trace) = self.trace.take() else { return };
        match trace.of {
            Of::Marker(mut finding) => {
                finding.complete = true;
                let moment = Moment { line: self.seen, time: trace.time };
                self.store(*finding, &[], moment);
            }
            Of::Finding(index) => {
                if let Some(finding) = self.findings.get_mut(index) {
                    finding.complete = true;
                }
            }
            Of::Repeat(_) => {}
        }
    }

    fn boot(&mut self, message: Message<'_>, at: usize) {
        if message.moment.time.is_some_and(|time| time > BOOT_TIME) {
            return self.goes_on(message);
        }
        self.close();
        if self.boots_expected > 0 {
            self.boots_expected -= 1;
        } else {
            self.report(Class::UnexpectedReboot, Severity::Fatal, message, at);
        }
        self.deaths.booted();
    }

    fn panic(&mut self, class: Class, consequence: bool, message: Message<'_>, at: usize) {
        let ours = self.trace_is_ours();
        let cause = ours.or_else(|| self.deaths.cause(message.moment, consequence));
        let Some(cause) = cause else { return self.report(class, Severity::Fatal, message, at) };
        // The opening line of a report that a panic cuts short.
        if let Some(Trace { of: Of::Marker(_), .. }) = &self.trace {
            self.close();
        }
        if let Some(finding) = self.findings.get_mut(cause) {
            finding.then(Class::PanicSecondary, message.raw.number);
            finding.complete = false;
        }
        let of_cause = matches!(&self.trace, Some(Trace { of: Of::Finding(index), .. }) if *index == cause);
        if !of_cause {
            self.close();
            self.trace = Some(Trace { of: Of::Finding(cause), lines: 0, max: TRACE_LINES, time: None });
        }
        self.goes_on(message);
        self.deaths.panicked(cause, message.moment);
    }

    /// The finding that lines come for, if the caller asked for it.
    fn trace_is_ours(&self) -> Option<usize> {
        let Some(Trace { of: Of::Finding(index), .. }) = &self.trace else { return None };
        self.findings.get(*index).filter(|finding| finding.ours).map(|_| *index)
    }

    fn report(&mut self, class: Class, severity: Severity, message: Message<'_>, at: usize) {
        let text = message.line.get(at..).unwrap_or_default();
        if let Some(index) = self.current() {
            if self.findings.like(class, text) == Some(index) {
                self.findings.again(index, message.at);
                return self.goes_on(message);
            }
            if self.findings.get(index).is_some_and(|finding| finding.ours || goes_with(finding.class, class))
            {
                return self.joins(index, class, severity, message);
            }
        }
        let mut finding = self.new_finding(class, severity, message);
        if class == Class::WarnMarker {
            self.close();
            self.open(Of::Marker(Box::new(finding)), MARKER_LINES, message);
            return;
        }
        if class.shape() == Shape::Line && self.trace.as_ref().is_some_and(|trace| trace.max != AFTER_LINES) {
            // Lines of a longer report come at the same time, and go on.
            finding.complete = true;
            self.store(finding, text, message.moment);
            return self.goes_on(message);
        }
        if let Some(Trace { of: Of::Marker(marker), .. }) =
            self.trace.take_if(|trace| matches!(trace.of, Of::Marker(_)))
        {
            finding.excerpt = marker.excerpt;
            finding.excerpt.push(message.line);
        }
        self.close();
        let stored = self.store(finding, text, message.moment);
        let of = match stored {
            Stored::New(index) => Of::Finding(index),
            Stored::Again(_) | Stored::Dropped => Of::Repeat(stored.index()),
        };
        let max = if class.shape() == Shape::Trace { TRACE_LINES } else { AFTER_LINES };
        self.open(of, max, message);
    }

    /// The finding whose report lines come for.
    fn current(&self) -> Option<usize> {
        match &self.trace.as_ref()?.of {
            Of::Finding(index) | Of::Repeat(Some(index)) => Some(*index),
            Of::Marker(_) | Of::Repeat(None) => None,
        }
    }

    /// A report that is part of the one that lines come for.
    fn joins(&mut self, index: usize, class: Class, severity: Severity, message: Message<'_>) {
        let is_kept = matches!(self.trace, Some(Trace { of: Of::Finding(_), .. }));
        if let Some(finding) = self.findings.get_mut(index).filter(|_| is_kept) {
            finding.then(class, message.raw.number);
        }
        if severity.is_failure() {
            self.deaths.failed(index, severity == Severity::Fatal, message.moment);
        }
        self.goes_on(message);
    }

    fn new_finding(&self, class: Class, severity: Severity, message: Message<'_>) -> Finding {
        Finding {
            class,
            severity,
            first_line: kept(message.line.get(message.prefix.text..).unwrap_or_default()),
            offset: message.raw.offset,
            line: message.raw.number,
            at: message.at,
            kernel_time: message.prefix.time,
            count: 1,
            last_at: message.at,
            excerpt: Excerpt::starting(self.recent.text(), message.line),
            complete: false,
            then: Vec::new(),
            follows: None,
            ours: class == Class::Sysrq && self.sysrq_is_ours,
        }
    }

    fn open(&mut self, of: Of, max: usize, message: Message<'_>) {
        self.trace = Some(Trace { of, lines: 1, max, time: message.moment.time });
    }

    fn store(&mut self, finding: Finding, text: &[u8], moment: Moment) -> Stored {
        let severity = finding.severity;
        let stored = self.findings.store(finding, text);
        if let Some(index) = stored.index() {
            if severity.is_failure() {
                let cause = self.deaths.failed(index, severity == Severity::Fatal, moment);
                if let (Stored::New(_), Some(finding)) = (stored, self.findings.get_mut(index)) {
                    finding.follows = cause;
                }
            } else if !matches!(severity, Severity::Note | Severity::Harness) {
                self.deaths.said(index, moment);
            }
        }
        stored
    }
}

/// Whether a report of one class says `next` of itself further on.
fn goes_with(class: Class, next: Class) -> bool {
    match next {
        Class::Oops => matches!(
            class,
            Class::NullDeref
                | Class::BadAccess
                | Class::Gpf
                | Class::KernelBug
                | Class::Kasan
                | Class::Kfence
                | Class::MemCorrupt
                | Class::Ubsan
                | Class::DoubleFault
                | Class::LockBug
        ),
        Class::NullDeref | Class::BadAccess => {
            matches!(class, Class::Kasan | Class::Kfence | Class::DoubleFault)
        }
        Class::Kasan => matches!(class, Class::Gpf | Class::NullDeref | Class::BadAccess),
        Class::KernelBug => matches!(class, Class::MemCorrupt | Class::Ubsan | Class::LockBug),
        Class::Warn => matches!(class, Class::Nic | Class::Ubsan | Class::MemCorrupt | Class::Lockdep),
        Class::RcuStall | Class::RcuStallExp => matches!(class, Class::RcuStall | Class::RcuStallExp),
        Class::HardLockup => class == Class::HardLockup,
        Class::DoubleFault => matches!(class, Class::DoubleFault | Class::BadAccess),
        Class::Oom => class == Class::Oom,
        Class::Mce | Class::HwError => matches!(class, Class::Mce | Class::HwError | Class::Arm64Serror),
        Class::BootFail => class == Class::BootFail,
        _ => false,
    }
}
