//! Every output in `testdata` against all that is read from it: one snapshot per file.

mod common;

use std::{error::Error, fmt::Write};

use common::CASES;

#[test]
fn expect_exactly_these_figures_when_an_output_is_read() {
    for case in CASES {
        let mut text = String::new();
        match case.parse() {
            Ok(measurement) => {
                for sample in &measurement.samples {
                    writeln!(text, "{} = {} {}", sample.name, sample.value, sample.unit).unwrap();
                }
                for (name, value) in &measurement.reported {
                    writeln!(text, "reported {name} = {value}").unwrap();
                }
                if let Some(histogram) = &measurement.histogram {
                    writeln!(text, "histogram of {} characters", histogram.len()).unwrap();
                }
                for doubt in &measurement.doubts {
                    writeln!(text, "doubt {}: {}", doubt.kind.as_str(), doubt.detail).unwrap();
                }
            }
            Err(error) => {
                writeln!(text, "error: {error}").unwrap();
                let mut source = error.source();
                while let Some(error) = source {
                    writeln!(text, "  because: {error}").unwrap();
                    source = error.source();
                }
            }
        }
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(case.name, text);
        });
    }
}
