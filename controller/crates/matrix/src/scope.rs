//! Which variables a role's templates can use, and where their values come from.

use std::collections::BTreeMap;

use crate::spec::Role;

/// Where the value of a template variable comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variable {
    /// An axis, by its place.
    Axis(usize),
    Repetition,
    Cell,
    Run,
    Dir,
    /// Address of a role's host, by the role's place.
    Address(usize),
    /// A port, by the places of its role and in that role's list.
    Port(usize, usize),
}

/// Variables that every role's templates have.
const ALWAYS: [(&str, Variable); 4] = [
    ("repetition", Variable::Repetition),
    ("cell", Variable::Cell),
    ("run", Variable::Run),
    ("dir", Variable::Dir),
];

/// Why a name cannot be given to an axis, a role or a port.
pub(crate) fn reserved(name: &str) -> Option<&'static str> {
    match name {
        "repetition" | "cell" | "run" | "dir" | "address" => {
            Some("templates have a variable of that name already")
        }
        "and" | "or" | "not" | "in" | "is" | "if" | "else" | "elif" | "for" | "endfor" | "endif" | "set"
        | "true" | "false" | "none" | "True" | "False" | "None" | "loop" | "self" | "super" | "range"
        | "dict" | "value" | "caller" | "varargs" | "kwargs" | "block" | "macro" | "call" | "filter"
        | "recursive" => Some("the word has a meaning in expressions"),
        _ => None,
    }
}

/// The variables of one role's templates: name (with a dot for those of other roles) -> where the value comes from.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    names: BTreeMap<String, Variable>,
}

impl Scope {
    /// The scope of the role at `own` of a matrix with these axes and roles.
    pub(crate) fn new<'a>(axes: impl IntoIterator<Item = &'a str>, roles: &[Role], own: usize) -> Self {
        let mut names: BTreeMap<String, Variable> = BTreeMap::new();
        for (place, role) in roles.iter().enumerate() {
            names.insert(format!("{}.address", role.name), Variable::Address(place));
            for (index, port) in role.ports.iter().enumerate() {
                names.insert(format!("{}.{}", role.name, port.name), Variable::Port(place, index));
            }
        }
        let ports = roles.get(own).map_or(&[][..], |role| &role.ports);
        names.extend(
            ports.iter().enumerate().map(|(index, port)| (port.name.to_string(), Variable::Port(own, index))),
        );
        names.insert("address".to_owned(), Variable::Address(own));
        names.extend(
            axes.into_iter().enumerate().map(|(place, axis)| (axis.to_owned(), Variable::Axis(place))),
        );
        names.extend(ALWAYS.map(|(name, variable)| (name.to_owned(), variable)));
        Self { names }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Variable> {
        self.names.get(name).copied()
    }

    /// All names, in alphabetical order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.names.keys().map(String::as_str)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Variable)> {
        self.names.iter().map(|(name, variable)| (name.as_str(), *variable))
    }
}
