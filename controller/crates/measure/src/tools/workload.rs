//! The built-in server and client: one JSON document, after log lines if any.

use drover_model::{DoubtKind, Measurement};
use serde::Deserialize;

use crate::{
    Input, ParseError,
    error::shorten,
    http::{Counted, HttpRun, check_little},
    json,
    number::{Figure, approx},
    sheet::Sheet,
    text::Text,
};

const ADVICE: &str = "the role must run `drover-agent workload client` or `server`";

#[derive(Deserialize)]
#[serde(tag = "drover_workload", rename_all = "lowercase")]
enum Document {
    Client(Box<Client>),
    Server(Server),
}

#[derive(Deserialize)]
struct Client {
    mode: Option<String>,
    connections: Option<u64>,
    completed: u64,
    succeeded: u64,
    failed: u64,
    errors: Errors,
    calls: Option<u64>,
    elapsed_s: f64,
    conn_per_s: Option<f64>,
    req_per_s: Option<f64>,
    latency_s: Option<Latency>,
    rate_asked: Option<f64>,
    concurrency: Option<u64>,
    threads: Option<u64>,
    ports_needed: Option<u64>,
    source_addresses: Option<u64>,
    cpu_share: Option<f64>,
    histogram: Option<String>,
}

#[derive(Deserialize)]
struct Errors {
    refused: u64,
    reset: u64,
    timeout: u64,
    address_in_use: u64,
    fd_limit: u64,
    other: u64,
}

#[derive(Deserialize)]
struct Latency {
    mean: Option<f64>,
    p50: Option<f64>,
    p90: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
    p999: Option<f64>,
    max: Option<f64>,
}

#[derive(Deserialize)]
struct Server {
    serialisation: Option<String>,
    servers: Option<u64>,
    accepted: u64,
    #[serde(default)]
    accepts_per_worker: Vec<u64>,
    voluntary_switches: Option<u64>,
    involuntary_switches: Option<u64>,
    wakeups_per_conn: Option<f64>,
    fairness: Option<f64>,
    workers_lost: u64,
    #[serde(default)]
    lost: Vec<Lost>,
    backlog: Option<u64>,
    lock_recovered: Option<u64>,
}

#[derive(Deserialize)]
struct Lost {
    worker: u64,
    status: String,
}

pub(super) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::everything(input, "workload", ADVICE);
    let mut sheet = Sheet::default();
    match json::read::<Document>(&text)? {
        Document::Client(client) => write_client(*client, &mut sheet),
        Document::Server(server) => write_server(&server, &mut sheet),
    }
    sheet.finish(text.parser)
}

