//! What the command line says about a matrix: `--set`, `--only`, the limit of cells.

use drover_model::AxisValue;

use crate::{
    decode::{self, AxisDraft, Problems},
    expr::Expression,
    scalar::{Scalar, Style},
    source::SourceText,
    suggest,
};

/// What the command line says about a matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `--set` arguments as given: `axis=v1,v2`. Narrows or overrides the values of an axis; ranges are allowed.
    pub set: Vec<String>,
    /// `--only` expressions as given; a cell stays if all hold.
    pub only: Vec<String>,
    /// Most cells allowed, instead of the matrix's own `limits: {cells: N}` (default 100,000).
    pub cell_limit: Option<u64>,
}

/// New values of an axis.
pub(crate) struct Override {
    /// Place of the axis.
    pub(crate) axis: usize,
    pub(crate) values: Vec<AxisValue>,
    /// The argument itself, to report to.
    pub(crate) argument: SourceText,
}

/// Reads one `--set` argument.
pub(crate) fn set(argument: &str, axes: &[AxisDraft], problems: &mut Problems) -> Option<Override> {
    const HELP: &str = "write --set AXIS=VALUE,VALUE or --set AXIS=1..8";
    let source = problems.source().clone();
    let Some((name, list)) = argument.split_once('=') else {
        problems.add(0..argument.len(), format!("`{argument}` has no `=`"), HELP);
        return None;
    };
    let name = name.trim_end();
    let Some(axis) = axes.iter().position(|axis| axis.name.as_str() == name) else {
        let help = suggest::remedy(name, axes.iter().map(|axis| axis.name.as_str()), "axes");
        problems.add(0..name.len(), format!("the matrix has no axis `{name}`"), help);
        return None;
    };
    if name == decode::HOST {
        let help = format!("narrow it: --only 'host == \"{}\"'", list.trim());
        problems.add(0..name.len(), "the axis `host` has the hosts as its values", help);
        return None;
    }
    let mut values: Vec<AxisValue> = Vec::new();
    let mut start = argument.len() - list.len();
    let mut good = true;
    for item in list.split(',') {
        let span = start..start + item.len();
        start = span.end + 1;
        let text = item.trim();
        if text.is_empty() {
            let place = span.start.min(argument.len().saturating_sub(1));
            problems.add(place..place + 1, format!("a value of the axis `{name}` is missing here"), HELP);
            good = false;
            continue;
        }
        let scalar = Scalar { text: text.to_owned(), style: Style::Opaque, span: span.clone() };
        let Some(more) = decode::values_of(&scalar, name, problems) else {
            good = false;
            continue;
        };
        if let Some(twice) = more.iter().find(|value| values.contains(value)) {
            problems.add(span, format!("the value `{twice}` is given twice"), "keep one of them");
            good = false;
        }
        values.extend(more);
    }
    good.then_some(Override { axis, values, argument: source })
}

/// Reads one `--only` expression.
pub(crate) fn only(argument: &str, axes: &[&str], problems: &mut Problems) -> Option<Expression> {
    let scalar = Scalar::verbatim(&SourceText::new("--only", argument));
    let expression = Expression::check(&scalar, "", "`--only`", problems)?;
    if !expression.check_variables(axes, "`--only`", problems) {
        return None;
    }
    if expression.variables.is_empty() {
        let help = format!("compare one of the axes: {}", axes.join(", "));
        problems.add(scalar.span, "`--only` names no axis, so it selects nothing in particular", help);
        return None;
    }
    Some(expression)
}
