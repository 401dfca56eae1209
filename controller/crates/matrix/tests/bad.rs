//! Golden tests: every faulty file in `matrices/bad` and `matrices/bad-hosts` and its diagnostics in plain text.

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use drover_matrix::{Options, Source, parse, parse_hosts};

    fn source(folder: &str, path: &Path) -> Source {
        let name = format!("{folder}/{}", path.file_name().unwrap().to_string_lossy());
        Source::new(name, fs::read(path).unwrap())
    }

    #[test]
    fn expect_place_text_and_remedy_when_a_file_is_faulty() {
        insta::glob!("../../../../matrices/bad", "*.yaml", |path| {
            insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
                let found = parse(&source("bad", path), &Options::default()).expect_err("a faulty file");
                insta::assert_snapshot!("bad", found.to_string());
            });
        });
    }

    #[test]
    fn expect_place_text_and_remedy_when_a_host_file_is_faulty() {
        insta::glob!("../../../../matrices/bad-hosts", "*.yaml", |path| {
            insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
                let found = parse_hosts(&source("bad-hosts", path)).expect_err("a faulty file");
                insta::assert_snapshot!("bad-hosts", found.to_string());
            });
        });
    }
}
