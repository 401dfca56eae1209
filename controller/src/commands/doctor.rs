//! `drover doctor`: what on this machine would spoil a measurement, and what to do about it.

use std::{fmt::Write, fs, path::Path};

use drover_matrix::Options;
use drover_model::HostFacts;
use drover_store::ResultsDir;

use super::{hosts::check_hosts, load::load as load_matrix, requires};
use crate::{Context, args::DoctorArgs, driver::chain, error::Failure, exit::ExitStatus};

/// Seconds that a closed connection's port stays in TIME_WAIT (a constant of Linux, `TCP_TIMEWAIT_LEN`).
const TIME_WAIT_S: u32 = 60;
/// Connections that the matrices open within that time.
const TIME_WAIT_ROOM: u32 = 262_144;
/// Accept queue that the matrices ask for.
const BACKLOG: u64 = 4096;
/// Open files that a thousand servers with a busy client need.
const OPEN_FILES: u64 = 8192;
/// Free space below which results are in danger, in bytes.
const FREE_SPACE: u64 = 1 << 30;

/// One thing looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    what: &'static str,
    state: State,
    text: String,
    remedy: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Good,
    /// Numbers may be worse or noisier than they need be.
    Doubtful,
    /// A run would fail.
    Bad,
}

/// What doctor reads besides the facts.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// Open files that a process may have.
    pub open_files: Option<u64>,
    pub load: Option<f64>,
    pub swap_used_kib: Option<u64>,
    pub turbo: Option<bool>,
}

/// Prints what it finds. Fails if a run would fail.
pub fn doctor(args: &DoctorArgs, context: &Context) -> Result<ExitStatus, Failure> {
    let loaded = args.matrix.as_deref().map(|path| load_matrix(path, &Options::default(), &context.screen));
    let loaded = loaded.transpose()?;
    let (text, failed) = if args.hosts.is_some() {
        let requires = loaded.map(|loaded| loaded.matrix.requires().to_vec()).unwrap_or_default();
        check_hosts(args, requires, context)?
    } else {
        let facts = drover_machine::facts("", 0);
        let mut findings = judge(&facts, &Readings::take());
        findings.push(results_folder(&context.global.results));
        if let Some(loaded) = loaded {
            findings.push(match requires::check(&loaded.matrix) {
                Ok(()) => good("commands", "all that the matrix requires are installed".to_owned()),
                Err(failure) => bad("commands", failure.to_string(), "install the packages named".to_owned()),
            });
        }
        let mut text = String::new();
        let failed = show(&findings, &mut text);
        (text, failed)
    };
    let _ = context.screen.out(&drover_report::printable_lines(&text));
    Ok(if failed { ExitStatus::Infrastructure } else { ExitStatus::Ok })
}

/// Adds findings to a text, one a line and the remedy below it; says whether a run would fail.
pub fn show(findings: &[Finding], text: &mut String) -> bool {
    for finding in findings {
        let mark = match finding.state {
            State::Good => "ok  ",
            State::Doubtful => "warn",
            State::Bad => "FAIL",
        };
        // Writing into a `String` does not fail.
        let _ = writeln!(text, "{mark}  {:14} {}", finding.what, finding.text);
        if finding.state != State::Good && !finding.remedy.is_empty() {
            let _ = writeln!(text, "{:20} -> {}", "", finding.remedy);
        }
    }
    findings.iter().any(|finding| finding.state == State::Bad)
}

impl Readings {
    fn take() -> Self {
        let read = |path: &str| fs::read_to_string(path).ok();
        let swap = read("/proc/meminfo").and_then(|text| {
            let field = |name: &str| {
                let line = text.lines().find(|line| line.starts_with(name))?;
                line.split_whitespace().nth(1)?.parse::<u64>().ok()
            };
            field("SwapTotal:")?.checked_sub(field("SwapFree:")?)
        });
        let load = read("/proc/loadavg").and_then(|text| text.split_whitespace().next()?.parse().ok());
        let no_turbo = read("/sys/devices/system/cpu/intel_pstate/no_turbo").map(|text| text.trim() == "0");
        let boost = read("/sys/devices/system/cpu/cpufreq/boost").map(|text| text.trim() == "1");
        Self {
            open_files: rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum,
            load,
            swap_used_kib: swap,
            turbo: no_turbo.or(boost),
        }
    }
}

