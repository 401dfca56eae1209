//! The keys of every mapping with fixed keys: one list for decoding, "did you mean" and the test that the schema knows
//! the same ones.

pub(crate) const ROOT: &[&str] = &[
    "version",
    "name",
    "about",
    "requires",
    "axes",
    "zip",
    "include",
    "exclude",
    "placement",
    "roles",
    "metrics",
    "repeat",
    "order",
    "seed",
    "timeout",
    "retries",
    "after_ng",
    "limits",
    "table",
];
pub(crate) const REQUIREMENT: &[&str] = &["command", "package"];
pub(crate) const EXCLUDE: &[&str] = &["when", "because"];
pub(crate) const ROLE: &[&str] = &[
    "run", "shell", "after", "ports", "ready", "stop", "env", "files", "measure", "status", "timeout",
    "output",
];
pub(crate) const READY: &[&str] = &["tcp", "unix", "log", "http", "command", "processes", "within"];
pub(crate) const STOP: &[&str] = &["signal", "grace"];
pub(crate) const FILE: &[&str] = &["text", "from", "raw", "executable"];
pub(crate) const MEASURE: &[&str] = &["json", "regex"];
pub(crate) const METRIC: &[&str] = &["unit", "better", "primary", "from", "value", "must", "about"];
pub(crate) const LIMITS: &[&str] = &["cells"];
pub(crate) const TABLE: &[&str] = &["rows", "cols", "facet"];
