//! Every matrix of the project: readable, valid by the schema, and read alike by an independent YAML reader.

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    use drover_matrix::{
        Options, RenderContext, Renderer, Source, hosts_schema, parse, parse_hosts, plan, schema,
    };

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../matrices")
    }

    fn matrices() -> Vec<PathBuf> {
        let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
        files.sort();
        assert!(files.len() >= 4, "{files:?}");
        files
    }

    fn source(path: &Path) -> Source {
        Source::new(path.file_name().unwrap().to_string_lossy(), fs::read(path).unwrap())
    }

    #[test]
    fn expect_every_matrix_to_parse_plan_and_render() {
        for path in matrices() {
            let source = source(&path);
            let matrix = parse(&source, &Options::default()).unwrap_or_else(|found| panic!("{found}"));
            let contents: Vec<Vec<u8>> = matrix
                .file_references()
                .iter()
                .map(|file| fs::read(folder().join(&file.path)).unwrap())
                .collect();
            let matrix = matrix.with_files(&contents).unwrap_or_else(|found| panic!("{found}"));
            assert_eq!(u64::try_from(matrix.cells().count()).unwrap(), matrix.count());
            assert_eq!(plan(&matrix, 1).trials(), plan(&matrix, 1).iter().fold(0, |count, _| count + 1));
            let renderer = Renderer::new(&matrix).unwrap();
            let endpoints: Vec<_> = matrix
                .roles()
                .iter()
                .map(|role| {
                    let endpoint = drover_matrix::Endpoint {
                        host: "web1".parse().unwrap(),
                        address: "127.0.0.1".parse().unwrap(),
                        ports: role.ports.iter().zip(5000..).map(|(_, number)| number).collect(),
                    };
                    vec![endpoint; usize::try_from(role.tasks()).unwrap()]
                })
                .collect();
            let run = "00000000-0000-0000-0000-000000000001".parse().unwrap();
            for planned in matrix.cells() {
                for (place, role) in matrix.roles().iter().enumerate() {
                    for instance in 0..role.tasks() {
                        let context = RenderContext {
                            run,
                            repetition: 1,
                            dir: "/tmp/x",
                            instance,
                            endpoints: &endpoints,
                        };
                        renderer.render(place, &planned.cell, &context).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn expect_the_committed_schema_to_be_the_generated_one() {
        let path = folder().join("schema.json");
        if std::env::var_os("DROVER_UPDATE_SCHEMA").is_some() {
            fs::write(&path, schema()).unwrap();
        }
        let committed = fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == schema(),
            "matrices/schema.json is not what the code says: run this test with DROVER_UPDATE_SCHEMA=1",
        );
    }

    #[test]
    fn expect_the_committed_schema_of_hosts_to_be_the_generated_one() {
        let path = folder().join("hosts.schema.json");
        if std::env::var_os("DROVER_UPDATE_SCHEMA").is_some() {
            fs::write(&path, hosts_schema()).unwrap();
        }
        let committed = fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == hosts_schema(),
            "matrices/hosts.schema.json is not what the code says: run this test with DROVER_UPDATE_SCHEMA=1",
        );
    }

    /// The example of a documentation page: its first block of YAML.
    fn example(page: &str) -> String {
        let page = fs::read_to_string(folder().join("../docs").join(page)).unwrap();
        let (_, rest) = page.split_once("```yaml\n").unwrap();
        rest.split_once("```").unwrap().0.to_owned()
    }

    #[test]
    fn expect_the_documented_host_files_to_be_good_and_valid_by_the_schema() {
        let of_vms = fs::read_to_string(folder().join("hosts/vms.yaml")).unwrap();
        let schema: serde_json::Value = serde_json::from_str(&hosts_schema()).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        for (text, least) in [(example("hosts.md"), 4), (example("kernels.md"), 1), (of_vms, 1)] {
            let file = parse_hosts(&Source::new("hosts.yaml", text.as_str()));
            let file = file.unwrap_or_else(|found| panic!("{found}"));
            assert!(file.hosts.len() >= least, "{file:?}");
            let value: serde_json::Value = serde_yaml::from_str(&text).unwrap();
            let errors: Vec<String> =
                validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
            assert!(errors.is_empty(), "{errors:#?}");
        }
    }

    #[test]
    fn expect_the_schema_of_hosts_to_refuse_unknown_keys_and_wrong_types() {
        let schema: serde_json::Value = serde_json::from_str(&hosts_schema()).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let good = "{version: 1, defaults: {user: a}, hosts: {a: {ssh: b, labels: [x]}}}";
        let value = |text: &str| serde_yaml::from_str::<serde_json::Value>(text).unwrap();
        assert!(validator.is_valid(&value(good)));
        for (from, to) in [
            ("version: 1", "version: 2"),
            ("ssh:", "shh:"),
            ("ssh: b", "ssh: b, local: true"),
            ("ssh: b", "local: false"),
            ("ssh: b", "ssh: b, limits: {output: 10}"),
            ("user: a", "ssh: a"),
            ("[x]", "[1x]"),
        ] {
            assert!(!validator.is_valid(&value(&good.replace(from, to))), "{to}");
        }
    }

    #[test]
    fn expect_every_matrix_to_be_valid_by_the_schema() {
        let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        for path in matrices() {
            let value: serde_json::Value = serde_yaml::from_slice(&fs::read(&path).unwrap()).unwrap();
            let errors: Vec<String> =
                validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
            assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
        }
    }

    #[test]
    fn expect_the_schema_to_refuse_unknown_keys_and_wrong_types() {
        let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let good = "{version: 1, name: a, roles: {c: {run: [x]}}, metrics: {m: {unit: s, better: lower}}}";
        let value = |text: &str| serde_yaml::from_str::<serde_json::Value>(text).unwrap();
        assert!(validator.is_valid(&value(good)));
        for (from, to) in [
            ("version: 1", "version: 2"),
            ("run:", "rnu:"),
            ("{run: [x]}", "{run: [x], shell: y}"),
            ("{run: [x]}", "{run: [x], timeout: 10}"),
            ("lower", "smaller"),
            ("name: a", "name: a b"),
        ] {
            assert!(!validator.is_valid(&value(&good.replace(from, to))), "{to}");
        }
    }
}