/// What the facts of a machine say.
pub fn judge(facts: &HostFacts, readings: &Readings) -> Vec<Finding> {
    let mut findings = vec![cpus(facts), governor(facts)];
    if readings.turbo == Some(true) {
        findings.push(doubtful(
            "turbo",
            "the CPUs change their frequency with heat and load".to_owned(),
            "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > /sys/devices/system/cpu/cpufreq/boost",
        ));
    }
    findings.extend(load(facts, readings));
    if let Some(used) = readings.swap_used_kib.filter(|used| *used > 0) {
        findings.push(doubtful("swap", format!("{used} KiB are swapped out"), "swapoff -a, or free memory"));
    }
    findings.extend(backlog(facts));
    findings.extend(ports(facts));
    findings.extend(time_wait(facts));
    findings.push(match readings.open_files {
        Some(limit) if limit < OPEN_FILES => doubtful(
            "open files",
            format!("at most {limit} per process"),
            "raise the hard limit (ulimit -Hn, /etc/security/limits.conf)",
        ),
        limit => {
            let limit = limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
            good("open files", format!("limit {limit}"))
        }
    });
    if facts.tainted != 0 {
        let text = format!(
            "the kernel is tainted ({}): it carries foreign modules or has had an oops",
            facts.tainted
        );
        findings.push(doubtful("kernel", text, "reboot, and look at dmesg if you load no foreign modules"));
    }
    findings
}

fn cpus(facts: &HostFacts) -> Finding {
    let count = facts.cpus.len();
    match &facts.hypervisor {
        Some(name) => doubtful(
            "cpus",
            format!("{count} online, under {name}: other guests may take their time"),
            "fine for comparing within one run; look at steal_s, and repeat more often",
        ),
        None => good("cpus", format!("{count} online of {}, {}", facts.cpus_present, facts.cpu_model)),
    }
}

fn governor(facts: &HostFacts) -> Finding {
    match facts.governor.as_deref() {
        Some("performance") => good("governor", "performance".to_owned()),
        Some(other) => doubtful(
            "governor",
            format!("`{other}` slows idle CPUs down"),
            "cpupower frequency-set -g performance (Debian package linux-cpupower)",
        ),
        None => good("governor", "not exposed here".to_owned()),
    }
}

fn load(facts: &HostFacts, readings: &Readings) -> Option<Finding> {
    let load = readings.load?;
    let cpus = u32::try_from(facts.cpus.len()).map_or(1.0, f64::from);
    let text = format!("load average {load} on {} CPUs", facts.cpus.len());
    Some(if load > 0.25 * cpus {
        doubtful("load", text, "something else is running: wait, or end it")
    } else {
        good("load", text)
    })
}

fn backlog(facts: &HostFacts) -> Option<Finding> {
    let somaxconn: u64 = sysctl(facts, "net.core.somaxconn")?.parse().ok()?;
    Some(if somaxconn < BACKLOG {
        doubtful(
            "backlog",
            format!(
                "net.core.somaxconn is {somaxconn}: accept queues are cut to it, and overflow costs whole seconds"
            ),
            "sysctl -w net.core.somaxconn=4096",
        )
    } else {
        good("backlog", format!("net.core.somaxconn is {somaxconn}"))
    })
}

/// How many connections per second a client can open before its ports run out.
fn ports(facts: &HostFacts) -> Option<Finding> {
    let range = sysctl(facts, "net.ipv4.ip_local_port_range")?;
    let mut bounds = range.split_whitespace().filter_map(|bound| bound.parse::<u32>().ok());
    let (first, last) = (bounds.next()?, bounds.next()?);
    let count = last.checked_sub(first)?.saturating_add(1);
    let reuse = sysctl(facts, "net.ipv4.tcp_tw_reuse").unwrap_or("0");
    let rate = count / TIME_WAIT_S;
    let text = format!(
        "{count} ports / {TIME_WAIT_S} s TIME_WAIT = {rate} conn/s for long from one address to one port (tcp_tw_reuse {reuse})"
    );
    Some(if reuse == "0" {
        doubtful(
            "ports",
            text,
            "sysctl -w net.ipv4.tcp_tw_reuse=1, or a wider net.ipv4.ip_local_port_range (the built-in client spreads \
             over 127.0.0.x by itself)",
        )
    } else {
        good("ports", text)
    })
}

