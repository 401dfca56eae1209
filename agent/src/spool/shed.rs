//! What of an event can be left out to keep the spool within its bound: the outputs of rounds and reported lines, never
//! figures. Pure.

use drover_proto::v1::{self, task_event::Kind};

/// Bytes that [`strip`] would save.
pub(super) fn spare(event: &v1::TaskEvent) -> usize {
    match &event.kind {
        Some(Kind::Round(round)) => {
            let outputs = [&round.stdout, &round.stderr].into_iter().flatten();
            outputs.filter_map(|output| output.inline.as_ref()).map(|inline| inline.len()).sum()
        }
        Some(Kind::Lines(lines)) => lines.text.len(),
        _ => 0,
    }
}

/// Leaves it out, and says so in the event.
pub(super) fn strip(event: &mut v1::TaskEvent) {
    match &mut event.kind {
        Some(Kind::Round(round)) => {
            let outputs = [&mut round.stdout, &mut round.stderr].into_iter().flatten();
            // An output of which nothing was written is still whole.
            outputs.filter(|output| output.written > 0).for_each(|output| {
                output.kept = 0;
                output.inline = None;
                round.cut = true;
            });
        }
        Some(Kind::Lines(lines)) => {
            let length = u64::try_from(lines.text.len()).unwrap_or(u64::MAX);
            lines.dropped = lines.dropped.saturating_add(length);
            lines.text = String::new();
        }
        _ => {}
    }
}
