//! Bounds of a stored attempt. Evidence is cut to size, and says so where it was cut; numbers are never altered.

use std::borrow::Cow;

use drover_model::{Doubt, DoubtKind, EndKind, Verdict};

use crate::{AttemptRecord, StoreError, TaskRecord};

/// Bytes kept of the last lines of a task's output: the end of them.
pub const MAX_TAIL_BYTES: usize = 16 * 1024;
/// Bytes kept of what a verdict or a doubt says: the beginning.
pub const MAX_DETAIL_BYTES: usize = 8 * 1024;
/// Bytes kept of all arguments of a task together.
pub const MAX_ARGV_BYTES: usize = 64 * 1024;
/// Samples kept of a task.
pub const MAX_SAMPLES: usize = 4096;
/// Doubts kept of a task or a verdict.
pub const MAX_DOUBTS: usize = 64;
/// Reconciled figures kept of a task.
pub const MAX_REPORTED: usize = 512;
/// Bytes of a whole record after all these cuts; a larger one is refused.
pub const MAX_RECORD_BYTES: usize = 16 * 1024 * 1024;

/// Bytes kept of short texts: names and units of samples, figures as reported, CPU lists, boot ids.
const MAX_SHORT_BYTES: usize = 1024;

/// The record within its bounds: borrowed if it already is, as almost all are. Applying it twice changes no more.
#[must_use]
pub fn bounded(record: &AttemptRecord) -> Cow<'_, AttemptRecord> {
    let mut copy = Cow::Borrowed(record);
    let boot_ids_fit = record.boot_ids.iter().all(|boot_id| within(boot_id, MAX_SHORT_BYTES));
    if !(boot_ids_fit && verdict_fits(&record.verdict)) {
        let record = copy.to_mut();
        record.boot_ids.iter_mut().for_each(|boot_id| cut_end(boot_id, MAX_SHORT_BYTES));
        bound_verdict(&mut record.verdict);
    }
    for (i, task) in record.tasks.iter().enumerate() {
        if !task_fits(task)
            && let Some(task) = copy.to_mut().tasks.get_mut(i)
        {
            bound_task(task);
        }
    }
    copy
}

/// The record as it may be stored: bounded, and of numbers that can be stored and shown.
pub(crate) fn admit(record: &AttemptRecord) -> Result<Cow<'_, AttemptRecord>, StoreError> {
    let id = record.id;
    let not_finite = |name: &str| StoreError::NotFinite { id, name: name.to_owned() };
    if let Some((name, _)) = record.metrics.iter().find(|(_, value)| !value.is_finite()) {
        return Err(not_finite(name.as_str()));
    }
    let mut samples = record.tasks.iter().flat_map(|task| &task.samples);
    if let Some(sample) = samples.find(|sample| !sample.value.is_finite()) {
        return Err(not_finite(&sample.name));
    }
    fits_column(record.started_unix_us, "the start time of an attempt")?;
    fits_column(record.start_skew_us.unwrap_or(0), "the start skew of an attempt")?;
    fits_column(record.elapsed.as_nanos(), "the duration of an attempt")?;
    let record = bounded(record);
    let bytes = weight(&record);
    if bytes > MAX_RECORD_BYTES { Err(StoreError::TooLarge { id, bytes }) } else { Ok(record) }
}

/// SQLite's integers are signed and have 64 bits.
pub(crate) fn fits_column<T: TryInto<i64>>(value: T, what: &'static str) -> Result<i64, StoreError> {
    value.try_into().map_err(|_| StoreError::OutOfRange { what })
}

fn within(text: &str, max: usize) -> bool {
    text.len() <= max
}

fn doubts_fit(doubts: &[Doubt]) -> bool {
    doubts.len() <= MAX_DOUBTS && doubts.iter().all(|doubt| within(&doubt.detail, MAX_DETAIL_BYTES))
}

fn verdict_fits(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Ok => true,
        Verdict::Suspect { doubts } => doubts_fit(doubts),
        Verdict::Ng { detail, .. } | Verdict::Error { detail, .. } | Verdict::Missing { detail, .. } => {
            within(detail, MAX_DETAIL_BYTES)
        }
    }
}

fn bound_verdict(verdict: &mut Verdict) {
    match verdict {
        Verdict::Ok => {}
        Verdict::Suspect { doubts } => bound_doubts(doubts),
        Verdict::Ng { detail, .. } | Verdict::Error { detail, .. } | Verdict::Missing { detail, .. } => {
            cut_end(detail, MAX_DETAIL_BYTES);
        }
    }
}

fn end_text(end: &Option<EndKind>) -> &str {
    match end {
        Some(EndKind::NotReady(text) | EndKind::NotStarted(_, text)) => text,
        _ => "",
    }
}

