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
