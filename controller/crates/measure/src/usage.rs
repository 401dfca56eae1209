//! Samples and doubts that come from how a task ran, not from what it wrote. Called by the controller for every task
//! that ended.

use drover_model::{Counters, Doubt, DoubtKind, EndKind, Measurement, Sample, TaskEnd, Tool};

use crate::{
    number::approx,
    sheet::{Sheet, show},
};

/// CPU share, of the CPUs that a client can use, from which on the client is the limit.
const SATURATED: f64 = 0.95;

/// Retransmissions per connection from which on they belong to the verdict: each costs its connection 200 ms or more
/// (RFC 6298 and Linux' TCP_RTO_MIN; 1 s for a SYN), so one in a thousand moves the mean by as much as a whole
/// connection on loopback takes.
const RETRANSMITS_PER_CONNECTION: f64 = 0.001;

/// The implicit samples of a task: `wall_s`, `user_s`, `system_s`, `cpu_s` (user + system), `cpu_share` (cpu_s /
/// wall_s; 2 means two whole CPUs), `max_rss_bytes`, `voluntary_switches`, `involuntary_switches`; and, if the agent
/// recorded them over the life of the task, of the whole machine: `machine_switches`, `listen_overflows`,
/// `listen_drops`, `retransmits`, `time_wait_overflows`, `steal_s`. None for a task that never ran or whose end nobody
/// saw.
#[must_use]
pub fn usage_samples(end: &TaskEnd) -> Vec<Sample> {
    if !was_seen_to_end(end) {
        return Vec::new();
    }
    let mut sheet = Sheet::default();
    let wall = end.wall.as_secs_f64();
    let cpu = (end.usage.user + end.usage.system).as_secs_f64();
    sheet.put("wall_s", "s", wall);
    sheet.put("user_s", "s", end.usage.user.as_secs_f64());
    sheet.put("system_s", "s", end.usage.system.as_secs_f64());
    sheet.put("cpu_s", "s", cpu);
    sheet.put_some("cpu_share", "1", cpu_share(end));
    // No process runs without memory: a zero was never read.
    let rss = Some(end.usage.max_rss_bytes).filter(|bytes| *bytes > 0);
    sheet.put_some("max_rss_bytes", "bytes", rss.map(approx));
    sheet.put("voluntary_switches", "1", approx(end.usage.voluntary_switches));
    sheet.put("involuntary_switches", "1", approx(end.usage.involuntary_switches));
    if let Some(counters) = &end.counters {
        sheet.put("machine_switches", "1", approx(counters.context_switches));
        sheet.put("listen_overflows", "1", approx(counters.listen_overflows));
        sheet.put("listen_drops", "1", approx(counters.listen_drops));
        sheet.put("retransmits", "1", approx(counters.retransmits));
        sheet.put("time_wait_overflows", "1", approx(counters.time_wait_overflows));
        sheet.put("steal_s", "s", approx(counters.steal_us) / 1e6);
    }
    sheet.into_measurement().samples
}

/// Doubts from the counters of the machine and from processes left over. `measured` is what the task's output gave,
/// if it has a parser: retransmissions are judged against the number of its connections or requests, and left alone
/// when that is not known (a bulk transfer has some at all times).
#[must_use]
pub fn usage_doubts(end: &TaskEnd, measured: Option<&Measurement>) -> Vec<Doubt> {
    let mut sheet = Sheet::default();
    if let Some(counters) = &end.counters {
        doubt_counters(&mut sheet, counters, measured);
    }
    if end.leftovers > 0 {
        let detail = format!("{} processes were still alive at the end and were killed", end.leftovers);
        sheet.doubt(DoubtKind::Leftovers, detail);
    }
    sheet.into_measurement().doubts
}

fn doubt_counters(sheet: &mut Sheet, counters: &Counters, measured: Option<&Measurement>) {
    if counters.listen_overflows > 0 || counters.listen_drops > 0 {
        let detail = format!(
            "a listen queue was full: ListenOverflows {}, ListenDrops {}; each costs a client 1 s or more, raise the backlog",
            counters.listen_overflows, counters.listen_drops
        );
        sheet.doubt(DoubtKind::Network, detail);
    }
    let connections = measured.and_then(|m| m.value("accepted").or_else(|| m.value("completed")));
    let retransmits = approx(counters.retransmits);
    if let Some(connections) = connections
        && counters.retransmits > 0
        && retransmits > connections * RETRANSMITS_PER_CONNECTION
    {
        let detail =
            format!("{} segments sent again for {} requests", counters.retransmits, show(connections));
        sheet.doubt(DoubtKind::Network, detail);
    }
    if counters.time_wait_overflows > 0 {
        let detail = format!(
            "{} sockets left TIME_WAIT early for lack of room (net.ipv4.tcp_max_tw_buckets)",
            counters.time_wait_overflows
        );
        sheet.doubt(DoubtKind::Network, detail);
    }
}

