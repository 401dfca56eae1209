//! From a decoded draft and the command line to a checked matrix: expansion, rules, templates tried on sample cells.

use std::net::{IpAddr, Ipv4Addr};

use drover_model::{AxisValue, RunId};

use crate::{
    decode::{self, Draft, ExcludeDraft, MAX_CELLS, Problems, SoakDraft},
    diagnostic::Diagnostic,
    expand::{Expansion, Rule},
    expr::Expression,
    groups::Groups,
    identity::{self, Keys},
    matrix::Parts,
    metrics::Metrics,
    render::Renderer,
    rendered::{Endpoint, RenderContext},
    select::{self, Options, Override},
    source::SourceText,
    space::{CellSet, Space, TooMany},
    spec::{Axis, FileContents, Role, Spread},
    template::Failure,
};

/// Cells that every role is rendered for when a matrix is checked.
const TRIED_CELLS: usize = 64;

/// Checks everything that a draft does not show by itself.
pub(crate) fn check(
    draft: Draft,
    options: &Options,
    hosts_known: bool,
    mut problems: Problems,
) -> Result<Parts, Vec<Diagnostic>> {
    // What names hosts is judged once they are known.
    let open = draft.policy.spread == Spread::Each && !hosts_known;
    let (overrides, only) = command_line(&draft, options, &mut problems);
    let broken = draft.axes.len() < draft.declared.len();
    let expansion =
        if broken { None } else { expand(&draft, options, overrides, &only, open, &mut problems) };
    // A broken role has ports that nobody knows; what names them cannot be judged.
    if draft.roles.len() == draft.declared_roles.len() {
        let axes = draft.declared.iter().map(String::as_str);
        let found = templates(problems.source(), axes, &draft.roles, expansion.as_ref());
        problems.extend(found);
    }
    let Some(expansion) = expansion.filter(|_| problems.is_empty()) else {
        return Err(problems.into_list());
    };
    let groups = Groups::new(&expansion.space, &draft.table, draft.policy.spread);
    Ok(Parts {
        source: problems.source().clone(),
        name: draft.name,
        about: draft.about,
        requires: draft.requires,
        metrics: Metrics::new(draft.metrics, &draft.roles),
        roles: draft.roles,
        policy: draft.policy,
        soak: draft.soak.map(|draft| draft.soak),
        table: draft.table,
        references: draft.references,
        file_limit: draft.limits.file,
        options: options.clone(),
        spread_span: draft.spread_span,
        expansion,
        groups,
    })
}

/// Reads the options of the command line; their mistakes point at the options.
fn command_line(
    draft: &Draft,
    options: &Options,
    problems: &mut Problems,
) -> (Vec<Override>, Vec<(Expression, SourceText)>) {
    let mut overrides: Vec<Override> = Vec::new();
    for argument in &options.set {
        let source = SourceText::new("--set", argument.as_str());
        let mut own = Problems::new(source);
        if let Some(found) = select::set(argument, &draft.axes, &mut own) {
            if overrides.iter().any(|other| other.axis == found.axis) {
                own.add(
                    0..argument.len(),
                    "the axis is set twice",
                    "give all its values at once: --set AXIS=1,2",
                );
            }
            overrides.push(found);
        }
        problems.extend(own.into_list());
    }
    let axes: Vec<&str> = draft.declared.iter().map(String::as_str).collect();
    let mut only = Vec::new();
    for argument in &options.only {
        let source = SourceText::new("--only", argument.as_str());
        let mut own = Problems::new(source.clone());
        only.extend(select::only(argument, &axes, &mut own).map(|expression| (expression, source)));
        problems.extend(own.into_list());
    }
    (overrides, only)
}

