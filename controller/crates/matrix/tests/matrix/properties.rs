//! Properties: whatever the bytes, no panic; whatever the matrix, count, plan and text are exact.

use std::collections::BTreeSet;

use super::common::{GOOD, matrix, read};
use drover_matrix::{Options, Source, parse, plan};
use drover_model::TrialId;
use proptest::{collection::vec, prelude::*, sample::Index};

/// Words that matter to YAML, templates and this grammar, to be thrown together.
fn fragment() -> impl Strategy<Value = String> {
    let words = [
        "axes:", "roles:", "run:", "- ", "[", "]", "{", "}", "{{", "}}", "{%", "%}", "\n", "\n  ", "\t",
        ": ", ",", "\"", "'", "|", ">", "&a", "*a", "<<", "!!", "#", "---", "..", "1..8", "*2", "+", "when:",
        "servers", "==", "\\", "\u{feff}", "\0", "ü", "must:", "value", "\r\n", "?", "~", "%", "@",
    ];
    proptest::sample::select(words.to_vec()).prop_map(str::to_owned)
}

/// Every diagnostic can be printed, and says something.
fn check(bytes: &[u8]) {
    if let Err(found) = parse(&Source::new("x", bytes), &Options::default()) {
        assert!(found.count() > 0);
        for one in found.iter() {
            assert!(!one.message().is_empty() && !one.remedy().is_empty());
        }
        assert!(found.to_string().lines().count() >= 4);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..400)) {
        check(&bytes);
    }

    #[test]
    fn arbitrary_syntax_never_panics(parts in vec(fragment(), 0..60)) {
        check(parts.concat().as_bytes());
    }

    #[test]
    fn damaged_matrices_never_panic(damages in vec((any::<Index>(), 0_usize..20, fragment()), 1..6)) {
        let mut text = GOOD.to_owned();
        for (place, length, new) in damages {
            let boundary = |at: usize, text: &str| (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i));
            let start = boundary(place.index(text.len() + 1), &text).unwrap_or(0);
            let end = boundary(start + length, &text).unwrap_or(0).max(start);
            text.replace_range(start..end, &new);
        }
        check(text.as_bytes());
    }

    #[test]
    fn templates_never_panic(parts in vec(fragment(), 0..12)) {
        let text = serde_json::to_string(&parts.concat()).unwrap();
        check(GOOD.replace("\"{{ mode }}\"", &text).as_bytes());
        check(GOOD.replace("repeat: 3", &format!("exclude: [{{ when: {text} }}]")).as_bytes());
    }

    #[test]
    fn the_count_is_the_number_of_cells(lengths in vec(1_u32..6, 1..4), rules in vec((0_usize..4, 1_u32..6), 0..3)) {
        let axes: String = lengths.iter().enumerate().map(|(i, n)| format!("  a{i}: 1..{n}\n")).collect();
        let rules: String = rules
            .iter()
            .filter(|(axis, value)| lengths.get(*axis).is_some_and(|n| n >= value))
            .map(|(axis, value)| format!("  - when: a{axis} == {value}\n"))
            .collect();
        let exclude = if rules.is_empty() { String::new() } else { format!("exclude:\n{rules}") };
        let text = GOOD
            .replace("roles:", &format!("{exclude}roles:"))
            .replace("  mode: [wait, close]\n", &format!("  mode: [wait]\n{axes}"));
        // All cells may be excluded, which is an error.
        if let Ok(matrix) = read(&text, &Options::default()) {
            let cells: Vec<_> = matrix.cells().collect();
            prop_assert_eq!(u64::try_from(cells.len()).unwrap(), matrix.count());
            prop_assert_eq!(cells.len(), 6 * usize::try_from(lengths.iter().product::<u32>()).unwrap());
            let texts: BTreeSet<String> = cells.iter().map(|planned| planned.cell.to_string()).collect();
            let keys: BTreeSet<_> = cells.iter().map(|planned| planned.cell.key).collect();
            prop_assert_eq!(texts.len(), cells.len());
            prop_assert_eq!(keys.len(), cells.len());
            for (place, planned) in (0..).zip(&cells) {
                prop_assert_eq!(planned.cell.index, place);
                prop_assert_eq!(matrix.cell(place), Some(planned.clone()));
            }
        }
    }

    #[test]
    fn a_plan_is_a_permutation_of_the_trials(seed: u64, repeat in 1_u32..5, order in 0_usize..3, limit in 1_u32..40) {
        let order = ["interleaved", "declared", "shuffled"][order];
        let exclude = format!("exclude: [{{ when: servers > {limit} }}]\n");
        let exclude = if (3..30).contains(&limit) { exclude.as_str() } else { "" };
        let matrix = matrix(&[("repeat: 3", &format!("repeat: {repeat}\norder: {order}\n{exclude}"))]);
        let plan = plan(&matrix, seed);
        let trials: Vec<TrialId> = plan.iter().collect();
        let want: BTreeSet<TrialId> = matrix
            .cells()
            .filter(|planned| planned.excluded.is_none())
            .flat_map(|planned| (1..=repeat).map(move |repetition| TrialId { cell: planned.cell.index, repetition }))
            .collect();
        prop_assert_eq!(u64::try_from(trials.len()).unwrap(), plan.trials());
        prop_assert_eq!(trials.len(), want.len());
        prop_assert_eq!(trials.into_iter().collect::<BTreeSet<_>>(), want);
    }

    #[test]
    fn rendering_keeps_the_text_of_a_value(value in "[ -~äß☃]{1,20}") {
        prop_assume!(!value.contains(".."));
        let text = GOOD.replace("[wait, close]", &format!("[{}]", serde_json::to_string(&value).unwrap()));
        let matrix = read(&text, &Options::default()).unwrap_or_else(|found| panic!("{found}"));
        let cell = matrix.cell(0).unwrap().cell;
        prop_assert_eq!(cell.value("mode"), Some(value.as_str()));
        let renderer = drover_matrix::Renderer::new(&matrix).unwrap();
        let endpoint = drover_matrix::Endpoint { host: "a".parse().unwrap(), address: "127.0.0.1".parse().unwrap(), ports: vec![1, 2] };
        let endpoints = [vec![endpoint.clone()], vec![endpoint]];
        let run = "00000000-0000-0000-0000-00000000000a".parse().unwrap();
        let context = drover_matrix::RenderContext { run, repetition: 1, dir: "/tmp/a", instance: 0, endpoints: &endpoints };
        prop_assert_eq!(&renderer.render(1, &cell, &context).unwrap().argv[2], &value);
        // By way of minijinja too.
        let full = text.replace("{{ mode }}", "{% if true %}{{ mode }}{% endif %}");
        let matrix = read(&full, &Options::default()).unwrap_or_else(|found| panic!("{found}"));
        let renderer = drover_matrix::Renderer::new(&matrix).unwrap();
        prop_assert_eq!(&renderer.render(1, &cell, &context).unwrap().argv[2], &value);
    }
}
