//! `drover completions` and `drover schema`: texts for the shell and the editor.

use clap::CommandFactory;

use crate::args::Cli;

/// The completion script for a shell.
pub fn completions(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "drover", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
