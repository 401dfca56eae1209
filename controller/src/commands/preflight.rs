//! What would spoil a measurement on a host, and what to do about it. Pure: facts, a survey and the needs of a matrix in,
//! findings out. Used by `drover doctor` for this machine and for those of a host file.

use std::{borrow::Cow, fmt::Write};

use drover_matrix::{Command, Matrix, Requirement, Role};
use drover_model::{HostFacts, Name, Survey};

/// Seconds that a closed connection's port stays in TIME_WAIT (a constant of Linux, `TCP_TIMEWAIT_LEN`).
const TIME_WAIT_S: u32 = 60;
/// Connections that the matrices open within that time.
const TIME_WAIT_ROOM: u32 = 262_144;
/// Accept queue that the matrices ask for.
const BACKLOG: u64 = 4096;
/// Open files that a thousand servers with a busy client need.
const OPEN_FILES: u64 = 8192;
/// Processes that a thousand servers with a busy client need.
const PROCESSES: u64 = 4096;
/// Clocks that cost a system call, or microseconds of waiting for a device, where the usual ones cost nanoseconds.
const SLOW_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];
/// Leftovers and ports that are named in a line.
const NAMED: usize = 5;

/// One thing looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    what: Cow<'static, str>,
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

/// What a matrix needs of a host.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    pub requires: Vec<Requirement>,
    /// Ports that it fixes, each once.
    pub ports: Vec<u16>,
    /// The longest queue of connections that a role asks for in so many words, and which role.
    pub backlog: Option<(u64, Name)>,
}

impl Needs {
    /// Those of roles that may run on a host.
    pub fn of(matrix: &Matrix, runs_there: impl Fn(&Role) -> bool) -> Self {
        let mut needs = Self { requires: matrix.requires().to_vec(), ..Self::default() };
        for role in matrix.roles().iter().filter(|role| runs_there(role)) {
            needs.ports.extend(role.ports.iter().filter_map(|port| port.fixed));
            let asked = backlogs(matrix, role).max().map(|backlog| (backlog, role.name.clone()));
            needs.backlog = needs.backlog.max(asked);
        }
        needs.ports.sort_unstable();
        needs.ports.dedup();
        needs
    }
}

/// Numbers that a role gives as `--backlog`, those of an axis included.
fn backlogs(matrix: &Matrix, role: &Role) -> impl Iterator<Item = u64> {
    let arguments = match &role.command {
        Command::Argv(arguments) => arguments.as_slice(),
        Command::Shell(_) => &[],
    };
    let given =
        arguments.windows(2).filter(|pair| pair.first().is_some_and(|name| name.as_str() == "--backlog"));
    given.filter_map(|pair| pair.last()).flat_map(|value| {
        let text = value.as_str().trim();
        let variable = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).map(str::trim);
        let axis = matrix.axes().iter().find(|axis| Some(axis.name.as_str()) == variable);
        let of_axis =
            axis.into_iter().flat_map(|axis| axis.values.iter().filter_map(|value| value.parse().ok()));
        of_axis.chain(text.parse().ok())
    })
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

/// What a host, as it is now, means for a run; every finding has a name of its own.
pub fn judge(facts: &HostFacts, survey: &Survey, needs: &Needs) -> Vec<Finding> {
    let mut findings = vec![cpus(facts), governor(facts)];
    if survey.turbo == Some(true) {
        findings.push(doubtful(
            "turbo",
            "the CPUs change their frequency with heat and load".to_owned(),
            "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > /sys/devices/system/cpu/cpufreq/boost",
        ));
    }
    findings.extend(clock_source(facts));
    findings.extend(load(facts, survey));
    if let Some(used) = survey.swap_used_bytes.filter(|used| *used > 0) {
        let text = format!("{} KiB are swapped out", used >> 10);
        findings.push(doubtful("swap", text, "swapoff -a, or free memory"));
    }
    findings.push(leftovers(survey));
    findings.extend(backlog(facts, needs));
    findings.extend(client_ports(facts));
    findings.extend(time_wait(facts));
    findings.extend(fixed_ports(survey, needs));
    findings.push(limit(
        "open files",
        facts.open_files_limit,
        OPEN_FILES,
        "raise the hard limit (ulimit -Hn, /etc/security/limits.conf)",
    ));
    findings.push(limit(
        "processes",
        survey.processes_limit,
        PROCESSES,
        "raise the hard limit (ulimit -Hu, /etc/security/limits.conf)",
    ));
    if facts.tainted != 0 {
        let text = format!(
            "the kernel is tainted ({}): it carries foreign modules or has had an oops",
            facts.tainted
        );
        findings.push(doubtful("kernel", text, "reboot, and look at dmesg if you load no foreign modules"));
    }
    findings
}

