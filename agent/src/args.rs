//! The agent's command line, for `drover-agent` and for `drover agent` alike.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, Parser, Subcommand};

use crate::{
    bridge,
    dir::{DIR_VARIABLE, default_dir},
    own::OwnCommand,
    server,
    text::chain,
};

/// Exit code for a wrong command line.
const USAGE: u8 = 2;

/// Runs servers and clients on this host on behalf of a drover controller
#[derive(Debug, Parser)]
#[command(name = "drover-agent", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve controllers over a Unix socket
    Serve(ServeArgs),
    /// Start an agent in the background unless one serves, for a controller that is elsewhere
    #[command(hide = true)]
    Start {
        /// State directory
        #[arg(long, value_name = "DIR", env = DIR_VARIABLE, default_value_os_t = default_dir())]
        dir: PathBuf,
        /// As for `serve`
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
        linger: Duration,
    },
    /// Pass standard input and output on to the agent's socket, for an ssh server that forbids forwarding
    #[command(hide = true)]
    Bridge {
        /// State directory
        #[arg(long, value_name = "DIR", env = DIR_VARIABLE, default_value_os_t = default_dir())]
        dir: PathBuf,
    },
    /// Run the built-in server or client
    #[command(subcommand)]
    Workload(drover_workload::Workload),
}

/// Arguments of `serve`.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// State directory; the socket is `agent.sock` in it
    #[arg(long, value_name = "DIR", env = DIR_VARIABLE, default_value_os_t = default_dir())]
    pub dir: PathBuf,

    /// End when there was no lease, no task and no connection for this long [default: 10m; never with --listen]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub linger: Option<Duration>,

    /// Serve controllers from a network too, by TLS; needs --tls
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,

    /// Folder with `ca.pem`, `cert.pem` and `key.pem`, made by `drover pki issue`
    #[arg(long, value_name = "DIR", requires = "listen")]
    pub tls: Option<PathBuf>,

    /// Leave the terminal and the session of the caller; write `ready` to standard output, then close it
    #[arg(long)]
    pub detach: bool,
}

/// Runs the agent with these arguments (without the name of the program) and returns its exit code. `own` says how to
/// call this program so that it ends up here again.
pub fn main_with_args(args: impl IntoIterator<Item = OsString>, own: OwnCommand) -> ExitCode {
    let args = std::iter::once(OsString::from("drover-agent")).chain(args);
    let command = match Cli::try_parse_from(args) {
        Ok(cli) => cli.command,
        Err(error) => {
            // Help and version go to standard output and are no error.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    match command {
        Command::Serve(args) => match server::serve(&args, own) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("drover-agent: {}", chain(&error));
                ExitCode::from(error.exit_code())
            }
        },
        Command::Start { dir, linger } => bridged(bridge::start(&dir, linger, own)),
        Command::Bridge { dir } => bridged(bridge::bridge(&dir)),
        Command::Workload(workload) => workload.run(),
    }
}

fn bridged(result: Result<(), bridge::BridgeError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drover-agent: {}", chain(&error));
            ExitCode::from(server::EXIT_FAILED)
        }
    }
}