/// Room for closed connections that wait; beyond it the kernel ends the wait early, and says so in `TCPTimeWaitOverflow`.
fn time_wait(facts: &HostFacts) -> Option<Finding> {
    let room: u32 = sysctl(facts, "net.ipv4.tcp_max_tw_buckets")?.parse().ok()?;
    let text = format!("room for {room} closed connections in TIME_WAIT (net.ipv4.tcp_max_tw_buckets)");
    Some(if room < TIME_WAIT_ROOM {
        doubtful("time-wait", text, "sysctl -w net.ipv4.tcp_max_tw_buckets=1048576")
    } else {
        good("time-wait", text)
    })
}

fn results_folder(path: &Path) -> Finding {
    let dir = match ResultsDir::create(path) {
        Ok(dir) => dir,
        Err(error) => return bad("results", chain(&error), ""),
    };
    match rustix::fs::statvfs(dir.path()) {
        Ok(stat) if stat.f_bavail.saturating_mul(stat.f_frsize) < FREE_SPACE => {
            let mib = stat.f_bavail.saturating_mul(stat.f_frsize) >> 20;
            let text = format!("{} has {mib} MiB free", dir.path().display());
            doubtful("results", text, "free some space, or name another folder with --results")
        }
        Ok(stat) => {
            let gib = stat.f_bavail.saturating_mul(stat.f_frsize) >> 30;
            good("results", format!("{} has {gib} GiB free", dir.path().display()))
        }
        Err(error) => bad("results", format!("{}: {error}", dir.path().display()), ""),
    }
}

fn sysctl<'a>(facts: &'a HostFacts, name: &str) -> Option<&'a str> {
    facts.sysctls.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

pub fn good(what: &'static str, text: String) -> Finding {
    Finding { what, state: State::Good, text, remedy: String::new() }
}

pub fn doubtful(what: &'static str, text: String, remedy: impl Into<String>) -> Finding {
    Finding { what, state: State::Doubtful, text, remedy: remedy.into() }
}

pub fn bad(what: &'static str, text: String, remedy: impl Into<String>) -> Finding {
    Finding { what, state: State::Bad, text, remedy: remedy.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(facts: &HostFacts, readings: &Readings) -> Vec<(&'static str, State)> {
        judge(facts, readings).into_iter().map(|finding| (finding.what, finding.state)).collect()
    }

    #[test]
    fn expect_remedies_when_the_machine_is_badly_set_up() {
        let sysctls = [
            ("net.core.somaxconn", "128"),
            ("net.ipv4.ip_local_port_range", "32768\t60999"),
            ("net.ipv4.tcp_tw_reuse", "0"),
            ("net.ipv4.tcp_max_tw_buckets", "8192"),
        ];
        let facts = HostFacts {
            governor: Some("powersave".into()),
            sysctls: sysctls.map(|(name, value)| (name.into(), value.into())).into(),
            ..HostFacts::default()
        };
        let readings =
            Readings { open_files: Some(1024), load: Some(3.0), swap_used_kib: Some(12), turbo: Some(true) };
        let found = states(&facts, &readings);
        for what in ["governor", "turbo", "load", "swap", "backlog", "ports", "time-wait", "open files"] {
            assert!(found.contains(&(what, State::Doubtful)), "{what}: {found:?}");
        }
        let ports = judge(&facts, &readings).into_iter().find(|finding| finding.what == "ports").unwrap();
        assert!(ports.text.contains("28232 ports / 60 s TIME_WAIT = 470 conn/s"), "{}", ports.text);
    }

    #[test]
    fn expect_nothing_doubtful_when_all_is_well() {
        let facts = HostFacts { governor: Some("performance".into()), ..HostFacts::default() };
        assert!(states(&facts, &Readings::default()).iter().all(|(_, state)| *state == State::Good));
    }
}
