//! Templates: text with `{{ ... }}` in it. Compiled once, checked for undefined variables, rendered per task. Text that
//! needs no minijinja (none, or only plain variables) is rendered without it.

use std::{fmt, ops::Range, sync::Arc};

use minijinja::Environment;
use serde::Serialize;

use crate::{
    expr, lex,
    scalar::{Scalar, Style},
    scope::{Scope, Variable},
    suggest,
};

/// Text with `{{ ... }}` in it.
#[derive(Clone)]
pub struct Template(Arc<Scalar>);

impl Template {
    pub(crate) fn new(scalar: &Scalar) -> Self {
        Self(Arc::new(scalar.clone()))
    }

    /// The text as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    pub(crate) fn scalar(&self) -> &Scalar {
        &self.0
    }

    /// Whether it is the whole text of a file of its own, and not part of the matrix file.
    pub(crate) fn is_file(&self) -> bool {
        self.0.style == Style::Verbatim
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// Templates are equal if their texts are, wherever they stand.
impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Template {}

impl Serialize for Template {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What is wrong with a template.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Part of the matrix: `roles.server.run[3]`.
    pub(crate) place: String,
    pub(crate) template: Template,
    /// Place in the template.
    pub(crate) within: Range<usize>,
    pub(crate) message: String,
    pub(crate) help: String,
}

impl Failure {
    /// A failure that has no place in the matrix.
    pub(crate) fn elsewhere(message: String) -> Self {
        let scalar = Scalar { text: String::new(), style: Style::Plain, span: 0..0 };
        let help = "this is a fault of the program, not of the matrix".to_owned();
        Self { place: "roles".to_owned(), template: Template::new(&scalar), within: 0..0, message, help }
    }
}

/// A template ready for rendering.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) place: String,
    pub(crate) template: Template,
    pub(crate) code: Code,
}

/// How a template is rendered.
#[derive(Debug)]
pub(crate) enum Code {
    /// It has no code.
    Constant,
    /// Texts and plain variables.
    Pieces(Vec<Piece>),
    /// Anything else, by its name in the environment.
    Full(String),
}

#[derive(Debug)]
pub(crate) enum Piece {
    Text(String),
    Variable(Variable),
}

/// Compiles the templates of one role.
pub(crate) struct Compiler<'a> {
    pub(crate) environment: &'a mut Environment<'static>,
    pub(crate) scope: &'a Scope,
    pub(crate) failures: Vec<Failure>,
    /// Whether a template so far may ask for all instances of a role.
    pub(crate) lists: bool,
}

impl Compiler<'_> {
    /// Compiles a template; what is wrong goes to `failures`.
    pub(crate) fn compile(&mut self, template: &Template, place: String) -> Compiled {
        let text = template.as_str();
        let code = if !["{{", "{%", "{#"].iter().any(|mark| text.contains(mark)) {
            Code::Constant
        } else if let Some(pieces) = self.pieces(text) {
            Code::Pieces(pieces)
        } else {
            self.full(template, &place)
        };
        Compiled { place, template: template.clone(), code }
    }

    /// Texts and plain variables, if that is all there is.
    fn pieces(&self, text: &str) -> Option<Vec<Piece>> {
        if text.contains("{%") || text.contains("{#") {
            return None;
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, code)) = rest.split_once("{{") {
            let (path, after) = code.split_once("}}")?;
            pieces.push(Piece::Text(before.to_owned()));
            let variable = self.scope.get(path.trim())?;
            if matches!(variable, Variable::All(_)) {
                return None;
            }
            pieces.push(Piece::Variable(variable));
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Some(pieces)
    }

    fn full(&mut self, template: &Template, place: &str) -> Code {
        let text = template.as_str();
        // A list too many costs little.
        self.lists |= text.contains("all");
        // The name must not look like a file that would be escaped.
        let name = format!("{place}#");
        if let Err(error) = self.environment.add_template_owned(name.clone(), text.to_owned()) {
            let (within, message, help) = expr::explain(&error, text, 0, &lex::template_tokens(text));
            let message = format!("the template is not valid: {message}");
            self.fail(template, place, within, message, help);
            return Code::Full(name);
        }
        let used = self.environment.get_template(&name).map(|compiled| compiled.undeclared_variables(true));
        let mut unknown: Vec<String> =
            used.unwrap_or_default().into_iter().filter(|name| !self.is_known(name)).collect();
        unknown.sort();
        let tokens = lex::template_tokens(text);
        for name in unknown {
            let within = lex::find_path(text, &tokens, &name).unwrap_or(0..text.len());
            let (message, help) = self.undefined(&name);
            self.fail(template, place, within, message, help);
        }
        Code::Full(name)
    }

    fn is_known(&self, name: &str) -> bool {
        self.scope.get(name).is_some() || self.environment.globals().any(|(global, _)| global == name)
    }

    /// Message and help for a variable that does not exist.
    fn undefined(&self, name: &str) -> (String, String) {
        let root = name.split('.').next().unwrap_or(name);
        let prefix = format!("{root}.");
        let attributes = self.scope.names().filter(|known| known.starts_with(&prefix));
        if attributes.clone().next().is_some() {
            let message = if root == name {
                format!("`{name}` is a role, and has no text of its own")
            } else {
                format!("undefined variable `{name}`: the role `{root}` has no such port")
            };
            let wanted = name.strip_prefix(&prefix).unwrap_or("");
            let close =
                suggest::closest(wanted, attributes.clone().filter_map(|one| one.strip_prefix(&prefix)));
            let close = close.map(|close| format!("did you mean `{prefix}{close}`? ")).unwrap_or_default();
            return (
                message,
                format!("{close}it has: {}", attributes.clone().collect::<Vec<_>>().join(", ")),
            );
        }
        if root != name && self.scope.get(root).is_some() {
            return (
                format!("`{name}`: the value of `{root}` has no attributes"),
                format!("write {{{{ {root} }}}}"),
            );
        }
        let message = format!("undefined variable `{name}`");
        (message, suggest::remedy(name, self.scope.names(), "variables here"))
    }

    pub(crate) fn fail(
        &mut self,
        template: &Template,
        place: &str,
        within: Range<usize>,
        message: String,
        help: String,
    ) {
        let template = template.clone();
        self.failures.push(Failure { place: place.to_owned(), template, within, message, help });
    }
}
