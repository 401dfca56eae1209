//! `drover hosts`: asks every host who it is and who holds it.

use std::{collections::BTreeMap, time::Duration};

use comfy_table::{Table, presets};
use drover_connect::{Connection, connect};
use drover_matrix::{HostEntry, Reach};
use drover_model::Name;
use drover_proto::v1;
use drover_store::{Change, Quarantine, ResultsDir, SqliteStore, Store};
use tokio::task::JoinSet;

use super::{abilities, load_hosts, setups};
use crate::{
    Context,
    args::{HostsArgs, HostsCommand},
    driver::{HostSetup, chain},
    error::Failure,
    exit::ExitStatus,
    time::utc,
};

/// Longest time for the agent to end again, if this command started it.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Lists the hosts, or releases one from its quarantine.
pub fn hosts(args: &HostsArgs, context: &Context) -> Result<ExitStatus, Failure> {
    match &args.command {
        Some(HostsCommand::Release { names }) => release(names, context),
        None => list(args, context),
    }
}

fn list(args: &HostsArgs, context: &Context) -> Result<ExitStatus, Failure> {
    let source = load_hosts(&args.hosts, &context.screen)?;
    let setups = setups(&source.hosts, (&args.hosts).into())?;
    let quarantined = quarantined(context)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::infrastructure(&error))?;
    let mut states = runtime.block_on(ask_all(setups));
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["host", "reached by", "labels", "kernel", "cpus", "memory", "state"]);
    let mut unreachable = false;
    for host in &source.hosts.hosts {
        let state = states.remove(&host.name).unwrap_or_else(|| Err("it was not asked".to_owned()));
        unreachable |= state.is_err();
        let bad = quarantined.iter().find(|quarantine| quarantine.host == host.name);
        table.add_row(row(host, &state, bad));
    }
    let text: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    let _ = context.screen.out(&drover_report::printable_lines(&(text.join("\n") + "\n")));
    Ok(if unreachable { ExitStatus::Infrastructure } else { ExitStatus::Ok })
}

/// What a host says, or why it does not.
type State = Result<drover_proto::Hello, String>;

async fn ask_all(setups: BTreeMap<Name, HostSetup>) -> BTreeMap<Name, State> {
    let mut asked = JoinSet::new();
    for (name, setup) in setups {
        asked.spawn(async move {
            let state = match connect(&setup.target).await {
                Ok(connection) => Ok(take_leave(connection).await),
                Err(error) => Err(chain(&error)),
            };
            (name, state)
        });
    }
    let mut states = BTreeMap::new();
    while let Some(done) = asked.join_next().await {
        states.extend(done.ok());
    }
    states
}

/// Ends the agent again, if nobody needs it.
pub async fn take_leave(connection: Connection) -> drover_proto::Hello {
    let Connection { mut client, hello, .. } = connection;
    // A resident agent was there before.
    if hello.lease.is_none() && hello.host_name.is_none() {
        // An agent that stays ends by itself when nobody needs it.
        let _ = tokio::time::timeout(END_LIMIT, client.shutdown(v1::ShutdownRequest { lease: None })).await;
    }
    hello
}

fn row(host: &HostEntry, state: &State, bad: Option<&Quarantine>) -> Vec<String> {
    let labels: Vec<&str> = host.labels.iter().map(Name::as_str).collect();
    let mut row = vec![host.name.to_string(), reached_by(&host.reach), labels.join(",")];
    let mut words = Vec::new();
    match state {
        Ok(hello) => {
            let facts = &hello.facts;
            row.push(facts.kernel_release.clone());
            row.push(facts.cpus.len().to_string());
            row.push(format!("{:.1} GiB", gib(facts.memory_bytes)));
            words.push(match &hello.lease {
                Some(lease) => format!("held by {} since {}", lease.holder, utc(lease.since_unix_ms)),
                None => "free".to_owned(),
            });
        }
        Err(why) => {
            row.extend(["-", "-", "-"].map(str::to_owned));
            words.push(format!("unreachable: {why}"));
        }
    }
    words.extend(abilities(host));
    if let Some(bad) = bad {
        words.push(format!("quarantined since {}: {}", utc(bad.since_unix_ms), bad.why));
    }
    row.push(words.join("; "));
    row
}

fn reached_by(reach: &Reach) -> String {
    match reach {
        Reach::Local => "local".to_owned(),
        Reach::Ssh(ssh) => format!("ssh {}", ssh.host),
        Reach::Tls(tls) => format!("tls {}", tls.address),
        Reach::Vm(vm) => format!("vm {}", vm.kernel),
    }
}

/// For people: a tenth of a GiB is exact enough.
fn gib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes >> 20).unwrap_or(u32::MAX)) / 1024.0
}

/// The hosts that are not to be used; none where there is no store yet.
pub fn quarantined(context: &Context) -> Result<Vec<Quarantine>, Failure> {
    let dir = match ResultsDir::open(&context.global.results) {
        Ok(dir) if dir.db_path().exists() => dir,
        _ => return Ok(Vec::new()),
    };
    let store = SqliteStore::open_read_only(&dir).map_err(|error| Failure::infrastructure(&error))?;
    store.quarantined().map_err(|error| Failure::infrastructure(&error))
}

fn release(names: &[Name], context: &Context) -> Result<ExitStatus, Failure> {
    let known = quarantined(context)?;
    if let Some(name) = names.iter().find(|name| !known.iter().any(|bad| bad.host == **name)) {
        let text = format!("host {name} is not quarantined; `drover hosts` lists those that are");
        return Err(Failure::new(ExitStatus::Usage, text));
    }
    let dir = ResultsDir::open(&context.global.results).map_err(|error| Failure::infrastructure(&error))?;
    let mut store = SqliteStore::open(&dir).map_err(|error| Failure::infrastructure(&error))?;
    let changes: Vec<_> = names.iter().map(Change::Release).collect();
    store.apply(&changes).map_err(|error| Failure::infrastructure(&error))?;
    let names: Vec<&str> = names.iter().map(Name::as_str).collect();
    context.screen.say(&format!("released: {}", names.join(", ")));
    Ok(ExitStatus::Ok)
}
