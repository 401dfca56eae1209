//! The JSON Schema of the matrix file, for completion and checking in editors. The types below exist for the schema
//! only: files are read by `decode`, and a test holds the two together.

use std::{borrow::Cow, collections::BTreeMap, marker::PhantomData};

use drover_model::{Direction, Tool};
use schemars::{
    JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema, transform::RecursiveTransform,
};

/// The schema as text, ending in a newline.
pub(crate) fn text() -> String {
    root::<MatrixFile>("Drover matrix")
}

/// The schema of a file, whose shape is this type.
pub(crate) fn root<T: JsonSchema>(title: &str) -> String {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(no_null));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    // Maps with texts as keys always serialise.
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

/// What is optional can be left out, but a key without a value is a mistake: takes back the `null` that an `Option` adds.
fn no_null(schema: &mut Schema) {
    let null = serde_json::json!("null");
    if let Some(serde_json::Value::Array(types)) = schema.get_mut("type")
        && let [one, other] = types.as_slice()
        && *other == null
    {
        let one = one.clone();
        schema.insert("type".to_owned(), one);
    }
    if let Some(serde_json::Value::Array(forms)) = schema.get_mut("anyOf") {
        forms.retain(|form| form.get("type") != Some(&null));
        if let [serde_json::Value::Object(only)] = forms.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            for (key, value) in only {
                schema.insert(key, value);
            }
        }
    }
}

/// Defines a type that is nothing but a piece of schema.
macro_rules! piece {
    ($(#[$meta:meta])* $name:ident, $schema:tt) => {
        $(#[$meta])*
        pub(crate) struct $name;

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}
pub(crate) use piece;

piece!(Text, {
    "type": ["string", "number", "boolean"],
    "description": "Text; kept as written, whatever YAML takes it for.",
});

piece!(Template, {
    "type": ["string", "number", "boolean"],
    "description": "Text with {{ variables }}: axes, repetition, cell, run, dir, address, ports by name, instance, host, and of \
                    other roles ROLE.address, ROLE.PORT, ROLE.host, ROLE.all, ROLE.count.",
});

piece!(AxisValue, {
    "type": ["string", "number", "boolean", "null"],
    "description": "A value, kept as written; or a range: 1..8, 0..100 +25, 2..1024 *2.",
});

piece!(Time, {
    "type": "string",
    "pattern": "^ *([0-9]+([.][0-9]{1,6})? *(us|ms|s|sec|m|min|h|hr|d|day) *)+$",
    "description": "A duration with its unit: 500ms, 10s, 2m, 1m30s.",
});

piece!(Size, {
    "type": "string",
    "pattern": "^ *([0-9]+([.][0-9]{1,6})? *(B|kB|KiB|MB|MiB|GB|GiB) *)+$",
    "description": "A size with its unit: 512KiB, 64MiB.",
});

piece!(FormatVersion, { "const": 1, "description": "Version of the format." });

piece!(MatrixName, {
    "type": "string",
    "pattern": "^[A-Za-z_][A-Za-z0-9_-]{0,63}$",
    "description": "A word that is safe as a file name.",
});

piece!(PortNumber, { "type": "integer", "minimum": 1, "maximum": 65535 });

piece!(ExitStatus, { "type": "integer", "minimum": 0, "maximum": 255 });

/// Names that can be used in expressions, as keys.
pub(crate) struct Named<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("NamesOf{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,63}$" },
            "additionalProperties": generator.subschema_for::<T>(),
        })
    }
}

/// One value, or a list of them.
pub(crate) struct OneOrMany<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "minItems": 1, "items": one }] })
    }
}

/// One form or the other.
pub(crate) struct Either<A, B>(PhantomData<(A, B)>);

impl<A: JsonSchema, B: JsonSchema> JsonSchema for Either<A, B> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}Or{}", A::schema_name(), B::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [generator.subschema_for::<A>(), generator.subschema_for::<B>()] })
    }
}

/// Kinds of doubt as keys.
struct Doubts;

