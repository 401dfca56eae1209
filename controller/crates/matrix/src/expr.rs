//! Expressions (`when`, `--only`, `value`, `must`): compiled and evaluated by minijinja with strict undefined values,
//! no I/O and limited fuel; axis values that are written as numbers compare as numbers.

use std::ops::Range;

use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};

use crate::{
    decode::Problems,
    lex::{self, Token, TokenKind},
    scalar::Scalar,
    suggest,
};

/// Instructions that one expression or template may execute; also bounds its output to 64 bytes per unit.
const FUEL: u64 = 100_000;

/// An environment for templates and expressions: nothing undefined passes, nothing is read, nothing runs for long.
pub(crate) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(50);
    // Errors carry the range of the text that caused them.
    environment.set_debug(true);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_syntax(whole_text());
    environment.remove_global("debug");
    environment.remove_global("namespace");
    environment
}

/// The last newline of a file belongs to it.
fn whole_text() -> minijinja::syntax::SyntaxConfig {
    let mut builder = minijinja::syntax::SyntaxConfig::builder();
    builder.keep_trailing_newline(true);
    builder.build().unwrap_or_default()
}

/// An axis value in an expression: a number if its text is that number's only decimal spelling (`10`, `0.5`, not `010`,
/// `1e3`, `6.10`), else text. Either way it prints exactly as written.
pub(crate) fn value_of(text: &str) -> Value {
    number_of(text).unwrap_or_else(|| Value::from(text))
}

fn number_of(text: &str) -> Option<Value> {
    let plausible = text.len() <= 20 && text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let number = match text.parse::<i64>() {
        _ if !plausible => return None,
        Ok(integer) => Value::from(integer),
        Err(_) => Value::from(text.parse::<f64>().ok().filter(|number| number.is_finite())?),
    };
    (number.to_string() == text).then_some(number)
}

/// An expression that has been checked.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    /// As written, with its place.
    pub(crate) scalar: Scalar,
    /// As evaluated: `lead` bytes in front of what is written, then as long as written, so that positions agree.
    code: String,
    lead: usize,
    /// Variables that it uses, with the attributes that it asks them for.
    pub(crate) variables: Vec<String>,
}

/// Why an expression has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EvalError {
    /// Place in the expression.
    pub(crate) within: Range<usize>,
    /// What happened.
    pub(crate) problem: String,
    /// What to do about it.
    pub(crate) help: String,
}

impl Expression {
    /// Compiles `lead` and what is written; a syntax error is reported at its place.
    pub(crate) fn check(scalar: &Scalar, lead: &str, what: &str, problems: &mut Problems) -> Option<Self> {
        if scalar.text.trim().is_empty() {
            problems.add(
                scalar.span.clone(),
                format!("{what} is empty"),
                "write an expression: servers > 100",
            );
            return None;
        }
        let tokens = lex::tokens(&scalar.text);
        let code = lead.to_owned() + &unquote_numbers(&scalar.text, &tokens);
        let lead = lead.len();
        let environment = environment();
        let compiled = environment.compile_expression(&code);
        match compiled {
            Ok(compiled) => {
                let mut variables: Vec<String> = compiled.undeclared_variables(true).into_iter().collect();
                variables.sort();
                Some(Self { scalar: scalar.clone(), code: code.clone(), lead, variables })
            }
            Err(error) => {
                let (within, message, help) = explain(&error, &scalar.text, lead, &tokens);
                problems.add_within(
                    scalar,
                    within,
                    format!("{what} is no valid expression: {message}"),
                    help,
                );
                None
            }
        }
    }

    /// Reports variables that are not among the known ones; returns whether all are known.
    pub(crate) fn check_variables(&self, known: &[&str], what: &str, problems: &mut Problems) -> bool {
        let tokens = lex::tokens(&self.scalar.text);
        let unknown: Vec<&String> =
            self.variables.iter().filter(|name| !known.contains(&name.as_str())).collect();
        for name in &unknown {
            let within =
                lex::find_path(&self.scalar.text, &tokens, name).unwrap_or(0..self.scalar.text.len());
            let root = name.split('.').next().unwrap_or(name);
            let (message, help) = if known.contains(&root) {
                (format!("`{name}`: the value of an axis has no attributes"), format!("write `{root}`"))
            } else {
                let quoted = format!("; a text is quoted: \"{name}\"");
                (
                    format!("{what} names no axis `{name}`"),
                    suggest::remedy(name, known.iter().copied(), "axes") + &quoted,
                )
            };
            problems.add_within(&self.scalar, within, message, help);
        }
        unknown.is_empty()
    }

