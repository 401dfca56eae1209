//! The table as plain text: ASCII only but for what the matrix itself brings, fit for a terminal and a mail.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use crate::{
    escape::{printable, printable_within},
    heading,
    number::{number, spread},
    pivot::{Facet, Pivot, Place, Shown},
    scaling::say,
};

/// Characters of an axis value that are shown at most.
const WIDEST_LABEL: usize = 60;
/// Characters of a line of evidence that are shown at most.
const WIDEST_EVIDENCE: usize = 160;
/// Characters of a line about CPU counts that are shown at most.
const WIDEST_FINDING: usize = 400;

/// Writes heading, tables and notes. Colours (SGR sequences) only if asked for.
pub(crate) fn write(pivot: &Pivot<'_>, color: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", printable(&heading::title(pivot)))?;
    for fact in heading::facts(pivot, "+-") {
        writeln!(out, "{}", printable_within(&fact, WIDEST_EVIDENCE))?;
    }
    for facet in &pivot.facets {
        writeln!(out)?;
        if !facet.shared.is_empty() {
            let shared: Vec<String> =
                facet.shared.iter().map(|(axis, value)| format!("{axis}={}", label(value))).collect();
            writeln!(out, "{}", shared.join(" "))?;
        }
        write_facet(pivot, facet, color, out)?;
    }
    for said in pivot.scaling.iter().flat_map(say) {
        let end = if said.lines.is_empty() { "" } else { ":" };
        writeln!(out, "\n{}{end}", printable(&said.heading))?;
        for line in said.lines {
            writeln!(out, "  {}", printable_within(&line, WIDEST_FINDING))?;
        }
    }
    let notes = heading::words(&pivot.notes);
    if !notes.is_empty() {
        writeln!(out)?;
    }
    for (at, words) in notes {
        let tag = format!("[{at}]");
        let detail = if words.detail.is_empty() { String::new() } else { format!(": {}", words.detail) };
        let evidence = printable_within(&format!("{}{detail}", words.what), WIDEST_EVIDENCE);
        writeln!(out, "{tag} {evidence} ({})", words.counts)?;
        for line in words.lines.iter().chain(&words.tail) {
            writeln!(out, "    {}", printable_within(line, WIDEST_EVIDENCE))?;
        }
    }
    Ok(())
}

fn label(text: &str) -> String {
    printable_within(text, WIDEST_LABEL)
}

/// The parts of a place that line up within its column.
#[derive(Default)]
struct Parts {
    number: String,
    mark: &'static str,
    spread: String,
    n: String,
    /// Stands instead of all the above.
    word: String,
    notes: String,
    color: &'static str,
}

impl Parts {
    fn of(place: &Place, facet: &Facet<'_>, repeat: usize) -> Self {
        let notes = place.notes.iter().map(|at| format!("[{at}]")).collect();
        let n = if place.n == repeat && place.planned == repeat {
            String::new()
        } else {
            format!("n={}/{}", place.n, place.planned)
        };
        match &place.shown {
            Shown::Number { summary, suspect } => Self {
                number: number(summary.median, facet.decimals),
                mark: if *suspect { "**" } else { "" },
                spread: summary.spread().map(|s| format!("+-{}", spread(s))).unwrap_or_default(),
                n,
                notes,
                color: if *suspect { YELLOW } else { "" },
                ..Self::default()
            },
            Shown::Passed { suspect } => {
                let mark = if *suspect { "**" } else { "" };
                let gap = if n.is_empty() { "" } else { " " };
                let color = if *suspect { YELLOW } else { GREEN };
                Self { word: format!("ok{mark}{gap}{n}"), notes, color, ..Self::default() }
            }
            Shown::Mark { mark, cause } => {
                let gap = if cause.is_empty() { "" } else { " " };
                let color = match *mark {
                    "NG" => RED,
                    "ERR" => MAGENTA,
                    _ => DIM,
                };
                Self { word: format!("{mark}{gap}{cause}"), notes, color, ..Self::default() }
            }
        }
    }
}

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const MAGENTA: &str = "\x1b[35m";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// Widths of the parts of one column.
#[derive(Default)]
struct Widths {
    number: usize,
    mark: usize,
    spread: usize,
    n: usize,
    /// All of the above with gaps, or the widest word or header.
    core: usize,
    notes: usize,
}