/// Doubts that the number is the client's and not the server's. To be asked for an awaited, measured task that loads
/// a service of the same matrix.
///
/// A client is the limit when it used at least 95 % of the CPUs it can use: its threads where they are known (one for
/// ab and httperf; for others what their output says), but no more than `cpus`, the CPUs that it was allowed (0 if
/// that was never read). `tool` is `None` for outputs read by `json:`, `regex:` or `lines`. A client that was asked
/// for a rate and kept it is not the limit, however busy: httperf spins while it waits.
#[must_use]
pub fn client_doubts(tool: Option<Tool>, measured: &Measurement, end: &TaskEnd, cpus: u32) -> Vec<Doubt> {
    saturation(tool, measured, end, cpus).into_iter().collect()
}

fn saturation(tool: Option<Tool>, measured: &Measurement, end: &TaskEnd, cpus: u32) -> Option<Doubt> {
    let share = cpu_share(end).filter(|_| was_seen_to_end(end))?;
    let threads = threads_of(tool, measured)?;
    let allowed = if cpus == 0 { f64::INFINITY } else { f64::from(cpus) };
    let usable = threads.min(allowed);
    if !usable.is_finite() || share < SATURATED * usable || kept_its_rate(measured) {
        return None;
    }
    let used = (share * 100.0 / usable).round();
    let cpus = if usable > 1.0 { format!("{} CPUs", show(usable)) } else { "1 CPU".to_owned() };
    let detail = format!("the client used {used} % of the {cpus} that it can use: it may be the limit");
    Some(Doubt { kind: DoubtKind::ClientSaturated, detail })
}

/// Threads of a client, infinite if it takes what it gets; `None` for a tool that loads no server.
fn threads_of(tool: Option<Tool>, measured: &Measurement) -> Option<f64> {
    let known = measured.value("threads").map(|threads| threads.max(1.0));
    match tool {
        Some(Tool::Fio | Tool::StressNg) => None,
        // `sysbench cpu` is itself what is measured; with a database it is a client.
        Some(Tool::Sysbench) => measured.value("tx_per_s").and(known),
        Some(Tool::Ab | Tool::Httperf) => Some(1.0),
        Some(Tool::RedisBenchmark | Tool::Iperf3) => Some(known.unwrap_or(1.0)),
        Some(
            Tool::Workload
            | Tool::Wrk
            | Tool::Wrk2
            | Tool::H2load
            | Tool::Pgbench
            | Tool::Memtier
            | Tool::Oha
            | Tool::Hey
            | Tool::Vegeta
            | Tool::Fortio,
        )
        | None => Some(known.unwrap_or(f64::INFINITY)),
    }
}

/// Whether a rate was asked for and was reached to 2 %.
fn kept_its_rate(measured: &Measurement) -> bool {
    let asked = measured.value("rate_asked").filter(|rate| *rate > 0.0);
    let reached = measured.value("conn_per_s").or_else(|| measured.value("req_per_s"));
    matches!((asked, reached), (Some(asked), Some(reached)) if reached >= 0.98 * asked)
}

fn cpu_share(end: &TaskEnd) -> Option<f64> {
    let cpu = (end.usage.user + end.usage.system).as_secs_f64();
    (!end.wall.is_zero()).then(|| cpu / end.wall.as_secs_f64())
}