/// A limit of the agent's user; none is the best.
fn limit(what: &'static str, limit: Option<u64>, wanted: u64, remedy: &str) -> Finding {
    match limit {
        Some(limit) if limit < wanted => doubtful(what, format!("at most {limit}"), remedy),
        limit => {
            let limit = limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
            good(what, format!("limit {limit}"))
        }
    }
}

fn clock_source(facts: &HostFacts) -> Option<Finding> {
    let source = Some(&*facts.clocksource).filter(|source| !source.is_empty())?;
    Some(if SLOW_CLOCKS.contains(&source) {
        doubtful(
            "clock source",
            format!("`{source}` takes a microsecond or more to read, and tools read it for each request"),
            "see /sys/devices/system/clocksource/clocksource0/available_clocksource, and dmesg for why tsc was given up",
        )
    } else {
        good("clock source", source.to_owned())
    })
}

fn leftovers(survey: &Survey) -> Finding {
    let left = &survey.leftovers;
    if left.is_empty() {
        return good("leftovers", "no process of an earlier run".to_owned());
    }
    let named = left.iter().take(NAMED).map(|process| format!("{} ({})", process.pid, process.command));
    let pids: Vec<String> = left.iter().take(NAMED).map(|process| process.pid.to_string()).collect();
    let more = left.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let text =
        format!("processes of tasks whose agent is gone: {}{more}", named.collect::<Vec<_>>().join(", "));
    doubtful("leftovers", text, format!("kill {}; they use CPUs and ports", pids.join(" ")))
}

/// Ports that the matrix fixes.
fn fixed_ports(survey: &Survey, needs: &Needs) -> Option<Finding> {
    if needs.ports.is_empty() {
        return None;
    }
    if survey.taken_ports.is_empty() {
        let ports: Vec<String> = needs.ports.iter().take(NAMED).map(ToString::to_string).collect();
        return Some(good("ports", format!("those that the matrix fixes are free: {}", ports.join(", "))));
    }
    let taken = survey.taken_ports.iter().take(NAMED);
    let taken: Vec<String> = taken.map(|taken| format!("{} is {}", taken.port, taken.why)).collect();
    Some(bad("ports", taken.join(", "), "end what has them, or give the role other ports"))
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

fn load(facts: &HostFacts, survey: &Survey) -> Option<Finding> {
    let milli = survey.load_milli?;
    let load = f64::from(u32::try_from(milli).unwrap_or(u32::MAX)) / 1000.0;
    let cpus = u32::try_from(facts.cpus.len()).map_or(1.0, f64::from);
    let text = format!("load average {load} on {} CPUs", facts.cpus.len());
    Some(if load > 0.25 * cpus {
        doubtful("load", text, "something else is running: wait, or end it")
    } else {
        good("load", text)
    })
}

fn backlog(facts: &HostFacts, needs: &Needs) -> Option<Finding> {
    let somaxconn: u64 = sysctl(facts, "net.core.somaxconn")?.parse().ok()?;
    let (wanted, by) = match &needs.backlog {
        Some((asked, role)) => (*asked, format!("role {role} asks for {asked}")),
        None => (BACKLOG, format!("{BACKLOG} are usual")),
    };
    Some(if somaxconn < wanted {
        let text = format!(
            "net.core.somaxconn is {somaxconn}, and {by}: accept queues are cut to it, and overflow costs whole seconds"
        );
        doubtful("backlog", text, format!("sysctl -w net.core.somaxconn={wanted}"))
    } else {
        good("backlog", format!("net.core.somaxconn is {somaxconn}, {by}"))
    })
}

/// How many connections per second a client can open before its ports run out.
fn client_ports(facts: &HostFacts) -> Option<Finding> {
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
            "client ports",
            text,
            "sysctl -w net.ipv4.tcp_tw_reuse=1, or a wider net.ipv4.ip_local_port_range (the built-in client spreads \
             over 127.0.0.x by itself)",
        )
    } else {
        good("client ports", text)
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

fn sysctl<'a>(facts: &'a HostFacts, name: &str) -> Option<&'a str> {
    facts.sysctls.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