impl JsonSchema for Doubts {
    fn schema_name() -> Cow<'static, str> {
        "Doubts".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": { "enum": crate::decode::doubt_words() },
            "additionalProperties": generator.subschema_for::<Weight>(),
        })
    }
}

/// Declares the structs of the schema; nothing constructs or reads them.
macro_rules! shape {
    ($($item:item)*) => {
        $(
            #[derive(schemars::JsonSchema)]
            #[serde(deny_unknown_fields)]
            #[expect(dead_code, reason = "only its schema is used")]
            $item
        )*
    };
}
pub(crate) use shape;

shape! {
    /// A Drover matrix: axes, roles, metrics and policy of an experiment.
    struct MatrixFile {
        version: FormatVersion,
        name: MatrixName,
        /// What the matrix is for.
        about: Option<Text>,
        /// Commands that must be installed; a missing one is an error that names the Debian package.
        requires: Option<OneOrMany<Either<Text, Requirement>>>,
        /// Factors and their levels. `kernel` and `cpus` are machine axes: the agent makes them true and verifies them.
        axes: Option<Named<OneOrMany<AxisValue>>>,
        /// Lists of axes that advance together instead of being combined.
        zip: Option<Vec<Vec<Text>>>,
        /// Extra cells; an axis with a single value can be left out.
        include: Option<Vec<BTreeMap<String, AxisValue>>>,
        /// Rules that take cells out.
        exclude: Option<Vec<ExcludeRule>>,
        /// Role -> whether it runs on the cell's CPUs (shared, the default) or on all others (disjoint). Needs the axis
        /// `cpus`.
        placement: Option<BTreeMap<String, Side>>,
        /// What is launched. A role with `ready` is a service; any other one runs to its end.
        roles: Named<Role>,
        /// What is measured; without it, only verdicts are shown.
        metrics: Option<BTreeMap<String, Metric>>,
        /// Repetitions of every cell (default 1).
        #[schemars(range(min = 1, max = 100_000))]
        repeat: Option<u32>,
        /// Order of the trials (default interleaved: blocks by reboot cost, then shuffled rounds).
        order: Option<Order>,
        /// Seed of the order; without it every run gets its own, which is stored.
        #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
        seed: Option<u64>,
        /// Time allowed for a task (default 2m).
        timeout: Option<Time>,
        /// Attempts after faults of our own infrastructure (default 3).
        #[schemars(range(min = 0, max = 100))]
        retries: Option<u32>,
        /// Attempts after an `ng` (default 0); a pass then is `suspect`.
        #[schemars(range(min = 0, max = 100))]
        after_ng: Option<u32>,
        /// Which hosts a cell is measured on (default any); with `each`, `host` is an axis.
        spread: Option<Spread>,
        /// Whether trials that are compared with one another may run on different hosts (default false).
        mix_hosts: Option<bool>,
        /// Largest difference between the starts of the clients of a trial (default 10ms).
        skew_limit: Option<Time>,
        /// Time between two samples of the sensors of each host (default 1s), or off. Trials of less than a second are not sampled.
        observe: Option<Either<Off, Time>>,
        /// How much doubts about the machine count: ignore, suspect (the default of each), ng.
        doubt: Option<Doubts>,
        soak: Option<Soak>,
        limits: Option<Limits>,
        table: Option<Table>,
    }

    /// A command that must be installed.
    struct Requirement {
        /// The command.
        command: Text,
        /// The Debian package that has it, if its name differs.
        package: Option<Text>,
    }

    /// Takes cells out of the matrix.
    struct ExcludeRule {
        /// Expression over axes: servers > 100 and mode == "fast".
        when: Text,
        /// Why; shown in reports.
        because: Option<Text>,
    }

    /// One long attempt per cell that gives points on the way.
    struct Soak {
        /// How long it lasts.
        r#for: Time,
        /// Distance of points that are kept, at least 1s. Rounds follow one another without a pause.
        every: Time,
        /// When it ends before its time (default end: a failed round is noted).
        until: Option<Until>,
        /// Time from the start of the load whose points say nothing of drift (default a tenth, 1m to 10m).
        warm_up: Option<Time>,
        /// Time without progress that is a hang (default 5m).
        stall: Option<Time>,
        /// Whether all cells share the time, one after the other (default false: each lasts as long).
        share: Option<bool>,
    }

    /// Bounds of the matrix itself.
    struct Limits {
        /// Most cells allowed (default 100000).
        #[schemars(range(min = 1, max = 4_000_000_000_u64))]
        cells: Option<u64>,
        /// Largest file for an attempt's folder (default 16MiB, at most 1GiB).
        file: Option<Size>,
    }

    /// Default layout of the table: axes down the side, across the top, and one table each.
    struct Table {
        rows: Option<OneOrMany<Text>>,
        cols: Option<OneOrMany<Text>>,
        facet: Option<OneOrMany<Text>>,
    }

    /// What is launched, and how. Exactly one of `run` and `shell`.
    #[schemars(extend("oneOf" = [{ "required": ["run"] }, { "required": ["shell"] }]))]
    struct Role {
        /// Arguments, each a template; or one text that is split into words by shell quoting, without a shell.
        run: Option<OneOrMany<Template>>,
        /// Text for `sh -c`.
        shell: Option<Template>,
        /// Roles that must be ready or ended before this one starts.
        after: Option<OneOrMany<Text>>,
        /// Ports that the agent reserves, by name; or names with fixed numbers.
        ports: Option<OneOrMany<Either<Text, Named<PortNumber>>>>,
        ready: Option<Ready>,
        stop: Option<Stop>,
        /// Environment variables.
        env: Option<BTreeMap<String, Template>>,
        /// Files written into the attempt's folder before the start.
        files: Option<BTreeMap<String, Either<Template, File>>>,
        /// Which parser reads the output.
        measure: Option<Measure>,
        /// Exit statuses that count as success (default 0).
        status: Option<Status>,
        /// Time allowed (default: the matrix's `timeout`).
        timeout: Option<Time>,
        /// Bytes kept of each output stream (default 64MiB).
        output: Option<Size>,
        /// Labels or names of hosts that it may run on (default: any host of the pool).
        on: Option<OneOrMany<MatrixName>>,
        /// Hosts that it runs on at the same time (default 1).
        #[schemars(range(min = 1, max = 10_000))]
        hosts: Option<u32>,
        /// Instances on each of these hosts (default 1).
        #[schemars(range(min = 1, max = 10_000))]
        instances: Option<u32>,
        /// The role whose hosts it runs on.
        same_host_as: Option<Text>,
        /// Roles none of whose hosts it runs on.
        other_host_than: Option<OneOrMany<Text>>,
        /// Files of the attempt's folder that are fetched at the end: relative paths with *, ? and **.
        artifacts: Option<OneOrMany<Text>>,
        /// Bytes fetched of them together (default 64MiB, at most 1GiB).
        artifact_limit: Option<Size>,
        /// How it puts load on the services of a soak (default rounds).
        load: Option<Load>,
    }

    /// Conditions of readiness; all that are given must hold.
    struct Ready {
        /// A port of this role by name, or address:port, that accepts a TCP connection.
        tcp: Option<Template>,
        /// A Unix socket that accepts a connection.
        unix: Option<Template>,
        /// Text of an output line.
        log: Option<Template>,
        /// An http:// URL that answers with 2xx or 3xx.
        http: Option<Template>,
        /// A command that exits with 0.
        command: Option<OneOrMany<Template>>,
        /// The exact number of processes.
        processes: Option<Template>,
        /// Time allowed (default 10s).
        within: Option<Time>,
    }

    /// How a role is asked to end.
    struct Stop {
        signal: Option<Signal>,
        /// Time until it is killed (default 5s).
        grace: Option<Time>,
    }

    /// A file of a role: `from` a file beside the matrix, or `text`.
    #[schemars(extend("oneOf" = [{ "required": ["from"] }, { "required": ["text"] }]))]
    struct File {
        /// Contents, a template.
        text: Option<Template>,
        /// Path relative to the matrix file.
        from: Option<Text>,
        /// Pass the file on byte by byte, without templates.
        raw: Option<bool>,
        executable: Option<bool>,
    }

    /// A parser of your own.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
    struct OwnParser {
        /// Sample name -> path into a JSON document.
        json: Option<BTreeMap<String, Text>>,
        /// Regular expression whose named groups are samples.
        regex: Option<Text>,
    }

    /// A quantity of interest.
    struct Metric {
        /// Unit, as printed.
        unit: Text,
        better: Direction,
        /// The one that a table shows by default; exactly one.
        primary: Option<bool>,
        /// Role, or role.sample, that it comes from.
        from: Option<Text>,
        /// Expression over samples: client.errors / client.completed.
        value: Option<Text>,
        /// What the value must fulfil: "== 0", or an expression over `value`.
        must: Option<Text>,
        /// How the samples of several instances of one role become one.
        across: Option<Across>,
        /// What it means.
        about: Option<Text>,
    }
}

