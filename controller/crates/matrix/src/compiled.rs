//! The compiled templates of one role, in the shape in which they are rendered.

use std::sync::Arc;

use minijinja::Environment;

use crate::{
    scope::Scope,
    spec::{Command, FileContents, ReadyTemplate, Role},
    template::{Compiled, Compiler, Failure, Template},
};

#[derive(Debug)]
pub(crate) struct CompiledRole {
    pub(crate) command: Vec<Compiled>,
    /// The command is one text for `sh -c`.
    pub(crate) shell: bool,
    pub(crate) env: Vec<(String, Compiled)>,
    pub(crate) files: Vec<CompiledFile>,
    pub(crate) ready: Vec<CompiledCheck>,
    /// Whether a template may ask for all instances of a role.
    pub(crate) lists: bool,
}

#[derive(Debug)]
pub(crate) struct CompiledFile {
    pub(crate) path: String,
    pub(crate) contents: CompiledContents,
    pub(crate) executable: bool,
}

#[derive(Debug)]
pub(crate) enum CompiledContents {
    Text(Compiled),
    Raw(Arc<[u8]>),
    /// A file beside the matrix that was not loaded yet.
    NotLoaded,
}

#[derive(Debug)]
pub(crate) enum CompiledCheck {
    Port(usize),
    Tcp(Compiled),
    Unix(Compiled),
    Log(Compiled),
    Http(Compiled),
    Command(Vec<Compiled>),
    Processes(Compiled),
}

impl CompiledRole {
    /// Compiles all templates of a role, and says what is wrong with them.
    pub(crate) fn new(
        role: &Role,
        scope: &Scope,
        environment: &mut Environment<'static>,
    ) -> (Self, Vec<Failure>) {
        let mut compiler = Compiler { environment, scope, failures: Vec::new(), lists: false };
        let place = |part: &str| format!("roles.{}.{part}", role.name);
        let (command, shell) = match &role.command {
            Command::Argv(words) => (compile_words(words, &place("run"), &mut compiler), false),
            Command::Shell(text) => (vec![compiler.compile(text, place("shell"))], true),
        };
        let env = role.env.iter().map(|(name, template)| {
            (name.clone(), compiler.compile(template, place(&format!("env.{name}"))))
        });
        let env = env.collect();
        let mut files = Vec::new();
        for file in &role.files {
            let place = place(&format!("files.{}", file.path));
            let contents = match &file.contents {
                FileContents::Inline(template) | FileContents::Loaded { template, .. } => {
                    CompiledContents::Text(compiler.compile(template, place))
                }
                FileContents::Raw(bytes) => CompiledContents::Raw(bytes.clone()),
                FileContents::Reference(_) => CompiledContents::NotLoaded,
            };
            files.push(CompiledFile { path: file.path.clone(), contents, executable: file.executable });
        }
        let ready = role.ready.iter().map(|check| {
            let mut compile =
                |template: &Template, part: &str| compiler.compile(template, place(&format!("ready.{part}")));
            match check {
                ReadyTemplate::Port(index) => CompiledCheck::Port(*index),
                ReadyTemplate::Tcp(template) => CompiledCheck::Tcp(compile(template, "tcp")),
                ReadyTemplate::Unix(template) => CompiledCheck::Unix(compile(template, "unix")),
                ReadyTemplate::Log(template) => CompiledCheck::Log(compile(template, "log")),
                ReadyTemplate::Http(template) => CompiledCheck::Http(compile(template, "http")),
                ReadyTemplate::Processes(template) => {
                    CompiledCheck::Processes(compile(template, "processes"))
                }
                ReadyTemplate::Command(words) => {
                    CompiledCheck::Command(compile_words(words, &place("ready.command"), &mut compiler))
                }
            }
        });
        let ready = ready.collect();
        (Self { command, shell, env, files, ready, lists: compiler.lists }, compiler.failures)
    }
}

fn compile_words(words: &[Template], place: &str, compiler: &mut Compiler<'_>) -> Vec<Compiled> {
    words.iter().enumerate().map(|(i, word)| compiler.compile(word, format!("{place}[{i}]"))).collect()
}
