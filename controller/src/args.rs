//! The command line of `drover`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::BisectArgs;

/// Runs matrices of servers and clients, and says what came out.
#[derive(Debug, Parser)]
#[command(name = "drover", version, about, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 all ok; 1 something under test failed (ng); 2 wrong usage or matrix; \
                        3 incomplete; 4 our own side failed; 130 interrupted."
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub struct Global {
    /// Folder for results.
    #[arg(long, global = true, env = "DROVER_RESULTS", default_value = "drover-results", value_name = "DIR")]
    pub results: PathBuf,
    /// Say only what went wrong, and the result.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Log more to standard error (-v: info, -vv: debug, -vvv: trace). `DROVER_LOG` takes a tracing filter.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// When to use colours. `NO_COLOR` is honoured.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// This is the controller that a command with `--detach` started.
    #[arg(long, hide = true)]
    pub handover: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a matrix and print its table.
    Run(RunArgs),
    /// Check matrix files and host files without running anything.
    Check(CheckArgs),
    /// Show the cells of a matrix, their order and an estimate of the time.
    Plan(PlanArgs),
    /// Go on with a run that was interrupted or whose controller was killed.
    Resume(ResumeArgs),
    /// Watch a run from another terminal; also says how one ended.
    Attach(AttachArgs),
    /// Ask a run to stop, as Ctrl-C at its terminal does; once more kills its tasks.
    Stop(StopArgs),
    /// List the stored runs.
    List,
    /// Show one run, cell or attempt in detail: verdicts, commands, samples, output.
    Show(ShowArgs),
    /// Print the table of a run, or export it.
    Report(ReportArgs),
    /// Find the first bad value of an axis, or the smallest set of toggles that changes the outcome.
    Bisect(BisectArgs),
    /// Parse the kept outputs of a run again.
    Reparse(ReparseArgs),
    /// Check this machine: what would spoil a measurement, and what to do about it.
    Doctor(DoctorArgs),
    /// List the hosts: who they are, who holds them, and which are quarantined.
    Hosts(HostsArgs),
    /// Fetch, list and remove the kernels that virtual machines can boot.
    Kernels(KernelsArgs),
    /// Make and show the certificates of hosts with a resident agent.
    Pki(PkiArgs),
    /// Print the JSON Schema of the matrix file.
    Schema {
        /// That of the host file instead.
        #[arg(long)]
        hosts: bool,
    },
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// The agent (started by `run`; not meant to be called by hand).
    #[command(hide = true, disable_help_flag = true)]
    Agent {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<std::ffi::OsString>,
    },
}

