//! Rendering: a role and a cell become what a task needs, fast enough to be done for every task.

use std::{cell::OnceCell, collections::BTreeMap, fmt::Write, net::SocketAddr};

use drover_model::{Cell, CpuPart, Placement, ReadyCheck, StagedFile};
use minijinja::{Environment, Value};

use crate::{
    compiled::{CompiledCheck, CompiledContents, CompiledRole},
    expr,
    instances::Instances,
    lex,
    matrix::Matrix,
    rendered::{Endpoint, RenderContext, RenderError, RenderedRole},
    scope::{Scope, Variable},
    spec::Role,
    template::{Code, Compiled, Failure, Piece},
};

/// Prepared templates of a matrix. Cheap to use, and to share between threads.
#[derive(Debug)]
pub struct Renderer {
    environment: Environment<'static>,
    roles: Vec<PreparedRole>,
    /// Largest file for an attempt's folder, in bytes.
    file_limit: u64,
}

#[derive(Debug)]
struct PreparedRole {
    role: Role,
    scope: Scope,
    compiled: CompiledRole,
}

impl Renderer {
    /// Prepares the templates of a matrix, once per run. A role whose files were not loaded ([`Matrix::with_files`])
    /// cannot be rendered.
    ///
    /// # Errors
    ///
    /// A template that does not compile; a checked matrix has none.
    pub fn new(matrix: &Matrix) -> Result<Self, RenderError> {
        let axes = matrix.axes().iter().map(|axis| axis.name.as_str());
        let (mut renderer, failures) = Self::compile(axes, matrix.roles());
        renderer.file_limit = matrix.file_limit();
        match failures.first() {
            None => Ok(renderer),
            Some(failure) => Err(RenderError::new(failure, "any cell")),
        }
    }

    /// Compiles the templates of all roles, and says what is wrong with them.
    pub(crate) fn compile<'a>(
        axes: impl IntoIterator<Item = &'a str> + Clone,
        roles: &[Role],
    ) -> (Self, Vec<Failure>) {
        let mut environment = expr::environment();
        let mut failures = Vec::new();
        let mut prepared = Vec::new();
        for (own, role) in roles.iter().enumerate() {
            let scope = Scope::new(axes.clone(), roles, own);
            let (compiled, failed) = CompiledRole::new(role, &scope, &mut environment);
            failures.extend(failed);
            prepared.push(PreparedRole { role: role.clone(), scope, compiled });
        }
        (Self { environment, roles: prepared, file_limit: u64::MAX }, failures)
    }

    /// What one task of a role needs in a cell. `role` is its place in [`Matrix::roles`].
    ///
    /// # Errors
    ///
    /// A template that fails for this cell, or gives something that cannot be used (an address that is none); an instance
    /// that the context has no endpoint for.
    pub fn render(
        &self,
        role: usize,
        cell: &Cell,
        context: &RenderContext<'_>,
    ) -> Result<RenderedRole, RenderError> {
        self.try_render(role, cell, context).map_err(|failure| RenderError::new(&failure, cell))
    }

    fn try_render(
        &self,
        place: usize,
        cell: &Cell,
        context: &RenderContext<'_>,
    ) -> Result<RenderedRole, Box<Failure>> {
        let prepared = self.roles.get(place);
        let prepared =
            prepared.ok_or_else(|| Box::new(Failure::elsewhere(format!("there is no role {place}"))))?;
        Work::new(self, place, prepared, cell, context)?.role()
    }

    /// Everything that fails when a role is rendered for a cell, apart from files that were not loaded.
    pub(crate) fn failures(&self, place: usize, cell: &Cell, context: &RenderContext<'_>) -> Vec<Failure> {
        let Some(prepared) = self.roles.get(place) else { return Vec::new() };
        let work = match Work::new(self, place, prepared, cell, context) {
            Ok(work) => work,
            Err(failure) => return vec![*failure],
        };
        let compiled = &prepared.compiled;
        let mut found: Vec<Option<Box<Failure>>> = vec![work.words(&compiled.command).err()];
        found.extend(compiled.command.iter().skip(1).map(|word| work.word(word).err()));
        found.extend(compiled.env.iter().map(|(_, value)| work.word(value).err()));
        found.extend(compiled.ready.iter().map(|check| work.check(check).err()));
        found.extend(compiled.files.iter().map(|file| match &file.contents {
            CompiledContents::Text(text) => work.text(text).err(),
            CompiledContents::Raw(_) | CompiledContents::NotLoaded => None,
        }));
        found.into_iter().flatten().map(|failure| *failure).collect()
    }
}