fn write_client(client: Client, sheet: &mut Sheet) {
    let errors = [
        ("refused", client.errors.refused),
        ("reset", client.errors.reset),
        ("timeout", client.errors.timeout),
        ("address_in_use", client.errors.address_in_use),
        ("fd_limit", client.errors.fd_limit),
        ("other", client.errors.other),
    ];
    let sum = approx(client.succeeded) + approx(client.failed);
    sheet.check_equal("succeeded + failed against completed", sum, approx(client.completed), 0.0);
    let error_sum = errors.iter().map(|(_, count)| approx(*count)).sum();
    sheet.check_equal("sum of errors against failed", error_sum, approx(client.failed), 0.0);

    let mut latency = Vec::new();
    let mut mean = None;
    if let Some(found) = client.latency_s {
        mean = found.mean;
        for (name, value) in [
            ("latency_mean_s", found.mean),
            ("latency_p50_s", found.p50),
            ("latency_p90_s", found.p90),
            ("latency_p95_s", found.p95),
            ("latency_p99_s", found.p99),
            ("latency_p999_s", found.p999),
            ("latency_max_s", found.max),
        ] {
            latency.extend(value.map(|value| (name, Figure::exact(value))));
        }
    }
    let pace = HttpRun {
        // What it calls a request is a call on a connection.
        counted: Counted::Connections,
        succeeded: client.succeeded,
        failed: client.failed,
        elapsed: Figure::exact(client.elapsed_s),
        latency,
        concurrency: client.concurrency,
        errors: errors.to_vec(),
        ..HttpRun::default()
    }
    .write(sheet);
    if let Some(pace) = pace {
        let goodput = pace.per_second(client.succeeded);
        if let Some(claimed) = client.conn_per_s {
            sheet.report("conn_per_s", claimed);
            let slack = 0.01 * goodput + 1e-6;
            sheet.check_equal("conn_per_s against connections / elapsed time", claimed, goodput, slack);
        }
        // An open loop lets connections wait before they start, and counts that as latency.
        if let (None, Some(limit), Some(mean)) = (client.rate_asked, client.concurrency, mean) {
            check_little(sheet, goodput, Figure::exact(mean), approx(limit));
        }
    }
    // Null if none were asked for.
    sheet.put_some("req_per_s", "req/s", client.req_per_s);
    let calls = client.calls.filter(|_| client.req_per_s.is_some());
    sheet.put_some("calls", "1", calls.map(approx));
    for (name, count) in [
        ("connections", client.connections),
        ("threads", client.threads),
        ("ports_needed", client.ports_needed),
        ("source_addresses", client.source_addresses),
    ] {
        sheet.put_some(name, "1", count.map(approx));
    }
    sheet.put_some("rate_asked", "conn/s", client.rate_asked);
    for (name, value) in
        [("mode", client.mode), ("cpu_share", client.cpu_share.map(|share| share.to_string()))]
    {
        if let Some(value) = value {
            sheet.report(name, value);
        }
    }
    // Like the latencies themselves, it says nothing without a success.
    if let Some(encoded) = client.histogram.filter(|_| client.succeeded > 0) {
        sheet.histogram(encoded);
    }
    if let Some(planned) = client.connections.filter(|planned| client.completed < *planned) {
        let detail = format!("{} of {planned} connections were completed", client.completed);
        sheet.doubt(DoubtKind::Incomplete, detail);
    }
}

fn write_server(server: &Server, sheet: &mut Sheet) {
    sheet.put("accepted", "connections", approx(server.accepted));
    sheet.put_some("wakeups_per_conn", "1", server.wakeups_per_conn);
    sheet.put_some("fairness", "1", server.fairness);
    sheet.put("workers_lost", "1", approx(server.workers_lost));
    sheet.put_some("accepts_min", "connections", server.accepts_per_worker.iter().min().copied().map(approx));
    sheet.put_some("accepts_max", "connections", server.accepts_per_worker.iter().max().copied().map(approx));
    for (name, count) in [
        ("servers", server.servers),
        ("voluntary_switches", server.voluntary_switches),
        ("involuntary_switches", server.involuntary_switches),
        ("backlog", server.backlog),
        ("lock_recovered", server.lock_recovered),
    ] {
        sheet.put_some(name, "1", count.map(approx));
    }
    if let Some(serialisation) = &server.serialisation {
        sheet.report("serialisation", serialisation);
    }
    // Who was lost may not have told what it had accepted.
    if !server.accepts_per_worker.is_empty() && server.workers_lost == 0 {
        let sum = server.accepts_per_worker.iter().map(|count| approx(*count)).sum();
        sheet.check_equal("sum of accepts per worker against accepted", sum, approx(server.accepted), 0.0);
    }
    if let (Some(wakeups), Some(switches)) = (server.wakeups_per_conn, server.voluntary_switches)
        && server.accepted > 0
    {
        let computed = approx(switches) / approx(server.accepted);
        sheet.check_equal(
            "wakeups_per_conn against switches / accepted",
            wakeups,
            computed,
            0.01 * computed + 0.01,
        );
    }
    if server.workers_lost > 0 {
        let first = server.lost.first().map_or_else(String::new, |lost| {
            format!("; worker {}: {}", lost.worker, shorten(&lost.status, 100))
        });
        sheet.doubt(
            DoubtKind::WorkerLost,
            format!("workers lost while serving: {}{first}", server.workers_lost),
        );
    }
}
