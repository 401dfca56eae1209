//! What all HTTP load generators measure, under the same names and with the same checks, whatever each calls it.
//!
//! A request ends well (a status below 400, or as well as the tool can tell) or not; `completed` is the sum of both.
//! Rates are over the elapsed time, which is recovered from the tool's rate when that carries more digits. `bytes_per_s` is what the tool counts as received: with
//! headers (ab, httperf, wrk, h2load, fortio), or bodies only (oha, hey, vegeta).

use drover_model::DoubtKind;

use crate::{
    number::{Figure, approx, plain},
    sheet::{Sheet, show},
};

/// Share by which a mean may exceed what Little's law allows before it is called a contradiction.
const LITTLE_SLACK: f64 = 1.05;

/// What a tool counts. A rate of requests is that of all that ended, as the tools compute it; a rate of connections is
/// that of those that came about, since a refused connection is none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Counted {
    #[default]
    Requests,
    Connections,
}

/// What rates are computed with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// Seconds.
    Elapsed(f64),
    /// Events per second, of so many (not zero).
    Rate { rate: f64, events: u64 },
}

impl Pace {
    /// The rate of `count` events over the same time.
    pub fn per_second(self, count: u64) -> f64 {
        self.amount_per_second(approx(count))
    }

    /// The same of an amount that is not a count.
    pub fn amount_per_second(self, amount: f64) -> f64 {
        match self {
            Self::Elapsed(seconds) => amount / seconds,
            Self::Rate { rate, events } => rate * (amount / approx(events)),
        }
    }
}

/// The figures of one run of an HTTP load generator.
#[derive(Default)]
pub(crate) struct HttpRun {
    /// What is counted.
    pub counted: Counted,
    /// Requests that were answered as asked.
    pub succeeded: u64,
    /// Requests that were answered otherwise, or not at all.
    pub failed: u64,
    /// Time of the whole run in seconds.
    pub elapsed: Figure,
    /// The tool's own rate per second, and how many events it counts.
    pub rate: Option<(Figure, u64)>,
    /// Name of a latency sample and its value in seconds.
    pub latency: Vec<(&'static str, Figure)>,
    /// Bytes received per second.
    pub bytes_per_s: Option<f64>,
    /// Connections or workers that were busy at the same time, at most.
    pub concurrency: Option<u64>,
    /// Whether each of them works on one request at a time, so that Little's law binds the mean latency.
    pub one_at_a_time: bool,
    /// A latency of zero is one that was rounded, as good as any other figure of this tool; else none was recorded.
    pub rounds_to_zero: bool,
    /// Kind of error (`refused`, ...) and how often.
    pub errors: Vec<(&'static str, u64)>,
}

impl HttpRun {
    /// Writes all samples, and the doubts that their checks raise. Returns what rates are to be computed with, if any
    /// time elapsed.
    pub fn write(self, sheet: &mut Sheet) -> Option<Pace> {
        let completed = self.succeeded.saturating_add(self.failed);
        let (unit, rate_name, rate_unit, rated) = match self.counted {
            Counted::Requests => ("requests", "req_per_s", "req/s", completed),
            Counted::Connections => ("connections", "conn_per_s", "conn/s", self.succeeded),
        };
        sheet.put("completed", unit, approx(completed));
        sheet.put("succeeded", unit, approx(self.succeeded));
        sheet.put("failed", unit, approx(self.failed));
        if self.elapsed.value > 0.0 {
            sheet.put("elapsed_s", "s", self.elapsed.value);
        }
        let pace = self.pace(sheet);
        if let Some(pace) = pace {
            sheet.put(rate_name, rate_unit, pace.per_second(rated));
            sheet.put("goodput_per_s", rate_unit, pace.per_second(self.succeeded));
        }
        // Latencies of nothing but failures describe no service.
        if self.succeeded > 0 {
            for (name, figure) in &self.latency {
                if figure.value > 0.0 || self.rounds_to_zero {
                    sheet.put(*name, "s", figure.value);
                }
            }
        }
        sheet.put_some("bytes_per_s", "bytes/s", self.bytes_per_s);
        sheet.put_some("concurrency", "1", self.concurrency.map(approx));
        for (kind, count) in &self.errors {
            sheet.put(format!("errors_{kind}"), "1", approx(*count));
        }
        self.doubt_own_limits(sheet);
        if completed == 0 {
            sheet.doubt(DoubtKind::Incomplete, format!("none of the {unit} was completed"));
        }
        if let (true, Some(pace), Some(limit)) = (self.one_at_a_time, pace, self.concurrency) {
            let mean = self.latency.iter().find(|(name, _)| *name == "latency_mean_s").map(|(_, mean)| *mean);
            let counted = self.rate.map_or(completed, |(_, counted)| counted);
            if let Some(mean) = mean {
                check_little(sheet, pace.per_second(counted), mean, approx(limit));
            }
        }
        pace
    }

    /// The elapsed time or the rate, whichever has more digits. Both must agree.
    fn pace(&self, sheet: &mut Sheet) -> Option<Pace> {
        let reported = (self.elapsed.value > 0.0).then_some(Pace::Elapsed(self.elapsed.value));
        let Some((rate, counted)) = self.rate.filter(|(rate, _)| rate.value > 0.0) else {
            return reported;
        };
        let (events, counted) = (counted, approx(counted));
        let product = rate.value * self.elapsed.value;
        let slack = rate.value * self.elapsed.half + self.elapsed.value * rate.half + 0.01 * counted + 1.0;
        if (product - counted).abs() > slack {
            sheet.check_equal("rate x elapsed time against requests", product, counted, slack);
            return reported;
        }
        let finer = events > 0 && rate.coarseness() < self.elapsed.coarseness();
        if finer { Some(Pace::Rate { rate: rate.value, events }) } else { reported }
    }

    /// Errors that are the client's own fault bound the number by the client, not by the server.
    fn doubt_own_limits(&self, sheet: &mut Sheet) {
        for (kind, count) in self.errors.iter().filter(|(_, count)| *count > 0) {
            let cause = match *kind {
                "fd_limit" => "the client ran out of file descriptors",
                "address_in_use" => "the client ran out of local ports",
                _ => continue,
            };
            sheet.doubt(DoubtKind::ClientSaturated, format!("{cause} {count} times"));
        }
    }
}

/// Little's law: requests in flight = rate x mean latency, and no more can be in flight than there are places.
pub(crate) fn check_little(sheet: &mut Sheet, rate: f64, mean: Figure, limit: f64) {
    let in_flight = rate * (mean.value - mean.half).max(0.0);
    if in_flight > limit * LITTLE_SLACK {
        let detail = format!(
            "rate x mean latency = {} x {} s = {} in flight, but concurrency is {}",
            show(rate),
            show(mean.value),
            show(rate * mean.value),
            show(limit)
        );
        sheet.doubt(DoubtKind::Inconsistent, detail);
    }
}

/// The sample of a percentile that all tools share; `None` for the others.
pub(crate) fn latency_name(percentile: &str) -> Option<&'static str> {
    Some(match percentile {
        "50" => "latency_p50_s",
        "90" => "latency_p90_s",
        "95" => "latency_p95_s",
        "99" => "latency_p99_s",
        "99.9" => "latency_p999_s",
        _ => return None,
    })
}

/// The same for a percentile that is printed with other decimals (`50.000000`, `99.90`).
pub(crate) fn latency_name_of(percentile: &str) -> Option<&'static str> {
    latency_name(&plain(percentile)?.value.to_string())
}