/// Which part of which matrix.
#[derive(Debug, Args)]
pub struct MatrixArgs {
    /// The matrix file.
    pub matrix: PathBuf,
    /// Use these values for an axis instead of those of the file; may be given several times.
    #[arg(long, value_name = "AXIS=V1,V2")]
    pub set: Vec<String>,
    /// Only cells for which this expression holds, such as 'servers > 10'; several must all hold.
    #[arg(long, value_name = "EXPR")]
    pub only: Vec<String>,
    /// Repetitions of every cell, instead of the file's.
    #[arg(long, value_name = "N")]
    pub repeat: Option<u32>,
    /// Seed of the order, instead of the file's or a fresh one.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Which hosts, and how they are reached.
#[derive(Debug, Args)]
pub struct HostArgs {
    /// The host file. Without it: `hosts.yaml` if there is one, or else this machine alone.
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// Accept ssh keys of hosts that are not known yet, and write them down. A changed key is always refused.
    #[arg(long)]
    pub accept_new: bool,
}

#[derive(Debug, Args)]
pub struct HostsArgs {
    #[command(flatten)]
    pub hosts: HostArgs,
    #[command(subcommand)]
    pub command: Option<HostsCommand>,
}

#[derive(Debug, Subcommand)]
pub enum HostsCommand {
    /// Let a quarantined host be used again.
    Release {
        /// The hosts.
        #[arg(required = true)]
        names: Vec<drover_model::Name>,
    },
}

#[derive(Debug, Args)]
pub struct KernelsArgs {
    /// Folder of the catalogue. Without it: `drover/kernels` in the user's folder for data.
    #[arg(long, global = true, env = "DROVER_KERNELS", value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(subcommand)]
    pub command: KernelsCommand,
}

#[derive(Debug, Subcommand)]
pub enum KernelsCommand {
    /// Get a kernel out of a package of the distribution; needs no root.
    Fetch {
        /// `debian:` and a package: `debian:linux-image-cloud-amd64`, or with gaps: `debian:linux-image-6.12.*-rt-amd64`.
        package: String,
        /// What matrices shall call it, instead of its release.
        #[arg(long, value_name = "LABEL")]
        label: Option<String>,
    },
    /// List the kernels.
    List,
    /// Remove kernels.
    Remove {
        /// Their labels.
        #[arg(required = true)]
        labels: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub struct PkiArgs {
    /// Folder of the certificates.
    #[arg(long, default_value = "drover-pki", value_name = "DIR")]
    pub dir: PathBuf,
    #[command(subcommand)]
    pub command: PkiCommand,
}

#[derive(Debug, Subcommand)]
pub enum PkiCommand {
    /// Make a certificate authority, and the controller's own certificate.
    Init {
        /// Replace what is there: every certificate that was issued before is worthless then.
        #[arg(long)]
        force: bool,
    },
    /// Issue the certificate of a host's agent, or of another controller.
    Issue {
        /// The host's name in the host file, or a name for the controller.
        name: drover_model::Name,
        /// For a controller instead of an agent.
        #[arg(long)]
        controller: bool,
        /// Days that it is valid.
        #[arg(long, default_value_t = 825, value_name = "N")]
        days: u32,
        /// Replace one of that name.
        #[arg(long)]
        force: bool,
    },
    /// List the certificates with their fingerprints and ends.
    Show,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub matrix: MatrixArgs,
    #[command(flatten)]
    pub hosts: HostArgs,
    /// Wait for hosts that another run holds.
    #[arg(long)]
    pub wait: bool,
    /// Go on without this terminal: returns when the run is under way, which `drover attach` shows.
    #[arg(long)]
    pub detach: bool,
    /// Show what would be run, and run nothing.
    #[arg(long, conflicts_with = "detach")]
    pub dry_run: bool,
    /// Print no table at the end.
    #[arg(long)]
    pub no_report: bool,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Matrix files and host files.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// As for `run`.
    #[arg(long, value_name = "AXIS=V1,V2")]
    pub set: Vec<String>,
    /// As for `run`.
    #[arg(long, value_name = "EXPR")]
    pub only: Vec<String>,
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub matrix: MatrixArgs,
    /// The host file, as for `run`; no host is touched.
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// Show at most this many trials; 0 shows all.
    #[arg(long, default_value_t = 40, value_name = "N")]
    pub limit: usize,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The run: its id, the beginning of its id, or `last`.
    #[arg(default_value = "last")]
    pub run: String,
    /// A host file, instead of the one that the run was begun with.
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// As for `run`.
    #[arg(long)]
    pub accept_new: bool,
    /// As for `run`.
    #[arg(long)]
    pub wait: bool,
    /// As for `run`.
    #[arg(long)]
    pub detach: bool,
    /// Print no table at the end.
    #[arg(long)]
    pub no_report: bool,
}

#[derive(Debug, Args)]
pub struct AttachArgs {
    /// The run: its id, the beginning of its id, or `last`. Without it: the one that is going on, or else the last.
    pub run: Option<String>,
    /// Print no table at the end.
    #[arg(long)]
    pub no_report: bool,
}

#[derive(Debug, Args)]
pub struct StopArgs {
    /// The run: its id, the beginning of its id, or `last`. Without it: the one that is going on.
    pub run: Option<String>,
    /// Wait until it has ended.
    #[arg(long)]
    pub wait: bool,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The run: its id, the beginning of its id, or `last`.
    #[arg(default_value = "last")]
    pub run: String,
    /// One trial (`c3r1`) or attempt (`c3r1a1`) of it.
    pub trial: Option<String>,
    /// Print what the sensors of its hosts said, as CSV; only series with this in their names.
    #[arg(long, value_name = "PART", num_args = 0..=1, default_missing_value = "", requires = "trial")]
    pub sensors: Option<String>,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The run: its id, the beginning of its id, or `last`.
    #[arg(default_value = "last")]
    pub run: String,
    /// Metric to show, instead of the primary one.
    #[arg(long, value_name = "METRIC")]
    pub metric: Option<String>,
    /// Axes down the side.
    #[arg(long, value_delimiter = ',', value_name = "AXIS,...")]
    pub rows: Vec<String>,
    /// Axes across the top.
    #[arg(long, value_delimiter = ',', value_name = "AXIS,...")]
    pub cols: Vec<String>,
    /// Axes that make a table for each of their values.
    #[arg(long, value_delimiter = ',', value_name = "AXIS,...")]
    pub facet: Vec<String>,
    /// Form of the report.
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub format: Format,
    /// File to write to, instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people.
    Text,
    /// Tables for a mail or an issue tracker.
    Markdown,
    /// One row per attempt.
    Csv,
    /// One row per cell: axes, median, n, mark.
    CellsCsv,
    /// Everything, by a documented schema.
    Json,
    /// One test case per trial, for CI.
    Junit,
}

#[derive(Debug, Args)]
pub struct ReparseArgs {
    /// The run: its id, the beginning of its id, or `last`.
    #[arg(default_value = "last")]
    pub run: String,
    /// Use the metrics and parsers of this matrix file instead of those the run was made with.
    #[arg(long, value_name = "FILE")]
    pub matrix: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Check the hosts of this host file instead of this machine: whether they are reached, and what would spoil a run there.
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// As for `run`.
    #[arg(long)]
    pub accept_new: bool,
    /// Also check what this matrix needs.
    pub matrix: Option<PathBuf>,
}
