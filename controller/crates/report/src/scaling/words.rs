//! Where more CPUs did worse, in words.

use drover_model::Direction;

use super::find::{Loss, Scaling, Side};
use crate::number::{Decimals, number};

/// Series that are described at most, and of those that may be chance.
const MOST_SERIES: usize = 40;
const MOST_UNSURE: usize = 4;

/// A heading with a line for each series that it holds for; not yet escaped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) heading: String,
    pub(crate) lines: Vec<String>,
}

/// What there is to say: what is certain, then what is not; that it is nowhere so, if it is.
pub(crate) fn say(scaling: &Scaling<'_>) -> Vec<Said> {
    let worse = match scaling.metric.better {
        Direction::Higher => "more CPUs gave less",
        Direction::Lower => "more CPUs were worse",
    };
    let mut remarks = Vec::new();
    if scaling.functional {
        remarks.push("functional only".to_owned());
    }
    let sure = if scaling.can_tell { " at 95 %" } else { "" };
    remarks.push(match scaling.comparisons {
        1 => format!("1 comparison{sure}"),
        several => format!("{several} comparisons{}{sure}", if scaling.can_tell { ", each" } else { "" }),
    });
    if scaling.unmeasured > 0 {
        remarks.push(format!("{} more cannot be made", scaling.unmeasured));
    }
    let parts = [true, false].map(|certain| {
        let losses = scaling.losses.iter().filter(|loss| loss.certain == certain);
        (certain, losses.collect::<Vec<_>>())
    });
    let mut said = Vec::new();
    for (certain, losses) in parts {
        let series: Vec<&[&Loss<'_>]> = losses.chunk_by(|a, b| a.at == b.at).collect();
        if series.is_empty() {
            continue;
        }
        let doubt = if certain { "" } else { ", by too few trials to tell it from chance" };
        let of = if scaling.series > 1 {
            format!(", in {} of {} series", series.len(), scaling.series)
        } else {
            String::new()
        };
        let decimals = Decimals::for_all(losses.iter().flat_map(|l| [l.more.median, l.fewer.median]));
        let most = if certain { MOST_SERIES } else { MOST_UNSURE };
        let mut lines: Vec<String> =
            series.iter().take(most).map(|losses| line(scaling, losses, decimals)).collect();
        if let more @ 1.. = series.len().saturating_sub(most) {
            lines.push(format!("and {more} more; the JSON export has all of them"));
        }
        said.push(Said { heading: format!("{worse}{doubt}{of} ({})", remarks.join("; ")), lines });
    }
    if said.is_empty() {
        let far = if scaling.can_tell { "" } else { ", as far as so few trials can tell" };
        let heading = format!("{worse} nowhere{far} ({})", remarks.join("; "));
        said.push(Said { heading, lines: Vec::new() });
    }
    said
}

/// `kernel=6.1: 4 CPUs gave 18 % less than 2 (412 against 503 conn/s)`.
fn line(scaling: &Scaling<'_>, losses: &[&Loss<'_>], decimals: Decimals) -> String {
    let at: Vec<String> = losses
        .first()
        .map(|loss| loss.at.iter().map(|(axis, value)| format!("{axis}={value}")).collect())
        .unwrap_or_default();
    let label = if at.is_empty() { String::new() } else { format!("{}: ", at.join(" ")) };
    let texts: Vec<String> = losses.iter().map(|loss| sentence(scaling, loss, decimals)).collect();
    format!("{label}{}", texts.join("; "))
}

fn sentence(scaling: &Scaling<'_>, loss: &Loss<'_>, decimals: Decimals) -> String {
    let Loss { more, fewer, .. } = loss;
    let worse = match scaling.metric.better {
        Direction::Higher => "less",
        Direction::Lower => "more",
    };
    let change = loss.change().map(|change| format!("{} ", percent(change.abs()))).unwrap_or_default();
    let shown =
        |side: &Side| format!("{}{}", number(side.median, decimals), if side.suspect { "**" } else { "" });
    let unit = &scaling.metric.unit;
    let gap = if unit.is_empty() { "" } else { " " };
    format!(
        "{} CPUs gave {change}{worse} than {} ({} against {}{gap}{unit})",
        more.cpus,
        fewer.cpus,
        shown(more),
        shown(fewer)
    )
}

/// `4.2 %` or `18 %`.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{} %", number(percent.round(), Decimals::Fixed(0)))
    }
}