fn was_seen_to_end(end: &TaskEnd) -> bool {
    !matches!(end.kind, EndKind::NotStarted(..) | EndKind::AgentLost)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use drover_model::{NotStarted, OutputSummary, Usage};

    use super::*;

    fn end(user_ms: u64, system_ms: u64, wall_ms: u64) -> TaskEnd {
        TaskEnd {
            kind: EndKind::Exited(0),
            wall: Duration::from_millis(wall_ms),
            usage: Usage {
                user: Duration::from_millis(user_ms),
                system: Duration::from_millis(system_ms),
                max_rss_bytes: 4096,
                voluntary_switches: 7,
                involuntary_switches: 8,
            },
            stdout: OutputSummary::default(),
            stderr: OutputSummary::default(),
            cpus: "0-1".to_owned(),
            leftovers: 0,
            counters: None,
        }
    }

    fn measured(samples: &[(&str, f64)]) -> Measurement {
        let mut sheet = Sheet::default();
        samples.iter().for_each(|(name, value)| sheet.put(*name, "1", *value));
        sheet.into_measurement()
    }

    #[test]
    fn expect_all_implicit_samples_when_counters_were_recorded() {
        let mut end = end(250, 750, 2000);
        end.counters = Some(Counters {
            context_switches: 1,
            listen_overflows: 2,
            listen_drops: 3,
            retransmits: 4,
            time_wait_overflows: 5,
            steal_us: 60_000,
        });
        let samples: Vec<_> = usage_samples(&end).into_iter().map(|s| (s.name, s.value, s.unit)).collect();
        let expected = [
            ("wall_s", 2.0, "s"),
            ("user_s", 0.25, "s"),
            ("system_s", 0.75, "s"),
            ("cpu_s", 1.0, "s"),
            ("cpu_share", 0.5, "1"),
            ("max_rss_bytes", 4096.0, "bytes"),
            ("voluntary_switches", 7.0, "1"),
            ("involuntary_switches", 8.0, "1"),
            ("machine_switches", 1.0, "1"),
            ("listen_overflows", 2.0, "1"),
            ("listen_drops", 3.0, "1"),
            ("retransmits", 4.0, "1"),
            ("time_wait_overflows", 5.0, "1"),
            ("steal_s", 0.06, "s"),
        ];
        assert_eq!(samples, expected.map(|(name, value, unit)| (name.to_owned(), value, unit.to_owned())));
    }

    #[test]
    fn expect_no_samples_when_the_task_never_ran() {
        let mut end = end(0, 0, 0);
        assert!(usage_samples(&end).iter().all(|sample| sample.name != "cpu_share"));
        end.kind = EndKind::NotStarted(NotStarted::NotFound, String::new());
        assert_eq!(usage_samples(&end), []);
    }

    #[test]
    fn expect_a_saturated_client_when_its_one_thread_used_its_cpu() {
        let none = measured(&[]);
        assert_eq!(client_doubts(Some(Tool::Ab), &none, &end(400, 560, 1000), 2).len(), 1);
        assert_eq!(client_doubts(Some(Tool::Ab), &none, &end(400, 540, 1000), 2), []);
        let doubt = client_doubts(Some(Tool::Httperf), &none, &end(100, 890, 1000), 2).remove(0);
        assert_eq!(doubt.kind, DoubtKind::ClientSaturated);
        assert!(doubt.detail.contains("99 %"), "{}", doubt.detail);
    }

    #[test]
    fn expect_threads_and_cpus_to_bound_what_a_client_can_use() {
        let two = measured(&[("threads", 2.0)]);
        assert_eq!(client_doubts(Some(Tool::Wrk), &two, &end(900, 100, 1000), 4), []);
        assert_eq!(client_doubts(Some(Tool::Wrk), &two, &end(900, 1000, 1000), 4).len(), 1);
        assert_eq!(client_doubts(Some(Tool::Wrk), &two, &end(900, 100, 1000), 1).len(), 1);
        let none = measured(&[]);
        assert_eq!(client_doubts(Some(Tool::Oha), &none, &end(1900, 0, 1000), 2).len(), 1);
        assert_eq!(client_doubts(Some(Tool::Oha), &none, &end(1000, 0, 1000), 2), []);
        assert_eq!(client_doubts(Some(Tool::Oha), &none, &end(1000, 0, 1000), 0), []);
        assert_eq!(client_doubts(None, &none, &end(1000, 0, 1000), 1).len(), 1);
    }

    #[test]
    fn expect_no_saturation_when_the_tool_is_the_load_or_kept_its_rate() {
        let none = measured(&[("threads", 1.0)]);
        for tool in [Tool::StressNg, Tool::Fio, Tool::Sysbench] {
            assert_eq!(client_doubts(Some(tool), &none, &end(1000, 0, 1000), 1), []);
        }
        let kept = measured(&[("rate_asked", 200.0), ("conn_per_s", 201.3)]);
        assert_eq!(client_doubts(Some(Tool::Httperf), &kept, &end(1000, 0, 1000), 1), []);
        let missed = measured(&[("rate_asked", 200.0), ("conn_per_s", 150.0)]);
        assert_eq!(client_doubts(Some(Tool::Httperf), &missed, &end(1000, 0, 1000), 1).len(), 1);
    }

    #[test]
    fn expect_network_doubts_when_queues_overflowed_or_many_segments_were_sent_again() {
        let mut end = end(1, 1, 1000);
        let with = |counters: Counters, end: &mut TaskEnd, measured: Option<&Measurement>| {
            end.counters = Some(counters);
            usage_doubts(end, measured).len()
        };
        let thousand = measured(&[("completed", 1000.0)]);
        let quiet = Counters::default();
        assert_eq!(with(quiet, &mut end, Some(&thousand)), 0);
        assert_eq!(with(Counters { listen_overflows: 1, ..quiet }, &mut end, None), 1);
        assert_eq!(with(Counters { listen_drops: 1, ..quiet }, &mut end, None), 1);
        assert_eq!(with(Counters { time_wait_overflows: 1, ..quiet }, &mut end, None), 1);
        assert_eq!(with(Counters { retransmits: 1, ..quiet }, &mut end, Some(&thousand)), 0);
        assert_eq!(with(Counters { retransmits: 2, ..quiet }, &mut end, Some(&thousand)), 1);
        assert_eq!(with(Counters { retransmits: 2, ..quiet }, &mut end, None), 0);
        end.leftovers = 3;
        assert_eq!(with(quiet, &mut end, None), 1);
    }
}
