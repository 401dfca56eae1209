//! `drover doctor --hosts`: whether each host is reached, and what would spoil a run there.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

use drover_connect::{Connection, connect};
use drover_matrix::{HostEntry, HostLimits, Matrix, Requirement, Role};
use drover_model::{HostFacts, Name, Survey};
use drover_store::Quarantine;
use tokio::task::JoinSet;

use super::{
    abilities::check_abilities,
    list::{quarantined, take_leave},
    load_hosts, setups,
    trial::{Trial, TrialError},
};
use crate::{
    Context,
    args::{DoctorArgs, HostArgs},
    commands::preflight::{Finding, Needs, bad, doubtful, good, judge, show},
    driver::{HostSetup, chain},
    error::Failure,
    time::{brief, utc},
};

/// Difference of the wall clocks that is not worth a word: stamps in reports are for people.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);
/// Ports that are tried.
const PORTS: u32 = 16;

/// Checks every host of the file. Gives the text to print, and whether a run would fail.
pub fn check_hosts(
    args: &DoctorArgs,
    matrix: Option<&Matrix>,
    context: &Context,
) -> Result<(String, bool), Failure> {
    let host_args = HostArgs { hosts: args.hosts.clone(), accept_new: args.accept_new };
    let source = load_hosts(&host_args, &context.screen)?;
    let setups = setups(&source.hosts, (&host_args).into())?;
    let quarantined = quarantined(context)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::infrastructure(&error))?;
    let needs = |host: usize| {
        let runs_there = |role: &Role| source.hosts.matching(&role.on).contains(&host);
        matrix.map(|matrix| Needs::of(matrix, runs_there)).unwrap_or_default()
    };
    let names = source.hosts.hosts.iter().enumerate();
    let needs = names.map(|(place, host)| (host.name.clone(), needs(place))).collect();
    let mut found = runtime.block_on(check_all(setups, needs));
    let (mut text, mut failed) = (String::new(), false);
    for host in &source.hosts.hosts {
        let mut findings = found.remove(&host.name).unwrap_or_default();
        findings.extend(quarantine(host, &quarantined));
        text.push_str(&format!("host {}\n", host.name));
        failed |= show(&findings, &mut text);
    }
    Ok((text, failed))
}

fn quarantine(host: &HostEntry, quarantined: &[Quarantine]) -> Option<Finding> {
    let bad = quarantined.iter().find(|bad| bad.host == host.name)?;
    let text = format!("quarantined since {}: {}", utc(bad.since_unix_ms), bad.why);
    let remedy = format!("look at it, then: drover hosts release {}", host.name);
    Some(doubtful("quarantine", text, remedy))
}

async fn check_all(
    setups: BTreeMap<Name, HostSetup>,
    mut needs: BTreeMap<Name, Needs>,
) -> BTreeMap<Name, Vec<Finding>> {
    let mut checks = JoinSet::new();
    for (name, setup) in setups {
        let needs = needs.remove(&name).unwrap_or_default();
        checks.spawn(async move {
            let begun = Instant::now();
            let findings = match connect(&setup.target).await {
                Ok(connection) => check(connection, begun.elapsed(), &setup, needs).await,
                Err(error) => vec![bad("reach", chain(&error), String::new())],
            };
            (name, findings)
        });
    }
    let mut found = BTreeMap::new();
    while let Some(done) = checks.join_next().await {
        found.extend(done.ok());
    }
    found
}