fn expand(
    draft: &Draft,
    options: &Options,
    overrides: Vec<Override>,
    only: &[(Expression, SourceText)],
    open: bool,
    problems: &mut Problems,
) -> Option<Expansion> {
    let before = problems.count();
    let axes: Vec<Axis> =
        draft.axes.iter().map(|axis| Axis { name: axis.name.clone(), values: axis.values.clone() }).collect();
    let included: Vec<Vec<AxisValue>> = draft.include.iter().map(|cell| cell.values.clone()).collect();
    let limit = options.cell_limit.unwrap_or(draft.limits.cells).min(MAX_CELLS);
    let judge = if open { Judge::ButHosts } else { Judge::All };
    // The file's own cells, before the command line narrows them: its rules are judged by these.
    let file = Space::new(axes.clone(), &draft.zip, included.clone(), limit);
    let narrowed = !overrides.is_empty();
    let (axes, included) = narrow(axes, included, overrides, &draft.zip, problems)?;
    let space = match (narrowed, file) {
        (false, Ok(space)) => {
            included_twice(&space, draft, problems);
            rules(&space, &draft.exclude, judge, problems);
            Ok(space)
        }
        (false, Err(error)) => Err(error),
        (true, file) => {
            if let Ok(file) = file {
                included_twice(&file, draft, problems);
                rules(&file, &draft.exclude, judge, problems);
            }
            // What `--set` puts into the product is no longer an extra cell.
            Space::new(axes.clone(), &draft.zip, Vec::new(), limit).and_then(|product| {
                let extra = included.into_iter().filter(|cell| product.find(cell).is_none()).collect();
                Space::new(axes.clone(), &draft.zip, extra, limit)
            })
        }
    };
    let space = match space {
        Ok(space) => space,
        Err(error) => {
            let (message, help) = too_many(&error, limit, options.cell_limit.is_some());
            problems.add(draft.axes_span.clone(), message, help);
            return None;
        }
    };
    if problems.count() > before {
        return None;
    }
    let rules = rules(&space, &draft.exclude, Judge::Nothing, problems);
    let mut sets = Vec::new();
    for (expression, source) in only {
        match CellSet::new(&space, expression) {
            Ok(set) => sets.push(set),
            Err((cell, error)) => {
                let mut own = Problems::new(source.clone());
                let message = format!("`--only` fails for {}: {}", space.describe(cell), error.problem);
                own.add_within(&expression.scalar, error.within, message, error.help);
                problems.extend(own.into_list());
            }
        }
    }
    let described: Vec<_> = draft.metrics.iter().map(|draft| draft.metric.clone()).collect();
    let soak = draft.soak.as_ref();
    let fingerprint = identity::fingerprint(&draft.roles, &described, soak.map(|draft| &draft.soak));
    let keys = Keys::new(fingerprint, space.axes());
    let expansion = Expansion { space, rules, only: sets, keys };
    let names_host = |expression: &Expression| expression.variables.iter().any(|name| name == decode::HOST);
    let mut conditions = draft.exclude.iter().map(|rule| &rule.when).chain(only.iter().map(|(only, _)| only));
    if problems.count() == before && !(open && conditions.any(names_host)) {
        something_runs(&expansion, draft, only, problems);
    }
    if let Some(soak) = soak.filter(|_| problems.count() == before) {
        shares(&expansion, soak, problems);
    }
    Some(expansion)
}

/// Replaces the values of overridden axes. A cell of `include` stays if its values are among the new ones.
fn narrow(
    mut axes: Vec<Axis>,
    mut included: Vec<Vec<AxisValue>>,
    overrides: Vec<Override>,
    zip: &[Vec<usize>],
    problems: &mut Problems,
) -> Option<(Vec<Axis>, Vec<Vec<AxisValue>>)> {
    let set: Vec<(usize, SourceText)> =
        overrides.iter().map(|change| (change.axis, change.argument.clone())).collect();
    for change in overrides {
        included.retain(|cell| cell.get(change.axis).is_some_and(|value| change.values.contains(value)));
        if let Some(axis) = axes.get_mut(change.axis) {
            axis.values = change.values;
        }
    }
    let mut good = true;
    for group in zip {
        let length = |place: &usize| axes.get(*place).map_or(0, |axis| axis.values.len());
        let even = group.windows(2).all(|pair| pair.first().map(length) == pair.last().map(length));
        let culprit = set.iter().find(|(axis, _)| group.contains(axis));
        if let (false, Some((_, argument))) = (even, culprit) {
            let names: Vec<String> = group
                .iter()
                .filter_map(|place| axes.get(*place))
                .map(|axis| format!("`{}` has {}", axis.name, axis.values.len()))
                .collect();
            let message = format!("zipped axes need the same number of values: {}", names.join(", "));
            let mut own = Problems::new(argument.clone());
            own.add(0..argument.text().len(), message, "set all axes of the group together");
            problems.extend(own.into_list());
            good = false;
        }
    }
    good.then_some((axes, included))
}

