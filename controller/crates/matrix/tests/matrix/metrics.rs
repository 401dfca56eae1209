//! Metrics from samples, and what they must fulfil.

use super::common::matrix;
use drover_matrix::{Matrix, RoleSamples};
use drover_model::{Name, Sample};

fn samples(list: &[(&str, f64)]) -> Vec<Sample> {
    list.iter()
        .map(|(name, value)| Sample { name: (*name).into(), value: *value, unit: "1".into() })
        .collect()
}

/// The only instance of a role.
fn only<'a>(role: &'a Name, samples: &'a [Sample]) -> RoleSamples<'a> {
    RoleSamples { role, instance: 0, samples, histogram: None }
}

fn evaluate(
    matrix: &Matrix,
    server: &[(&str, f64)],
    client: &[(&str, f64)],
) -> Result<Vec<(String, f64)>, String> {
    let names: Vec<Name> = ["server", "client"].map(|name| name.parse().unwrap()).into();
    let found = [samples(server), samples(client)];
    let roles: Vec<RoleSamples<'_>> =
        names.iter().zip(&found).map(|(role, samples)| only(role, samples)).collect();
    let values = matrix.metrics().evaluate(&roles).map_err(|errors| errors.to_string())?;
    Ok(values.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
}

fn metric(text: &str) -> Matrix {
    matrix(&[(
        "  rate: { unit: conn/s, better: higher, primary: true }",
        &format!("  rate: {{ unit: conn/s, better: higher, primary: true, {text} }}"),
    )])
}

#[test]
fn expect_a_sample_by_its_name_from_whichever_role_has_it() {
    let found = evaluate(&matrix(&[]), &[("accepts", 5.0)], &[("rate", 9.5), ("failed", 0.0)]);
    assert_eq!(found.unwrap(), [("rate".into(), 9.5), ("failed".into(), 0.0)]);
}

#[test]
fn expect_the_names_of_what_was_found_when_a_sample_is_missing() {
    let found = evaluate(&matrix(&[]), &[("accepts", 5.0)], &[("rates", 9.5), ("wall_s", 1.0)]).unwrap_err();
    assert_eq!(
        found,
        "metric `rate`: no sample `rate` was found; found: server.accepts, client.rates; \
         metric `failed`: no sample `failed` was found; found: server.accepts, client.rates",
    );
    let nothing = evaluate(&matrix(&[]), &[], &[("wall_s", 1.0)]).unwrap_err();
    assert!(nothing.contains("found: nothing"), "{nothing}");
}

#[test]
fn expect_an_error_when_two_roles_have_the_sample() {
    let found = evaluate(&matrix(&[]), &[("rate", 1.0)], &[("rate", 2.0), ("failed", 0.0)]).unwrap_err();
    assert_eq!(
        found,
        "metric `rate`: sample `rate` was found in server and client; say which with `from: ROLE`"
    );
    let chosen = evaluate(&metric("from: client"), &[("rate", 1.0)], &[("rate", 2.0), ("failed", 0.0)]);
    assert_eq!(chosen.unwrap()[0].1, 2.0);
    let other = evaluate(&metric("from: server.speed"), &[("speed", 1.5)], &[("rate", 2.0), ("failed", 0.0)]);
    assert_eq!(other.unwrap()[0].1, 1.5);
}

#[test]
fn expect_expressions_over_samples_of_all_roles() {
    let computed = metric("value: (client.done - failed) / server.seconds");
    let found = evaluate(&computed, &[("seconds", 4.0)], &[("done", 10.0), ("failed", 2.0)]);
    assert_eq!(found.unwrap()[0].1, 2.0);
    let missing = evaluate(&computed, &[("second", 4.0)], &[("done", 10.0), ("failed", 2.0)]).unwrap_err();
    assert!(missing.starts_with("metric `rate`: no sample `server.seconds` was found"), "{missing}");
}

#[test]
fn expect_an_error_and_no_number_when_an_expression_divides_by_zero() {
    let computed = metric("value: client.done / server.seconds");
    let found = evaluate(&computed, &[("seconds", 0.0)], &[("done", 10.0), ("failed", 0.0)]).unwrap_err();
    assert!(found.starts_with("metric `rate`: `client.done / server.seconds`: "), "{found}");
}

#[test]
fn expect_the_failures_of_must_in_words() {
    let matrix = metric("must: value > 10 and value < 20");
    let failures = |rate: f64, failed: f64| {
        let values = [("rate".parse().unwrap(), rate), ("failed".parse().unwrap(), failed)];
        matrix.metrics().failures(&values).into_iter().map(|failure| failure.text).collect::<Vec<_>>()
    };
    assert_eq!(failures(15.0, 0.0), Vec::<String>::new());
    assert_eq!(failures(15.0, 3.0), ["failed = 3 connections, must be == 0"]);
    assert_eq!(failures(2.5, 0.0), ["rate = 2.5 conn/s, must be value > 10 and value < 20"]);
}

#[test]
fn expect_no_metrics_when_the_matrix_declares_none() {
    let metrics = "metrics:\n  rate: { unit: conn/s, better: higher, primary: true }\n  \
                   failed: { unit: connections, better: lower, must: \"== 0\" }\n";
    let none = matrix(&[(metrics, "")]);
    assert!(none.metrics().primary().is_none());
    assert_eq!(evaluate(&none, &[("a", 1.0)], &[]), Ok(Vec::new()));
}

#[test]
fn expect_a_single_metric_to_be_primary_by_itself() {
    let single = matrix(&[
        (", primary: true", ""),
        ("  failed: { unit: connections, better: lower, must: \"== 0\" }\n", ""),
    ]);
    assert_eq!(single.metrics().primary().unwrap().name.as_str(), "rate");
}

/// The good matrix with three clients, a metric `rate` of this text, and `failed` summed.
fn several(text: &str) -> Matrix {
    matrix(&[
        ("    after: server\n", "    after: server\n    hosts: 3\n"),
        ("  rate: { unit: conn/s, better: higher, primary: true }", &format!("  rate: {{ {text} }}")),
        ("better: lower, must", "better: lower, from: client, across: sum, must"),
        ("\"{{ mode }}\"]\n    measure: lines", "\"{{ mode }}\"]\n    measure: workload"),
    ])
}

/// The value of `rate` when the clients have these samples beside `failed`, and these histograms.
fn rate(matrix: &Matrix, clients: &[&[(&str, f64)]], histograms: &[Option<&str>]) -> Result<f64, String> {
    let (server, client): (Name, Name) = ("server".parse().unwrap(), "client".parse().unwrap());
    let accepts = samples(&[("accepts", 50.0)]);
    let found: Vec<Vec<Sample>> =
        clients.iter().map(|list| [samples(list), samples(&[("failed", 0.0)])].concat()).collect();
    let one = |(place, samples)| RoleSamples {
        role: &client,
        instance: u32::try_from(place).unwrap(),
        samples,
        histogram: histograms.get(place).copied().flatten(),
    };
    let mut roles = vec![only(&server, &accepts)];
    // The order of the instances says nothing.
    roles.extend(found.iter().map(Vec::as_slice).enumerate().map(one).rev());
    let values = matrix.metrics().evaluate(&roles).map_err(|errors| errors.to_string())?;
    Ok(values[0].1)
}

#[test]
fn expect_the_samples_of_all_instances_as_one_the_way_that_is_asked_for() {
    let clients: &[&[(&str, f64)]] = &[&[("rate", 1.0)], &[("rate", 4.0)], &[("rate", 10.0)]];
    for (across, want) in [("sum", 15.0), ("max", 10.0), ("min", 1.0), ("mean", 5.0)] {
        let matrix =
            several(&format!("unit: conn/s, better: higher, primary: true, from: client, across: {across}"));
        assert_eq!(rate(&matrix, clients, &[]), Ok(want), "{across}");
        let bare = several(&format!("unit: conn/s, better: higher, primary: true, across: {across}"));
        assert_eq!(rate(&bare, clients, &[]), Ok(want), "{across}");
    }
}

#[test]
fn expect_every_sample_of_an_expression_as_one_first() {
    let matrix = several(
        "unit: s, better: lower, primary: true, value: client.busy / client.done + server.accepts, across: sum",
    );
    let clients: &[&[(&str, f64)]] =
        &[&[("busy", 1.0), ("done", 2.0)], &[("busy", 2.0), ("done", 2.0)], &[("busy", 3.0), ("done", 8.0)]];
    assert_eq!(rate(&matrix, clients, &[]), Ok(6.0 / 12.0 + 50.0));
}

#[test]
fn expect_no_number_when_an_instance_lacks_the_sample() {
    let matrix = several("unit: conn/s, better: higher, primary: true, from: client, across: sum");
    let found = rate(&matrix, &[&[("rate", 1.0)], &[("rates", 4.0)], &[("rate", 10.0)]], &[]).unwrap_err();
    assert_eq!(found, "metric `rate`: sample `rate` is missing in 1 of 3 instances: client.1");
    // A task that left nothing at all is missing like any other.
    let found = rate(&matrix, &[&[("rate", 1.0)]], &[]).unwrap_err();
    assert!(found.contains("sample `rate` is missing in 2 of 3 instances: client.1, client.2"), "{found}");
}

#[test]
fn expect_a_percentile_of_all_latencies_when_histograms_are_merged() {
    // The built-in client's own reports.
    let histogram = |file: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../measure/testdata").join(file);
        let document = std::fs::read_to_string(path).unwrap();
        let json = document.lines().find(|line| line.starts_with('{')).unwrap();
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        (json["histogram"].as_str().unwrap().to_owned(), json["latency_s"]["max"].as_f64().unwrap())
    };
    let [(rated, c), (calls, a), (limit, b)] =
        ["workload_client_rate.json", "workload_client_calls.json", "workload_client_fd_limit.json"]
            .map(histogram);
    let matrix = several("unit: s, better: lower, primary: true, from: client.latency_max_s, across: merged");
    let clients: &[&[(&str, f64)]] =
        &[&[("latency_max_s", c)], &[("latency_max_s", a)], &[("latency_max_s", b)]];
    let all = [Some(rated.as_str()), Some(calls.as_str()), Some(limit.as_str())];
    assert_eq!(rate(&matrix, clients, &all), Ok(a.max(b).max(c)));
    let found = rate(&matrix, clients, &[Some(&rated), None, Some(&calls)]).unwrap_err();
    assert_eq!(
        found,
        "metric `rate`: the latencies of `client` 1 cannot be merged: its output has no histogram; use `across: max`"
    );
    let found = rate(&matrix, clients, &[Some(&rated), Some(&limit), Some("nonsense")]).unwrap_err();
    assert!(found.contains("of `client` 2 cannot be merged: its histogram is"), "{found}");
}

#[test]
fn expect_across_to_be_harmless_when_there_is_one_instance() {
    let one = metric("from: client.latency_p99_s, across: merged");
    let found = evaluate(&one, &[], &[("latency_p99_s", 0.25), ("failed", 0.0)]);
    assert_eq!(found.unwrap()[0].1, 0.25);
}
