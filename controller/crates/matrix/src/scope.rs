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
    /// Number of this task among those of its role.
    Instance,
    /// Name of the host that this task runs on.
    OwnHost,
    /// Address of this task.
    OwnAddress,
    /// A port of this task, by its place in the role's list.
    OwnPort(usize),
    /// Host of a role's first instance, by the role's place.
    Host(usize),
    /// Address of a role's first instance.
    Address(usize),
    /// A port of a role's first instance, by the places of the role and in that role's list.
    Port(usize, usize),
    /// How many instances a role has.
    Count(usize),
    /// All instances of a role, as a list.
    All(usize),
}

/// Variables that every role's templates have.
const ALWAYS: [(&str, Variable); 7] = [
    ("repetition", Variable::Repetition),
    ("cell", Variable::Cell),
    ("run", Variable::Run),
    ("dir", Variable::Dir),
    ("instance", Variable::Instance),
    ("host", Variable::OwnHost),
    ("address", Variable::OwnAddress),
];

/// Why a name cannot be given to an axis, a role or a port.
pub(crate) fn reserved(name: &str) -> Option<&'static str> {
    match name {
        "repetition" | "cell" | "run" | "dir" | "address" | "instance" | "host" => {
            Some("templates have a variable of that name already")
        }
        "and" | "or" | "not" | "in" | "is" | "if" | "else" | "elif" | "for" | "endfor" | "endif" | "set"
        | "true" | "false" | "none" | "True" | "False" | "None" | "loop" | "self" | "super" | "range"
        | "dict" | "value" | "caller" | "varargs" | "kwargs" | "block" | "macro" | "call" | "filter"
        | "recursive" => Some("the word has a meaning in expressions"),
        _ => None,
    }
}

/// Why a name cannot be given to a port.
pub(crate) fn reserved_for_ports(name: &str) -> Option<&'static str> {
    match name {
        "all" | "count" => Some("`ROLE.all` and `ROLE.count` are the instances of a role"),
        _ => reserved(name),
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
            let own = [
                ("host", Variable::Host(place)),
                ("address", Variable::Address(place)),
                ("count", Variable::Count(place)),
                ("all", Variable::All(place)),
            ];
            names.extend(own.map(|(name, variable)| (format!("{}.{name}", role.name), variable)));
            for (index, port) in role.ports.iter().enumerate() {
                names.insert(format!("{}.{}", role.name, port.name), Variable::Port(place, index));
            }
        }
        let ports = roles.get(own).map_or(&[][..], |role| &role.ports);
        names.extend(
            ports.iter().enumerate().map(|(index, port)| (port.name.to_string(), Variable::OwnPort(index))),
        );
        names.extend(
            axes.into_iter().enumerate().map(|(place, axis)| (axis.to_owned(), Variable::Axis(place))),
        );
        // Last, so that `host` is where the task runs even where an axis is called so, which can be elsewhere.
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