    /// Compiles for many evaluations and hands the evaluator to `work`.
    pub(crate) fn with_evaluator<T>(
        &self,
        work: impl FnOnce(&dyn Fn(Value) -> Result<Value, EvalError>) -> T,
    ) -> T {
        let environment = environment();
        let compiled = environment.compile_expression(&self.code);
        work(&|context| match &compiled {
            Ok(compiled) => compiled.eval(context).map_err(|error| self.failure(&error)),
            Err(error) => Err(self.failure(error)),
        })
    }

    /// Evaluates once.
    pub(crate) fn evaluate(&self, context: Value) -> Result<Value, EvalError> {
        self.with_evaluator(|evaluate| evaluate(context))
    }

    fn failure(&self, error: &Error) -> EvalError {
        let (within, problem, help) =
            explain(error, &self.scalar.text, self.lead, &lex::tokens(&self.scalar.text));
        EvalError { within, problem, help }
    }
}

/// What to do about a condition that is none.
pub(crate) const COMPARE: &str = "compare it with something: servers > 100, mode == \"fast\"";

/// What a condition gave, if it gave true or false.
pub(crate) fn truth(value: &Value) -> Result<bool, String> {
    bool::try_from(value.clone())
        .ok()
        .filter(|_| value.kind() == minijinja::value::ValueKind::Bool)
        .ok_or_else(|| format!("it gives `{value}`, not true or false"))
}

/// `servers == "3"` means what `servers == 3` means: a text that is written as a number and compared with a variable, or
/// in a list that a variable is looked up in, is a number. Its quotes become spaces, so that all positions stay.
fn unquote_numbers(text: &str, tokens: &[Token]) -> String {
    let mut code = text.to_owned();
    let at = |place: Option<usize>| place.and_then(|place| tokens.get(place));
    let written =
        |place: Option<usize>| at(place).and_then(|token| text.get(token.range.clone())).unwrap_or("");
    let is_variable = |place: Option<usize>| at(place).is_some_and(|token| token.kind == TokenKind::Path);
    let compares = |symbol: &str| matches!(symbol, "==" | "!=" | "<" | ">" | "<=" | ">=");
    // Neither side takes part in a larger operand, such as `a ~ "1"`.
    let ends = |symbol: &str| matches!(symbol, "" | "(" | ")" | "and" | "or" | "not");
    for (i, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == TokenKind::Text) {
        let before = |distance| i.checked_sub(distance);
        let after = |distance| i.checked_add(distance);
        let right = compares(written(before(1)))
            && is_variable(before(2))
            && ends(written(before(3)))
            && ends(written(after(1)));
        let left = compares(written(after(1)))
            && is_variable(after(2))
            && ends(written(after(3)))
            && ends(written(before(1)));
        let separated = matches!(written(before(1)), "[" | ",") && matches!(written(after(1)), "]" | ",");
        let bracket = (0..i).rev().find(|place| written(Some(*place)) == "[");
        let listed = separated
            && bracket.and_then(|place| place.checked_sub(1)).is_some_and(|p| written(Some(p)) == "in");
        let inner = text.get(token.range.start + 1..token.range.end.saturating_sub(1)).unwrap_or("");
        if number_of(inner).is_some() && (left || right || listed) {
            code.replace_range(token.range.clone(), &format!(" {inner} "));
        }
    }
    code
}