/// The kind of an error, from the words of the operating system or of Go's and Rust's libraries.
pub(crate) fn error_kind(message: &str) -> &'static str {
    let lower = message.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&["refused"]) {
        "refused"
    } else if has(&["reset", "broken pipe"]) {
        "reset"
    } else if has(&["address already in use", "cannot assign requested address", "address not available"]) {
        "address_in_use"
    } else if has(&["too many open files"]) {
        "fd_limit"
    } else if has(&["timeout", "timed out", "deadline exceeded"]) {
        "timeout"
    } else {
        "other"
    }
}

/// Adds `count` to the entry of `kind`.
pub(crate) fn add_error(errors: &mut Vec<(&'static str, u64)>, kind: &'static str, count: u64) {
    match errors.iter_mut().find(|(known, _)| *known == kind) {
        Some((_, sum)) => *sum = sum.saturating_add(count),
        None => errors.push((kind, count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> HttpRun {
        HttpRun {
            succeeded: 500,
            elapsed: Figure { value: 0.150, half: 0.0005 },
            rate: Some((Figure { value: 3330.18, half: 0.005 }, 500)),
            latency: vec![("latency_mean_s", Figure { value: 0.003, half: 0.0005 })],
            concurrency: Some(10),
            one_at_a_time: true,
            ..HttpRun::default()
        }
    }

    #[test]
    fn expect_the_finer_of_both_figures_when_rate_and_time_agree() {
        let mut sheet = Sheet::default();
        run().write(&mut sheet);
        let measurement = sheet.into_measurement();
        assert_eq!(measurement.value("req_per_s"), Some(3330.18));
        assert_eq!(measurement.doubts, []);
    }

    #[test]
    fn expect_a_doubt_with_figures_when_rate_and_time_disagree() {
        let mut sheet = Sheet::default();
        HttpRun { elapsed: Figure { value: 1.5, half: 0.0005 }, ..run() }.write(&mut sheet);
        let measurement = sheet.into_measurement();
        assert_eq!(measurement.doubts.first().unwrap().kind, DoubtKind::Inconsistent);
        assert!(measurement.doubts.first().unwrap().detail.contains("500"));
        assert_eq!(measurement.value("req_per_s"), Some(500.0 / 1.5));
    }

    #[test]
    fn expect_a_doubt_when_more_is_in_flight_than_there_are_connections() {
        let mut sheet = Sheet::default();
        HttpRun { concurrency: Some(5), ..run() }.write(&mut sheet);
        assert_eq!(sheet.into_measurement().doubts.first().unwrap().kind, DoubtKind::Inconsistent);
    }

    #[test]
    fn expect_zero_goodput_and_no_latency_when_everything_failed() {
        let mut sheet = Sheet::default();
        HttpRun { succeeded: 0, failed: 500, ..run() }.write(&mut sheet);
        let measurement = sheet.into_measurement();
        assert_eq!(measurement.value("goodput_per_s"), Some(0.0));
        assert_eq!(measurement.value("latency_mean_s"), None);
    }

    #[test]
    fn expect_the_client_blamed_when_it_ran_out_of_descriptors_or_ports() {
        for kind in ["fd_limit", "address_in_use"] {
            let mut sheet = Sheet::default();
            HttpRun { errors: vec![(kind, 3)], ..run() }.write(&mut sheet);
            assert_eq!(sheet.into_measurement().doubts.first().unwrap().kind, DoubtKind::ClientSaturated);
        }
        assert_eq!(error_kind("Connection refused (os error 111)"), "refused");
        assert_eq!(error_kind("context deadline exceeded (Client.Timeout exceeded)"), "timeout");
    }
}