impl Widths {
    fn of<'p>(header: &str, column: impl Iterator<Item = &'p Parts>) -> Self {
        let mut widths = Self::default();
        let mut word = header.width();
        for parts in column {
            widths.number = widths.number.max(parts.number.len());
            widths.mark = widths.mark.max(parts.mark.len());
            widths.spread = widths.spread.max(parts.spread.len());
            widths.n = widths.n.max(parts.n.len());
            widths.notes = widths.notes.max(parts.notes.len());
            word = word.max(parts.word.len());
        }
        let gapped = |width: usize| if width == 0 { 0 } else { width + 1 };
        let aligned = widths.number + widths.mark + gapped(widths.spread) + gapped(widths.n);
        widths.core = aligned.max(word);
        widths
    }

    fn total(&self) -> usize {
        self.core + if self.notes == 0 { 0 } else { self.notes + 1 }
    }

    fn place(&self, parts: &Parts, color: bool) -> String {
        let (start, end) = if color && !parts.color.is_empty() { (parts.color, RESET) } else { ("", "") };
        let core = if parts.word.is_empty() {
            let mut core = format!("{:>1$}", parts.number, self.number);
            core.push_str(&format!("{:<1$}", parts.mark, self.mark));
            if self.spread > 0 {
                core.push_str(&format!(" {:>1$}", parts.spread, self.spread));
            }
            if self.n > 0 {
                core.push_str(&format!(" {:<1$}", parts.n, self.n));
            }
            core
        } else {
            parts.word.clone()
        };
        let pad = self.core.saturating_sub(core.len());
        let notes = if self.notes > 0 { format!(" {:<1$}", parts.notes, self.notes) } else { String::new() };
        format!("{:pad$}{start}{core}{end}{notes}", "")
    }
}

fn write_facet(pivot: &Pivot<'_>, facet: &Facet<'_>, color: bool, out: &mut dyn Write) -> io::Result<()> {
    let repeat = usize::try_from(pivot.results.run.repeat).unwrap_or(usize::MAX);
    let columns = facet.cols.len();
    let parts: Vec<Parts> = facet
        .places
        .iter()
        .map(|place| place.as_ref().map(|place| Parts::of(place, facet, repeat)).unwrap_or_default())
        .collect();
    let headers: Vec<String> = facet.cols.iter().map(|values| header(pivot, values)).collect();
    let widths: Vec<Widths> = headers
        .iter()
        .enumerate()
        .map(|(at, header)| Widths::of(header, parts.iter().skip(at).step_by(columns.max(1))))
        .collect();
    let labels: Vec<Labels> = pivot
        .row_axes
        .iter()
        .enumerate()
        .map(|(at, axis)| Labels::of(axis.as_str(), facet.rows.iter().filter_map(|row| row.get(at).copied())))
        .collect();

    let stub: usize = labels.iter().map(|label| label.width + 2).sum();
    if !pivot.col_axes.is_empty() {
        let axes: Vec<&str> = pivot.col_axes.iter().map(|axis| axis.as_str()).collect();
        writeln!(out, "{:stub$}{}", "", axes.join(" / "))?;
    }
    let mut line = String::new();
    for label in &labels {
        line.push_str(&label.pad(&label.name));
        line.push_str("  ");
    }
    for (header, widths) in headers.iter().zip(&widths) {
        let pad = widths.core.saturating_sub(header.width());
        let after = widths.total() - widths.core + 2;
        line.push_str(&format!("{:pad$}{header}{:after$}", "", ""));
    }
    writeln!(out, "{}", line.trim_end())?;
    let rules = labels.iter().map(|label| label.width).chain(widths.iter().map(Widths::total));
    writeln!(out, "{}", rules.map(|width| "-".repeat(width)).collect::<Vec<_>>().join("  "))?;
    for (row, places) in parts.chunks(columns.max(1)).enumerate() {
        line.clear();
        for label in &labels {
            line.push_str(&label.pad(label.texts.get(row).map_or("", String::as_str)));
            line.push_str("  ");
        }
        for (place, widths) in places.iter().zip(&widths) {
            line.push_str(&widths.place(place, color));
            line.push_str("  ");
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// The header of a column: its values, or the metric where there are no column axes.
fn header(pivot: &Pivot<'_>, values: &[&str]) -> String {
    if values.is_empty() {
        return pivot.metric.map_or_else(|| "result".to_owned(), |metric| metric.name.to_string());
    }
    values.iter().map(|value| label(value)).collect::<Vec<_>>().join(" / ")
}

/// One column of row labels; numbers are aligned to the right.
struct Labels {
    name: String,
    texts: Vec<String>,
    width: usize,
    right: bool,
}

impl Labels {
    fn of<'v>(name: &str, values: impl Iterator<Item = &'v str>) -> Self {
        let mut right = true;
        let texts: Vec<String> = values
            .map(|value| {
                right &= value.parse::<f64>().is_ok();
                label(value)
            })
            .collect();
        let width = texts.iter().map(|text| text.width()).max().unwrap_or(0).max(name.width());
        Self { name: name.to_owned(), texts, width, right }
    }

    fn pad(&self, text: &str) -> String {
        let pad = self.width.saturating_sub(text.width());
        if self.right { format!("{:pad$}{text}", "") } else { format!("{text}{:pad$}", "") }
    }
}