/// No cell of `include` is in the product already, or twice in the list.
fn included_twice(space: &Space, draft: &Draft, problems: &mut Problems) {
    for (place, cell) in draft.include.iter().enumerate() {
        let earlier = draft.include.iter().take(place).find(|other| other.values == cell.values);
        if let Some(earlier) = earlier {
            let line = problems.line(earlier.span.start);
            problems.add(
                cell.span.clone(),
                format!("line {line} includes the same cell"),
                "keep one of them",
            );
        } else if let Some(index) = space.find(&cell.values) {
            let message = format!("the axes give this cell already: {}", space.describe(index));
            problems.add(cell.span.clone(), message, "leave it out, or take the value out of the axis");
        }
    }
}

/// Which rules that exclude nothing are mistakes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judge {
    Nothing,
    /// All but those that name a host.
    ButHosts,
    All,
}

/// Evaluates `exclude`; rules that exclude nothing are reported as far as they are judged.
fn rules(space: &Space, drafts: &[ExcludeDraft], judge: Judge, problems: &mut Problems) -> Vec<Rule> {
    let mut rules = Vec::new();
    for draft in drafts {
        let scalar = &draft.when.scalar;
        match CellSet::new(space, &draft.when) {
            Ok(cells) => {
                let named = draft.when.variables.iter().any(|name| name == decode::HOST);
                let judged = judge == Judge::All || (judge == Judge::ButHosts && !named);
                if judged && cells.is_empty() {
                    let help = values_of(space, &draft.when);
                    problems.add(scalar.span.clone(), format!("`{}` excludes no cell", scalar.text), help);
                }
                rules.push(Rule { cells, because: draft.because.as_str().into() });
            }
            Err((cell, error)) => {
                let message = format!("`when` fails for {}: {}", space.describe(cell), error.problem);
                problems.add_within(scalar, error.within, message, error.help);
            }
        }
    }
    rules
}

/// The values of the axes that a condition names, for whoever looks for the mistake.
fn values_of(space: &Space, condition: &Expression) -> String {
    let axes =
        condition.variables.iter().filter_map(|name| space.axis(name)).filter_map(|at| space.axes().get(at));
    let list = axes.map(|axis| {
        let shown: Vec<&str> = axis.values.iter().take(8).map(|value| &**value).collect();
        let more = if axis.values.len() > shown.len() { ", ..." } else { "" };
        format!("`{}` has the values {}{more}", axis.name, shown.join(", "))
    });
    format!("take the rule out or correct it: {}", list.collect::<Vec<_>>().join("; "))
}

/// More cells than allowed: the count, where it comes from, and how to allow it.
fn too_many(error: &TooMany, limit: u64, by_option: bool) -> (String, String) {
    let factors: Vec<String> =
        error.lengths.iter().filter(|length| **length != 1).map(|l| grouped(*l)).collect();
    let cells = error.cells.map_or_else(|| "more than 2^128".to_owned(), grouped);
    let message =
        format!("the axes expand to {cells} cells ({}), {} are allowed", factors.join(" x "), grouped(limit));
    let help = match error.cells {
        Some(cells) if cells <= u128::from(MAX_CELLS) => {
            let raise = if by_option { "raise the limit on the command line to" } else { "allow them with" };
            let value = if by_option { cells.to_string() } else { format!("`limits: {{ cells: {cells} }}`") };
            format!("use fewer values or larger steps, narrow with `--set`, or {raise} {value}")
        }
        _ => format!("use fewer values or larger steps; no limit can be above {}", grouped(MAX_CELLS)),
    };
    (message, help)
}

/// A number with its thousands apart: `1,000,000`.
fn grouped(number: impl ToString) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Cells that share the time of a soak have room for some points each.
fn shares(expansion: &Expansion, draft: &SoakDraft, problems: &mut Problems) {
    let soak = &draft.soak;
    let cells = u64::try_from(expansion.runnable().count()).unwrap_or(u64::MAX);
    let share = soak.cell_time(cells);
    // Shorter than `every` has been reported where it is given.
    if !soak.share || share >= soak.shortest() || soak.length < soak.every {
        return;
    }
    let (share, least) = (share.as_secs_f64(), soak.shortest().as_secs_f64());
    let message = format!(
        "{} cells share this time, {share:.1} s each; {least:.0} s are the least (ten times `every`)",
        grouped(cells)
    );
    let help = "make `for` longer or `every` shorter, narrow the cells with `--only` or `--set`, or take `share` out";
    problems.add(draft.length_span.clone(), message, help);
}

