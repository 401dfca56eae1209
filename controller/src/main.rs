//! `drover`: the controller's command line. Parses arguments, calls the command, turns its end into an exit status.

mod args;
mod commands;
mod driver;
mod error;
mod exit;
mod live;
mod logging;
mod screen;
mod time;

use std::process::ExitCode;

use clap::Parser;
use drover_agent::OwnCommand;

use args::{Cli, Command, Global};
use error::Failure;
use exit::ExitStatus;
use logging::RunLog;
use screen::Screen;

/// What every command gets.
pub struct Context {
    /// Options of every command.
    pub global: Global,
    /// Where it prints to.
    pub screen: Screen,
    /// Where it logs to, once there is a run.
    pub log: RunLog,
}

fn main() -> ExitCode {
    // In a virtual machine this program is the first process, too: so nothing else need be installed.
    if drover_vm::is_init() {
        return drover_vm::init();
    }
    let Cli { global, command } = Cli::parse();
    if let Command::Agent { args } = command {
        return drover_agent::main_with_args(args, OwnCommand { prefix: &["agent"] });
    }
    let screen = Screen::new(global.color, global.quiet, global.handover);
    let log = logging::start(global.verbose, &screen);
    let context = Context { global, screen, log };
    match execute(command, &context) {
        Ok(status) => status.into(),
        Err(failure) => {
            let text = failure.to_string();
            if failure.is_styled() {
                context.screen.show(&text)
            } else {
                context.screen.complain(&text)
            }
            failure.status.into()
        }
    }
}

fn execute(command: Command, context: &Context) -> Result<ExitStatus, Failure> {
    match command {
        Command::Run(args) => commands::run(&args, context),
        Command::Resume(args) => commands::resume(&args, context),
        Command::Attach(args) => commands::attach(&args, context),
        Command::Stop(args) => commands::stop(&args, context),
        Command::Check(args) => commands::check(&args, &context.screen),
        Command::Plan(args) => commands::plan(&args, context),
        Command::List => commands::list(context),
        Command::Show(args) => commands::show(&args, context),
        Command::Report(args) => commands::report(&args, context),
        Command::Bisect(args) => commands::bisect(&args, context),
        Command::Reparse(args) => commands::reparse(&args, context),
        Command::Hosts(args) => commands::hosts(&args, context),
        Command::Kernels(args) => commands::kernels(&args, context),
        Command::Pki(args) => commands::pki(&args, context),
        Command::Doctor(args) => commands::doctor(&args, context),
        Command::Schema { hosts: false } => print(context, &drover_matrix::schema()),
        Command::Schema { hosts: true } => print(context, &drover_matrix::hosts_schema()),
        Command::Completions { shell } => print(context, &commands::completions(shell)),
        // Taken by `main`, before there is a context.
        Command::Agent { .. } => Ok(ExitStatus::Usage),
    }
}

/// Prints a text; a reader that went away is no failure.
fn print(context: &Context, text: &str) -> Result<ExitStatus, Failure> {
    let _ = context.screen.out(text);
    Ok(ExitStatus::Ok)
}