async fn check(mut connection: Connection, took: Duration, setup: &HostSetup, needs: Needs) -> Vec<Finding> {
    let hello = connection.hello.clone();
    let facts = &hello.facts;
    let reached = format!("an agent {} answers after {}", hello.agent_version, brief(took));
    let mut findings = vec![good("reach", reached)];
    findings.push(clock(&mut connection).await);
    findings.extend(disk(facts, setup.limits));
    findings.extend(check_abilities(setup, facts));
    // No host has all ways to boot another kernel, and most need none.
    let features = facts.features.iter().filter(|feature| !feature.name.starts_with("boot-"));
    findings.extend(features.filter_map(|feature| {
        let why = feature.missing.as_ref()?;
        Some(doubtful(feature.name.clone(), format!("not available: {why}"), String::new()))
    }));
    match &hello.lease {
        Some(lease) => {
            let text = format!("held by {} since {}", lease.holder, utc(lease.since_unix_ms));
            findings.push(doubtful("lease", text, "wait for it: drover run --wait".to_owned()));
        }
        None => findings.extend(under_lease(&connection, &needs.requires).await),
    }
    match survey(&mut connection, &needs).await {
        Ok(survey) => findings.extend(judge(facts, &survey, &needs)),
        Err(why) => findings.push(bad("survey", why, String::new())),
    }
    take_leave(connection).await;
    findings
}

/// How far the host's wall clock is from this machine's. Starts at a barrier go by other clocks.
async fn clock(connection: &mut Connection) -> Finding {
    let sent = SystemTime::now();
    let begun = Instant::now();
    let reply = match connection.client.probe_clock(drover_proto::v1::ProbeClockRequest {}).await {
        Ok(reply) => reply.into_inner(),
        Err(status) => return bad("clock", format!("it does not tell: {}", status.message()), String::new()),
    };
    let round_trip = begun.elapsed();
    let theirs = Duration::from_nanos(reply.unix_ns);
    let ours = sent.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + round_trip / 2;
    let (difference, way) =
        if theirs > ours { (theirs - ours, "ahead of") } else { (ours - theirs, "behind") };
    let text = format!("{} {way} this machine's, round trip {}", brief(difference), brief(round_trip));
    if difference > CLOCK_TOLERANCE + round_trip {
        let remedy = "set it, and keep it by NTP (chrony, systemd-timesyncd)";
        return doubtful("clock", text, remedy.to_owned());
    }
    good("clock", text)
}

/// How the host is at the moment.
async fn survey(connection: &mut Connection, needs: &Needs) -> Result<Survey, String> {
    let request =
        drover_proto::v1::SurveyRequest { ports: needs.ports.iter().copied().map(u32::from).collect() };
    let reply = connection.client.survey(request).await;
    let reply = reply.map_err(|status| format!("it does not tell how it is: {}", status.message()))?;
    Survey::try_from(reply.into_inner()).map_err(|error| chain(&error))
}

fn disk(facts: &HostFacts, limits: HostLimits) -> Option<Finding> {
    let free = facts.state_free_bytes?;
    let text = format!("{} MiB free in the agent's folder", free >> 20);
    Some(if free < limits.free_disk {
        let remedy =
            format!("free some space ({} MiB are asked for), or name another `dir`", limits.free_disk >> 20);
        bad("disk", text, remedy)
    } else {
        good("disk", text)
    })
}

/// What can only be tried by holding the host for a moment.
async fn under_lease(connection: &Connection, requires: &[Requirement]) -> Vec<Finding> {
    let mut trial = match Trial::begin(connection).await {
        Ok(trial) => trial,
        Err(error) => return vec![bad("lease", error.to_string(), String::new())],
    };
    let mut findings = Vec::new();
    findings.push(match trial.reserve(PORTS).await {
        Ok(ports) => good("free ports", format!("{ports} can be reserved")),
        Err(error) => bad("free ports", error.to_string(), "end what uses them".to_owned()),
    });
    for requirement in requires {
        let what = format!("command {}", requirement.command);
        findings.push(match trial.has_command(&requirement.command).await {
            Ok(true) => good(what, "installed".to_owned()),
            Ok(false) => {
                let remedy = format!("on Debian: apt-get install {}", requirement.package());
                bad(what, "not installed".to_owned(), remedy)
            }
            Err(error @ TrialError::Agent(_)) => bad(what, error.to_string(), String::new()),
            Err(error) => doubtful(what, error.to_string(), String::new()),
        });
    }
    if let Err(error) = trial.end().await {
        findings.push(doubtful("giving back", error.to_string(), String::new()));
    }
    findings
}
