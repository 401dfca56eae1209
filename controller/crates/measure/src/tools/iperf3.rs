//! iperf3, with `--json`. A client that could not connect writes an `error` and may exit with 0.
//!
//! `bytes_per_s` is what arrived (TCP: at the receiver; UDP: as the one summary says).

use drover_model::{DoubtKind, Measurement};
use serde::Deserialize;

use crate::{Input, ParseError, error::shorten, json, sheet::Sheet, text::Text};

const ADVICE: &str = "run iperf3 with --json";

#[derive(Deserialize)]
struct Document {
    end: End,
    error: Option<String>,
}

#[derive(Deserialize)]
struct End {
    sum: Option<Sum>,
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
    cpu_utilization_percent: Option<Cpu>,
}

#[derive(Deserialize)]
struct Sum {
    seconds: f64,
    bytes: f64,
    bits_per_second: f64,
    retransmits: Option<f64>,
    jitter_ms: Option<f64>,
    lost_packets: Option<f64>,
    packets: Option<f64>,
}

/// Percent of one CPU.
#[derive(Deserialize)]
struct Cpu {
    host_total: Option<f64>,
    remote_total: Option<f64>,
}

pub(super) fn parse(input: &Input<'_>) -> Result<Measurement, ParseError> {
    let text = Text::everything(input, "iperf3", ADVICE);
    let document: Document = json::read(&text)?;
    let end = document.end;
    let mut sheet = Sheet::default();

    let sent = end.sum_sent.as_ref().or(end.sum.as_ref());
    let Some(received) = end.sum_received.as_ref().or(end.sum.as_ref()) else {
        return Err(match document.error {
            Some(error) => ParseError::ToolFailed { parser: "iperf3", said: shorten(&error, 200) },
            None => text.missing("end.sum_received"),
        });
    };
    if let Some(error) = document.error {
        sheet.doubt(DoubtKind::Incomplete, format!("iperf3 said: {}", shorten(&error, 200)));
    }
    sheet.put("elapsed_s", "s", received.seconds);
    sheet.put("bytes", "bytes", received.bytes);
    sheet.put("bytes_per_s", "bytes/s", received.bits_per_second / 8.0);
    sheet.put("bits_per_s", "bit/s", received.bits_per_second);
    let product = received.bits_per_second / 8.0 * received.seconds;
    sheet.check_equal("rate x time against bytes", product, received.bytes, 0.01 * received.bytes + 1.0);
    if received.bytes <= 0.0 {
        sheet.doubt(DoubtKind::Incomplete, "not one byte arrived".to_owned());
    }
    if let Some(sent) = sent {
        sheet.put("sent_bytes_per_s", "bytes/s", sent.bits_per_second / 8.0);
        sheet.put_some("tcp_retransmits", "1", sent.retransmits);
    }
    sheet.put_some("jitter_s", "s", received.jitter_ms.map(|ms| ms / 1e3));
    sheet.put_some("packets", "1", received.packets);
    sheet.put_some("packets_lost", "1", received.lost_packets);
    if let Some(cpu) = end.cpu_utilization_percent {
        sheet.put_some("client_cpu_share", "1", cpu.host_total.map(|percent| percent / 100.0));
        sheet.put_some("server_cpu_share", "1", cpu.remote_total.map(|percent| percent / 100.0));
    }
    sheet.finish(text.parser)
}
