//! Soaks as plain ASCII text.

use std::io::{self, Write};

use drover_store::RunResults;

use super::{SoakResult, lines::section};
use crate::escape::printable_within;

/// Characters of a line that are shown at most.
const WIDEST: usize = 160;
const LABEL: usize = 12;

/// Writes a section for each soak.
pub(crate) fn write(results: &RunResults, soaks: &[SoakResult], out: &mut dyn Write) -> io::Result<()> {
    for soak in soaks {
        let section = section(results, soak, "+-");
        writeln!(out)?;
        writeln!(out, "{}", printable_within(&section.title, WIDEST))?;
        writeln!(out, "  {:LABEL$}{}", "cell", printable_within(&section.cell, WIDEST))?;
        for (label, text) in &section.facts {
            writeln!(out, "  {label:LABEL$}{}", printable_within(text, WIDEST))?;
        }
        if let Some(course) = &section.course {
            let (metric, line) = (printable_within(&course.metric, WIDEST), &course.line);
            writeln!(out, "  {:LABEL$}{metric}", "course")?;
            writeln!(out, "  {:LABEL$}|{line}|", "")?;
            writeln!(out, "  {:LABEL$}{}", "", printable_within(&course.scale, WIDEST))?;
        }
        if !section.timeline.is_empty() {
            writeln!(out, "  timeline    (UTC, and since the load began)")?;
        }
        for happened in &section.timeline {
            let what = printable_within(&happened.what, WIDEST);
            writeln!(out, "    {:19}  {:>12}  {what}", happened.at, happened.since)?;
        }
    }
    Ok(())
}