/// One rendering of one role.
struct Work<'a> {
    renderer: &'a Renderer,
    prepared: &'a PreparedRole,
    cell: &'a Cell,
    context: &'a RenderContext<'a>,
    /// Where this task itself can be reached.
    own: &'a Endpoint,
    /// All variables, made when the first template needs minijinja.
    values: OnceCell<Value>,
}

impl<'a> Work<'a> {
    fn new(
        renderer: &'a Renderer,
        place: usize,
        prepared: &'a PreparedRole,
        cell: &'a Cell,
        context: &'a RenderContext<'a>,
    ) -> Result<Self, Box<Failure>> {
        let instances = context.endpoints.get(place);
        let own = usize::try_from(context.instance).ok().and_then(|at| instances?.get(at));
        let own = own.ok_or_else(|| {
            let role = &prepared.role.name;
            Box::new(Failure::elsewhere(format!("there is no place for `{role}` {}", context.instance)))
        })?;
        Ok(Self { renderer, prepared, cell, context, own, values: OnceCell::new() })
    }

    fn role(&self) -> Result<RenderedRole, Box<Failure>> {
        let (role, compiled) = (&self.prepared.role, &self.prepared.compiled);
        let argv = self.words(&compiled.command)?;
        let argv = if compiled.shell {
            ["sh", "-c"].map(str::to_owned).into_iter().chain(argv).collect()
        } else {
            argv
        };
        let pair = |(name, value): &(String, Compiled)| Ok((name.clone(), self.word(value)?));
        Ok(RenderedRole {
            argv,
            env: compiled.env.iter().map(pair).collect::<Result<_, Box<Failure>>>()?,
            files: self.files()?,
            ready: compiled.ready.iter().map(|check| self.check(check)).collect::<Result<_, _>>()?,
            ready_within: role.within,
            placement: self.placement(role.placement),
            deadline: role.timeout,
            stop: role.stop,
            output_limit: role.output,
            ports: self.own.ports.clone(),
        })
    }

