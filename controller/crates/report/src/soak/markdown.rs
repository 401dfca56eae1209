//! Soaks as GitHub Markdown.

use std::io::{self, Write};

use drover_store::RunResults;

use super::{SoakResult, lines::section};
use crate::escape::{markdown, markdown_code, printable_within};

/// Characters of a line that are shown at most.
const WIDEST: usize = 240;

/// Writes a section for each soak.
pub(crate) fn write(results: &RunResults, soaks: &[SoakResult], out: &mut dyn Write) -> io::Result<()> {
    let safe = |text: &str| markdown(&printable_within(text, WIDEST));
    for soak in soaks {
        let section = section(results, soak, "\u{b1}");
        writeln!(out, "\n#### {}\n", safe(&section.title))?;
        writeln!(out, "- cell: {}", safe(&section.cell))?;
        for (label, text) in &section.facts {
            // What a program said may be among it, so it is code; a list item of its own goes on with the one before.
            let code = markdown_code(&printable_within(text, WIDEST));
            match *label {
                "" => writeln!(out, "  <br>{code}")?,
                label => writeln!(out, "- {label}: {code}")?,
            }
        }
        if let Some(course) = &section.course {
            // Spaces at the ends, and several together, would be lost.
            let line = markdown_code(&course.line).replace(' ', "&nbsp;");
            writeln!(out, "- course of {}: {}\n  <br>{line}", safe(&course.metric), safe(&course.scale))?;
        }
        if !section.timeline.is_empty() {
            writeln!(out, "\n| UTC | since | what |\n| --- | ---: | --- |")?;
        }
        for happened in &section.timeline {
            let what = markdown_code(&printable_within(&happened.what, WIDEST));
            writeln!(out, "| {} | {} | {what} |", happened.at, happened.since)?;
        }
    }
    Ok(())
}