fn task_fits(task: &TaskRecord) -> bool {
    within(&task.tail, MAX_TAIL_BYTES)
        && within(&task.cpus, MAX_SHORT_BYTES)
        && within(end_text(&task.end), MAX_DETAIL_BYTES)
        && task.argv.iter().map(String::len).sum::<usize>() <= MAX_ARGV_BYTES
        && task.samples.len() <= MAX_SAMPLES
        && task.samples.iter().all(|s| within(&s.name, MAX_SHORT_BYTES) && within(&s.unit, MAX_SHORT_BYTES))
        && task.reported.len() <= MAX_REPORTED
        && task.reported.iter().all(|(k, v)| within(k, MAX_SHORT_BYTES) && within(v, MAX_SHORT_BYTES))
        && doubts_fit(&task.doubts)
}

fn bound_task(task: &mut TaskRecord) {
    cut_start(&mut task.tail, MAX_TAIL_BYTES);
    cut_end(&mut task.cpus, MAX_SHORT_BYTES);
    if let Some(EndKind::NotReady(text) | EndKind::NotStarted(_, text)) = &mut task.end {
        cut_end(text, MAX_DETAIL_BYTES);
    }
    bound_argv(&mut task.argv);
    for sample in &mut task.samples {
        cut_end(&mut sample.name, MAX_SHORT_BYTES);
        cut_end(&mut sample.unit, MAX_SHORT_BYTES);
    }
    for (name, figure) in &mut task.reported {
        cut_end(name, MAX_SHORT_BYTES);
        cut_end(figure, MAX_SHORT_BYTES);
    }
    let samples = cut_list(&mut task.samples, MAX_SAMPLES);
    let reported = cut_list(&mut task.reported, MAX_REPORTED);
    for (count, what) in [(samples, "samples"), (reported, "reported figures")] {
        if count > 0 {
            let detail = format!("{count} {what} beyond the limit were not stored");
            // In front, because the list of doubts has a limit too.
            task.doubts.insert(0, Doubt { kind: DoubtKind::OutputCut, detail });
        }
    }
    bound_doubts(&mut task.doubts);
}

fn bound_doubts(doubts: &mut Vec<Doubt>) {
    for doubt in doubts.iter_mut() {
        cut_end(&mut doubt.detail, MAX_DETAIL_BYTES);
    }
    if doubts.len() > MAX_DOUBTS {
        let more = cut_list(doubts, MAX_DOUBTS - 1);
        doubts.push(Doubt {
            kind: DoubtKind::OutputCut,
            detail: format!("{more} more doubts were not stored"),
        });
    }
}

/// Keeps whole arguments while there is room, then says how many follow.
fn bound_argv(argv: &mut Vec<String>) {
    if argv.iter().map(String::len).sum::<usize>() <= MAX_ARGV_BYTES {
        return;
    }
    let count = argv.len();
    // Room for the words that say what was cut.
    let mut room = MAX_ARGV_BYTES - MAX_SHORT_BYTES;
    let mut kept = Vec::new();
    for mut argument in argv.drain(..) {
        let whole = argument.len() <= room;
        if !whole {
            cut_end(&mut argument, room.max(MAX_SHORT_BYTES / 2));
        }
        room = room.saturating_sub(argument.len());
        kept.push(argument);
        if !whole {
            break;
        }
    }
    if count > kept.len() {
        kept.push(format!("[{} more arguments]", count - kept.len()));
    }
    *argv = kept;
}

/// Shortens a list and returns by how much.
fn cut_list<T>(list: &mut Vec<T>, max: usize) -> usize {
    let cut = list.len().saturating_sub(max);
    list.truncate(max);
    cut
}

/// Cuts the end of a text off, so that it has at most `max` bytes with the remark about the cut.
pub(crate) fn cut_end(text: &mut String, max: usize) {
    if text.len() > max {
        let remark = format!(" [{} bytes, cut]", text.len());
        let room = max.saturating_sub(remark.len());
        let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str(&remark);
    }
}

/// Cuts the beginning of a text off, so that it has at most `max` bytes with the remark about the cut.
fn cut_start(text: &mut String, max: usize) {
    if text.len() > max {
        let remark = format!("[{} bytes, cut] ", text.len());
        let first = text.len() - max.saturating_sub(remark.len());
        let start = (first..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        text.replace_range(..start, &remark);
    }
}

/// About the bytes that a record takes: its texts, and a fixed amount per item.
fn weight(record: &AttemptRecord) -> usize {
    const PER_TASK: usize = 512;
    const PER_ITEM: usize = 48;
    let task = |task: &TaskRecord| {
        let argv: usize = task.argv.iter().map(|argument| argument.len() + 3).sum();
        let samples: usize = task.samples.iter().map(|s| s.name.len() + s.unit.len() + PER_ITEM).sum();
        let doubts: usize = task.doubts.iter().map(|doubt| doubt.detail.len() + PER_ITEM).sum();
        let reported: usize = task.reported.iter().map(|(k, v)| k.len() + v.len() + PER_ITEM).sum();
        PER_TASK + argv + samples + doubts + reported + task.tail.len() + end_text(&task.end).len()
    };
    record.tasks.iter().map(task).sum::<usize>() + record.verdict.detail().len()
}