/// Where, what and what to do about an error of minijinja.
///
/// `lead` is the length of what stands in front of the text in the code that minijinja saw.
pub(crate) fn explain(
    error: &Error,
    text: &str,
    lead: usize,
    tokens: &[Token],
) -> (Range<usize>, String, String) {
    let detail = error.detail().unwrap_or("it cannot be evaluated").to_owned();
    let place = error.range().map(|range| range.start.saturating_sub(lead)..range.end.saturating_sub(lead));
    let place = place.filter(|range| text.get(range.clone()).is_some());
    if error.kind() == ErrorKind::SyntaxError
        && let Some((range, hint)) = lex::operator_hint(text, tokens)
    {
        let written = text.get(range.clone()).unwrap_or("").to_owned();
        return (range, format!("`{written}` is not an operator here"), hint.to_owned());
    }
    let whole = 0..text.len();
    let place = place.filter(|range| range.start < text.len()).unwrap_or(whole);
    match error.kind() {
        ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction => {
            (place, detail, "see the built-in filters, tests and functions of minijinja".to_owned())
        }
        ErrorKind::OutOfFuel => (
            place,
            "it takes too long or gives too much".to_owned(),
            "make it smaller: loops are limited".to_owned(),
        ),
        ErrorKind::UndefinedError => {
            (place, detail, "check the name behind the dot, and that an index is below the length".to_owned())
        }
        ErrorKind::SyntaxError => {
            let (message, help) = syntax(&detail);
            (place, message.to_owned(), help.to_owned())
        }
        _ => (place, detail, "check the types: text and numbers do not mix in arithmetic".to_owned()),
    }
}

/// Syntax errors of minijinja in the words of somebody who writes a matrix.
fn syntax(detail: &str) -> (&str, &'static str) {
    if detail.contains("end of string") {
        ("a quoted text is not closed", "close the quote")
    } else if detail.contains("unexpected end of variable block") {
        ("something is missing before the end", "complete the expression before `}}`")
    } else if detail.contains("expected end of variable block") && detail.contains("end of input") {
        ("`{{` is not closed", "close it with `}}`")
    } else if detail.contains("expected end of variable block") {
        (detail, "join values with an operator: {{ a + b }}, {{ a ~ b }}, or use a pair of `{{ }}` for each")
    } else if detail.contains("expected end of block") {
        (
            "a block is not closed",
            "every `{% if ... %}` needs its `{% endif %}`, every `{% for ... %}` its `{% endfor %}`",
        )
    } else if detail.contains("unknown statement") {
        (
            detail,
            "there are `if`, `for`, `set`, `with`, `filter` and `macro`, but nothing that reads other files",
        )
    } else if detail.contains("unexpected end of input") {
        ("something is missing at the end", "complete the expression")
    } else {
        (detail, "comparisons: == != < > <= >=, joined by `and`, `or`, `not`; lists: x in [\"a\", \"b\"]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceText;

    fn eval(text: &str, values: &[(&str, &str)]) -> Result<Value, EvalError> {
        let source = SourceText::new("x", text);
        let mut problems = Problems::new(source.clone());
        let expression = Expression::check(&Scalar::verbatim(&source), "", "x", &mut problems).unwrap();
        expression.evaluate(Value::from_pairs(values.iter().map(|(name, text)| (*name, value_of(text)))))
    }

    #[test]
    fn expect_numbers_only_when_their_text_is_canonical() {
        for text in ["0", "7", "-3", "1000000", "0.5", "6.1", "-2.25", "1.0"] {
            assert!(value_of(text).is_number(), "{text}");
            assert_eq!(value_of(text).to_string(), text);
        }
        for text in [
            "6.10",
            "007",
            "+5",
            "1e3",
            "0x10",
            "no",
            "~",
            "1_000",
            "-0",
            "",
            "inf",
            "NaN",
            " 1",
            "99999999999999999999",
        ] {
            assert!(!value_of(text).is_number(), "{text}");
            assert_eq!(value_of(text).to_string(), text);
        }
    }

    #[test]
    fn expect_quoted_and_bare_numbers_to_compare_alike() {
        let truth = |text, value| truth(&eval(text, &[("kernel", value)]).unwrap()).unwrap();
        assert!(truth("kernel == \"6.1\"", "6.1"));
        assert!(truth("kernel in [\"6.1\", 'running']", "6.1"));
        assert!(truth("kernel != '6.1'", "6.10"));
        assert!(truth("kernel == '6.10'", "6.10"));
        assert!(truth("'6.1' == kernel and (kernel == '6.1')", "6.1"));
        assert!(truth("kernel ~ '1' == '6.11'", "6.1"));
        assert!(truth("'6.11' == kernel ~ '1'", "6.1"));
        assert!(truth("('6' in '6.1') and kernel not in ['6.2', 'x']", "6.1"));
    }

    #[test]
    fn expect_an_error_when_an_expression_does_not_end() {
        let error = eval("range(9000)|map('string')|join(range(9000)|join('x' * 100000))", &[]).unwrap_err();
        assert!(error.problem.contains("too"), "{error:?}");
        assert!(eval("'x' * 100000000000", &[]).is_err());
    }
}