    /// The instances of a role.
    fn endpoints(&self, role: usize) -> &'a [Endpoint] {
        self.context.endpoints.get(role).map_or(&[], Vec::as_slice)
    }

    /// The first instance of a role.
    fn first(&self, role: usize) -> Option<&'a Endpoint> {
        self.endpoints(role).first()
    }

    fn placement(&self, part: Option<CpuPart>) -> Option<Placement> {
        let count = self.cell.value("cpus")?.parse().ok()?;
        part.map(|part| Placement { count, part })
    }

    fn files(&self) -> Result<Vec<StagedFile>, Box<Failure>> {
        let one = |file: &crate::compiled::CompiledFile| {
            let contents = match &file.contents {
                CompiledContents::Raw(bytes) => bytes.to_vec(),
                CompiledContents::Text(text) => self.text(text)?.into_bytes(),
                CompiledContents::NotLoaded => {
                    let message = format!("the contents of the file `{}` were not loaded", file.path);
                    return Err(Box::new(Failure::elsewhere(message)));
                }
            };
            let (bytes, limit) =
                (u64::try_from(contents.len()).unwrap_or(u64::MAX), self.renderer.file_limit);
            if bytes > limit {
                let path = &file.path;
                let message = format!("the file `{path}` has {bytes} bytes, {limit} are allowed");
                return Err(Box::new(Failure::elsewhere(message)));
            }
            Ok(StagedFile { path: file.path.clone(), contents, executable: file.executable, blob: None })
        };
        self.prepared.compiled.files.iter().map(one).collect()
    }

    fn check(&self, check: &CompiledCheck) -> Result<ReadyCheck, Box<Failure>> {
        Ok(match check {
            CompiledCheck::Port(index) => {
                let port = self.own.ports.get(*index);
                let port =
                    port.ok_or_else(|| Box::new(Failure::elsewhere("no port was reserved".to_owned())))?;
                ReadyCheck::Tcp(SocketAddr::new(self.own.address, *port))
            }
            CompiledCheck::Tcp(template) => {
                let text = self.word(template)?;
                let address = socket_address(&text);
                let help = "write an IP address and a port: \"{{ address }}:{{ port }}\"";
                ReadyCheck::Tcp(
                    address
                        .ok_or_else(|| wrong(template, &format!("`{text}` is no address and port"), help))?,
                )
            }
            CompiledCheck::Unix(template) => ReadyCheck::Unix(self.word(template)?),
            CompiledCheck::Log(template) => {
                let text = self.word(template)?;
                if text.trim().is_empty() {
                    return Err(wrong(template, "the text to wait for is empty", "any line would match it"));
                }
                ReadyCheck::Log(text)
            }
            CompiledCheck::Http(template) => {
                let url = self.word(template)?;
                if !url.starts_with("http://") {
                    return Err(wrong(
                        template,
                        &format!("`{url}` is no http:// URL"),
                        "write \"http://{{ address }}:{{ port }}/\"",
                    ));
                }
                ReadyCheck::Http(url)
            }
            CompiledCheck::Command(words) => ReadyCheck::Command(self.words(words)?),
            CompiledCheck::Processes(template) => {
                let text = self.word(template)?;
                let count = text.trim().parse().ok().filter(|count| *count > 0);
                let help = "give a whole number above zero: \"{{ servers + 1 }}\"";
                ReadyCheck::Processes(
                    count.ok_or_else(|| {
                        wrong(template, &format!("`{text}` is no number of processes"), help)
                    })?,
                )
            }
        })
    }

    fn words(&self, list: &[Compiled]) -> Result<Vec<String>, Box<Failure>> {
        let words = list.iter().map(|compiled| self.word(compiled)).collect::<Result<Vec<_>, _>>()?;
        match (list.first(), words.first()) {
            (Some(first), Some(word)) if word.is_empty() => {
                Err(wrong(first, "the command is empty", "the first word must name a command in every cell"))
            }
            _ => Ok(words),
        }
    }

    /// Text for an argument or a variable, which cannot hold NUL.
    fn word(&self, compiled: &Compiled) -> Result<String, Box<Failure>> {
        let text = self.text(compiled)?;
        if text.contains('\0') {
            return Err(wrong(
                compiled,
                "the text contains a NUL character",
                "no argument or variable can hold it",
            ));
        }
        Ok(text)
    }

    fn text(&self, compiled: &Compiled) -> Result<String, Box<Failure>> {
        match &compiled.code {
            Code::Constant => Ok(compiled.template.as_str().to_owned()),
            Code::Pieces(pieces) => {
                let mut text = String::with_capacity(compiled.template.as_str().len() + 16);
                for piece in pieces {
                    match piece {
                        Piece::Text(part) => text.push_str(part),
                        Piece::Variable(variable) => self.append(*variable, &mut text),
                    }
                }
                Ok(text)
            }
            Code::Full(name) => {
                let template = self.renderer.environment.get_template(name);
                let result = template.and_then(|template| template.render(self.values()));
                result.map_err(|error| {
                    let text = compiled.template.as_str();
                    let (within, message, help) = expr::explain(&error, text, 0, &lex::template_tokens(text));
                    Box::new(Failure {
                        place: compiled.place.clone(),
                        template: compiled.template.clone(),
                        within,
                        message,
                        help,
                    })
                })
            }
        }
    }

    /// The value of a variable, as text.
    fn append(&self, variable: Variable, text: &mut String) {
        let number = |text: &mut String, number: u32| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{number}");
        };
        match variable {
            Variable::Axis(axis) => text.push_str(self.cell.values.get(axis).map_or("", |(_, value)| value)),
            Variable::Repetition => number(text, self.context.repetition),
            Variable::Cell => {
                let _ = write!(text, "{}", self.cell.key);
            }
            Variable::Run => {
                let _ = write!(text, "{}", self.context.run);
            }
            Variable::Dir => text.push_str(self.context.dir),
            Variable::Instance => number(text, self.context.instance),
            Variable::OwnHost => text.push_str(self.own.host.as_str()),
            Variable::OwnAddress => {
                let _ = write!(text, "{}", self.own.address);
            }
            Variable::OwnPort(index) => {
                if let Some(port) = self.own.ports.get(index) {
                    number(text, u32::from(*port));
                }
            }
            Variable::Host(role) => text.push_str(self.first(role).map_or("", |first| first.host.as_str())),
            Variable::Address(role) => {
                if let Some(first) = self.first(role) {
                    let _ = write!(text, "{}", first.address);
                }
            }
            Variable::Port(role, index) => {
                if let Some(port) = self.first(role).and_then(|first| first.ports.get(index)) {
                    number(text, u32::from(*port));
                }
            }
            Variable::Count(role) => {
                let _ = write!(text, "{}", self.endpoints(role).len());
            }
            // A list is no text; the compiler leaves it to minijinja.
            Variable::All(_) => {}
        }
    }

    /// All instances of a role, if a template of this one asks for any such list.
    fn all(&self, role: usize) -> Option<Value> {
        let other = self.renderer.roles.get(role).filter(|_| self.prepared.compiled.lists)?;
        Some(Value::from_object(Instances::new(&other.role, self.endpoints(role))))
    }

    /// The value of a variable for minijinja. Only that of an axis may look like a number and be none.
    fn value(&self, variable: Variable) -> Option<Value> {
        Some(match variable {
            Variable::All(role) => self.all(role)?,
            Variable::Axis(axis) => expr::value_of(self.cell.values.get(axis).map_or("", |(_, value)| value)),
            Variable::Repetition => Value::from(self.context.repetition),
            Variable::Instance => Value::from(self.context.instance),
            Variable::Count(role) => Value::from(self.endpoints(role).len()),
            Variable::OwnPort(index) => Value::from(*self.own.ports.get(index)?),
            Variable::Port(role, index) => Value::from(*self.first(role)?.ports.get(index)?),
            text => {
                let mut written = String::new();
                self.append(text, &mut written);
                Value::from(written)
            }
        })
    }

    /// All variables for minijinja: plain ones by name, those of other roles as a mapping per role.
    fn values(&self) -> Value {
        let make = || {
            let mut plain: BTreeMap<&str, Value> = BTreeMap::new();
            let mut roles: BTreeMap<&str, BTreeMap<&str, Value>> = BTreeMap::new();
            for (name, variable) in self.prepared.scope.iter() {
                let Some(value) = self.value(variable) else { continue };
                match name.split_once('.') {
                    Some((role, attribute)) => {
                        roles.entry(role).or_default().insert(attribute, value);
                    }
                    None => {
                        plain.insert(name, value);
                    }
                }
            }
            let roles = roles.into_iter().map(|(name, attributes)| (name, Value::from_pairs(attributes)));
            Value::from_pairs(plain.into_iter().chain(roles))
        };
        self.values.get_or_init(make).clone()
    }
}

/// An IP address with a port; `localhost` is 127.0.0.1, since nothing is looked up here.
fn socket_address(text: &str) -> Option<SocketAddr> {
    text.replacen("localhost:", "127.0.0.1:", 1).parse().ok()
}

/// A template whose text cannot be used.
fn wrong(compiled: &Compiled, message: &str, help: &str) -> Box<Failure> {
    Box::new(Failure {
        place: compiled.place.clone(),
        template: compiled.template.clone(),
        within: 0..compiled.template.as_str().len(),
        message: message.to_owned(),
        help: help.to_owned(),
    })
}