/// At least one cell is selected and not excluded.
fn something_runs(
    expansion: &Expansion,
    draft: &Draft,
    only: &[(Expression, SourceText)],
    problems: &mut Problems,
) {
    if expansion.runnable().next().is_some() {
        return;
    }
    if let Some((expression, source)) = only.last() {
        let excluded = (0..expansion.space.len()).any(|cell| expansion.is_selected(cell));
        let (message, help) = if excluded {
            ("every cell that `--only` selects is excluded", "look at `exclude` in the matrix".to_owned())
        } else {
            (
                "`--only` selects no cell",
                values_of(&expansion.space, expression).replacen(
                    "take the rule out or correct it",
                    "the axes",
                    1,
                ),
            )
        };
        let mut own = Problems::new(source.clone());
        own.add(0..source.text().len(), message, help);
        problems.extend(own.into_list());
        return;
    }
    let span =
        draft.exclude.first().map_or_else(|| draft.axes_span.clone(), |rule| rule.when.scalar.span.clone());
    let help = "narrow the rules of `exclude`: together they take out every cell";
    problems.add(span, "the matrix expands to nothing: every cell is excluded", help);
}

/// What is wrong with the templates of all roles: syntax and undefined variables, and what only shows when they are
/// rendered, which is tried for a few cells in which every axis value occurs.
pub(crate) fn templates<'a>(
    source: &SourceText,
    axes: impl Iterator<Item = &'a str> + Clone,
    roles: &[Role],
    expansion: Option<&Expansion>,
) -> Vec<Diagnostic> {
    let (renderer, mut failures) = Renderer::compile(axes, roles);
    let endpoints: Vec<Vec<Endpoint>> = roles.iter().map(sample_endpoints).collect();
    let (run, dir) = (RunId(uuid::Uuid::nil()), "/tmp/drover/attempt");
    let context = |instance| RenderContext { run, repetition: 1, dir, instance, endpoints: &endpoints };
    // The first and the last instance of every role: an index that runs out of a list does so at an end.
    let tasks = || {
        let ends = |role: &Role| if role.tasks() > 1 { vec![0, role.tasks() - 1] } else { vec![0] };
        roles.iter().enumerate().flat_map(move |(place, role)| {
            ends(role).into_iter().map(move |instance| (place, context(instance)))
        })
    };
    let cells = expansion.into_iter().flat_map(|expansion| {
        let runs = |cell: &u32| expansion.excluded(*cell).is_none();
        expansion.space.samples(TRIED_CELLS).into_iter().filter(runs).map(|cell| expansion.build(cell))
    });
    for cell in cells {
        for mut failure in tasks().flat_map(|(role, context)| renderer.failures(role, &cell, &context)) {
            // A NUL that stands in the file has been reported where it stands.
            let reported = failure.template.as_str().contains('\0');
            if !reported && !failures.iter().any(|known| known.place == failure.place) {
                let at = if cell.values.is_empty() { String::new() } else { format!(" (for {cell})") };
                failure.message += &at;
                failures.push(failure);
            }
        }
    }
    failures.into_iter().map(|failure| diagnose(source, roles, failure)).collect()
}

/// A template's failure as a diagnostic in the file that the template stands in.
fn diagnose(matrix: &SourceText, roles: &[Role], failure: Failure) -> Diagnostic {
    let scalar = failure.template.scalar();
    let files = roles.iter().flat_map(|role| &role.files);
    let mut own = files.filter_map(|file| match &file.contents {
        FileContents::Loaded { template, source } if *template == failure.template => Some(source.as_str()),
        _ => None,
    });
    let source = match own.next() {
        Some(path) if failure.template.is_file() => SourceText::new(path, scalar.text.as_str()),
        _ => matrix.clone(),
    };
    Diagnostic::new(&source, scalar.locate(&source, failure.within), failure.message, failure.help)
}

/// Any address and ports will do to try a template.
fn sample_endpoints(role: &Role) -> Vec<Endpoint> {
    let ports = role.ports.iter().zip(40_000..).map(|(port, number)| port.fixed.unwrap_or(number));
    let (address, ports) = (IpAddr::V4(Ipv4Addr::LOCALHOST), ports.collect::<Vec<u16>>());
    (0..role.tasks()).map(|_| Endpoint { host: role.name.clone(), address, ports: ports.clone() }).collect()
}
