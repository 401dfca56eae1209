//! Golden tests: every faulty file in `matrices/bad` and its diagnostics in plain text.

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use drover_matrix::{Options, Source, parse};

    fn diagnostics(path: &Path) -> String {
        let name = format!("bad/{}", path.file_name().unwrap().to_string_lossy());
        let source = Source::new(name, fs::read(path).unwrap());
        parse(&source, &Options::default()).expect_err("a faulty file").to_string()
    }

    #[test]
    fn expect_place_text_and_remedy_when_a_file_is_faulty() {
        insta::glob!("../../../../matrices/bad", "*.yaml", |path| {
            insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
                insta::assert_snapshot!("bad", diagnostics(path));
            });
        });
    }
}