pub fn good(what: impl Into<Cow<'static, str>>, text: String) -> Finding {
    Finding { what: what.into(), state: State::Good, text, remedy: String::new() }
}

pub fn doubtful(what: impl Into<Cow<'static, str>>, text: String, remedy: impl Into<String>) -> Finding {
    Finding { what: what.into(), state: State::Doubtful, text, remedy: remedy.into() }
}

pub fn bad(what: impl Into<Cow<'static, str>>, text: String, remedy: impl Into<String>) -> Finding {
    Finding { what: what.into(), state: State::Bad, text, remedy: remedy.into() }
}

#[cfg(test)]
mod tests {
    use drover_model::{Leftover, TakenPort};

    use super::*;

    fn states(facts: &HostFacts, survey: &Survey, needs: &Needs) -> Vec<(String, State)> {
        let findings = judge(facts, survey, needs);
        let names: std::collections::BTreeSet<_> = findings.iter().map(|finding| &finding.what).collect();
        assert_eq!(names.len(), findings.len(), "each has its own name: {findings:?}");
        findings.into_iter().map(|finding| (finding.what.into_owned(), finding.state)).collect()
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
            clocksource: "hpet".into(),
            open_files_limit: Some(1024),
            sysctls: sysctls.map(|(name, value)| (name.into(), value.into())).into(),
            ..HostFacts::default()
        };
        let survey = Survey {
            load_milli: Some(3000),
            swap_used_bytes: Some(12 << 10),
            turbo: Some(true),
            processes_limit: Some(100),
            leftovers: vec![Leftover { pid: 4711, command: "httpd".into() }],
            taken_ports: vec![TakenPort { port: 80, why: "taken by process 9 (nginx)".into() }],
        };
        let needs = Needs { ports: vec![80], ..Needs::default() };
        let found = states(&facts, &survey, &needs);
        for what in [
            "governor",
            "turbo",
            "clock source",
            "load",
            "swap",
            "leftovers",
            "backlog",
            "client ports",
            "time-wait",
            "open files",
            "processes",
        ] {
            assert!(found.contains(&(what.to_owned(), State::Doubtful)), "{what}: {found:?}");
        }
        assert!(found.contains(&("ports".to_owned(), State::Bad)), "{found:?}");
        let ports = judge(&facts, &survey, &needs)
            .into_iter()
            .find(|finding| finding.what == "client ports")
            .unwrap();
        assert!(ports.text.contains("28232 ports / 60 s TIME_WAIT = 470 conn/s"), "{}", ports.text);
    }

    #[test]
    fn expect_nothing_doubtful_when_all_is_well() {
        let facts = HostFacts { governor: Some("performance".into()), ..HostFacts::default() };
        let found = states(&facts, &Survey::default(), &Needs::default());
        assert!(found.iter().all(|(_, state)| *state == State::Good), "{found:?}");
    }

    #[test]
    fn expect_the_longest_queue_asked_for_when_a_matrix_is_at_hand() {
        let text = "version: 1\nname: m\naxes: { backlog: [128, 8192], n: [1] }\nroles:\n  server:\n    \
                    run: [server, --backlog, '{{ backlog }}', '{{ n }}']\n    ports: { port: 8080 }\n    ready: { tcp: port }\n  \
                    client: { after: server, run: [client, --backlog, '9000'], ports: { a: 8081, b: 8080 } }\n";
        let source = drover_matrix::Source::new("m.yaml", text);
        let matrix = drover_matrix::parse(&source, &drover_matrix::Options::default()).unwrap();
        let of = |name: &str| Needs::of(&matrix, |role| role.name.as_str() == name);
        assert_eq!(of("server").backlog, Some((8192, "server".parse().unwrap())));
        assert_eq!((of("server").ports, of("client").ports), (vec![8080], vec![8080, 8081]));
        let facts = HostFacts {
            sysctls: vec![("net.core.somaxconn".to_owned(), "4096".to_owned())],
            ..HostFacts::default()
        };
        let backlog = |needs: &Needs| {
            states(&facts, &Survey::default(), needs).contains(&("backlog".into(), State::Good))
        };
        assert!(backlog(&Needs::default()) && !backlog(&of("server")));
    }
}
