//! The table as GitHub Markdown, with footnotes, for a pull request or a CI summary.

use std::io::{self, Write};

use crate::{
    escape::{markdown, markdown_code, printable_within},
    heading,
    number::{number, spread},
    pivot::{Facet, Pivot, Place, Shown},
    scaling::say,
};

/// Characters of a line of evidence that are shown at most.
const WIDEST_EVIDENCE: usize = 240;
/// Characters of a line about CPU counts that are shown at most.
const WIDEST_FINDING: usize = 400;

/// Writes heading, tables and footnotes.
pub(crate) fn write(pivot: &Pivot<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "### {}\n", markdown(&heading::title(pivot)))?;
    for fact in heading::facts(pivot, "\u{b1}") {
        writeln!(out, "- {}", markdown(&printable_within(&fact, WIDEST_EVIDENCE)))?;
    }
    for facet in &pivot.facets {
        writeln!(out)?;
        if !facet.shared.is_empty() {
            let shared: Vec<String> = facet
                .shared
                .iter()
                .map(|(axis, value)| format!("{}={}", markdown(axis.as_str()), markdown(value)))
                .collect();
            writeln!(out, "**{}**\n", shared.join(" "))?;
        }
        write_facet(pivot, facet, out)?;
    }
    for said in pivot.scaling.iter().flat_map(say) {
        let end = if said.lines.is_empty() { "" } else { ":\n" };
        writeln!(out, "\n{}{end}", markdown(&said.heading))?;
        for line in said.lines {
            writeln!(out, "- {}", markdown(&printable_within(&line, WIDEST_FINDING)))?;
        }
    }
    for (at, words) in heading::words(&pivot.notes) {
        let detail = if words.detail.is_empty() {
            String::new()
        } else {
            format!(": {}", markdown_code(&printable_within(&words.detail, WIDEST_EVIDENCE)))
        };
        writeln!(out, "\n[^{at}]: {}{detail} ({})", markdown(&words.what), words.counts)?;
        for line in words.lines.iter().chain(&words.tail) {
            writeln!(out, "    <br>{}", markdown_code(&printable_within(line, WIDEST_EVIDENCE)))?;
        }
    }
    Ok(())
}

fn write_facet(pivot: &Pivot<'_>, facet: &Facet<'_>, out: &mut dyn Write) -> io::Result<()> {
    let columns: Vec<&str> = pivot.col_axes.iter().map(|axis| axis.as_str()).collect();
    let mut header: Vec<String> = pivot.row_axes.iter().map(|axis| markdown(axis.as_str())).collect();
    if let Some(corner) = header.last_mut().filter(|_| !columns.is_empty()) {
        *corner = format!("{corner} \\\\ {}", markdown(&columns.join(" / ")));
    }
    let labels = header.len();
    header.extend(facet.cols.iter().map(|values| column(pivot, values)));
    writeln!(out, "| {} |", header.join(" | "))?;
    let rules: Vec<&str> = (0..header.len()).map(|at| if at < labels { "---" } else { "---:" }).collect();
    writeln!(out, "| {} |", rules.join(" | "))?;
    let repeat = usize::try_from(pivot.results.run.repeat).unwrap_or(usize::MAX);
    for (row, places) in facet.rows.iter().zip(facet.places.chunks(facet.cols.len().max(1))) {
        let labels = row.iter().map(|value| markdown(value));
        let places = places.iter().map(|p| p.as_ref().map(|p| place(p, facet, repeat)).unwrap_or_default());
        writeln!(out, "| {} |", labels.chain(places).collect::<Vec<_>>().join(" | "))?;
    }
    Ok(())
}

fn column(pivot: &Pivot<'_>, values: &[&str]) -> String {
    if values.is_empty() {
        return pivot.metric.map_or_else(|| "result".to_owned(), |metric| markdown(metric.name.as_str()));
    }
    markdown(&values.join(" / "))
}

fn place(place: &Place, facet: &Facet<'_>, repeat: usize) -> String {
    let mut text = match &place.shown {
        Shown::Number { summary, suspect } => {
            let mark = if *suspect { "\\*\\*" } else { "" };
            let spread = summary.spread().map(|s| format!(" \u{b1}{}", spread(s))).unwrap_or_default();
            format!("{}{mark}{spread}", number(summary.median, facet.decimals))
        }
        Shown::Passed { suspect } => format!("ok{}", if *suspect { "\\*\\*" } else { "" }),
        Shown::Mark { mark, cause: "" } => (*mark).to_owned(),
        Shown::Mark { mark, cause } => format!("{mark} {cause}"),
    };
    let numbered = !matches!(place.shown, Shown::Mark { .. });
    if numbered && (place.n != repeat || place.planned != repeat) {
        text.push_str(&format!(" n={}/{}", place.n, place.planned));
    }
    for at in &place.notes {
        text.push_str(&format!("[^{at}]"));
    }
    text
}