/// Declares a choice of words.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($variant:ident),* $(,)? } $case:literal) => {
        $(#[$meta])*
        #[derive(JsonSchema)]
        #[serde(rename_all = $case)]
        #[expect(dead_code, reason = "only its schema is used")]
        enum $name { $($variant,)* }
    };
}

words!(Side { Shared, Disjoint } "lowercase");
words!(Order { Interleaved, Declared, Shuffled } "lowercase");
words!(Spread { Any, Each } "lowercase");
words!(Across { Sum, Max, Min, Mean, Merged } "lowercase");
words!(Load { Rounds, Stream } "lowercase");
words!(Until { End, FirstNg } "kebab-case");
words!(Lines { Lines } "lowercase");
words!(Any { Any } "lowercase");
words!(Off { Off } "lowercase");
words!(Weight { Ignore, Suspect, Ng } "lowercase");

piece!(Signal, {
    "type": "string",
    "pattern": "^(SIG)?(TERM|INT|QUIT|HUP|KILL|USR1|USR2|ALRM|WINCH|PIPE)$",
    "description": "A signal (default TERM).",
});

type Measure = Either<Either<Tool, Lines>, OwnParser>;
type Status = Either<Any, OneOrMany<ExitStatus>>;

/// The schema has exactly these keys there.
#[cfg(test)]
pub(crate) fn assert_keys(schema: &serde_json::Value, pointer: &str, known: &[&str]) {
    let properties = schema.pointer(pointer).and_then(serde_json::Value::as_object).unwrap();
    let mut properties: Vec<&str> = properties.keys().map(String::as_str).collect();
    properties.sort_unstable();
    let mut known = known.to_vec();
    known.sort_unstable();
    assert_eq!(properties, known, "{pointer}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    #[test]
    fn expect_the_schema_to_know_the_keys_that_are_decoded() {
        let schema: serde_json::Value = serde_json::from_str(&text()).unwrap();
        for (pointer, known) in [
            ("/properties", keys::ROOT),
            ("/$defs/Requirement/properties", keys::REQUIREMENT),
            ("/$defs/ExcludeRule/properties", keys::EXCLUDE),
            ("/$defs/Role/properties", keys::ROLE),
            ("/$defs/Ready/properties", keys::READY),
            ("/$defs/Stop/properties", keys::STOP),
            ("/$defs/File/properties", keys::FILE),
            ("/$defs/OwnParser/properties", keys::MEASURE),
            ("/$defs/Metric/properties", keys::METRIC),
            ("/$defs/Limits/properties", keys::LIMITS),
            ("/$defs/Soak/properties", keys::SOAK),
            ("/$defs/Table/properties", keys::TABLE),
        ] {
            assert_keys(&schema, pointer, known);
        }
    }
}
