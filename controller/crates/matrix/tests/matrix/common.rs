//! A small good matrix, and edits of it.

use drover_matrix::{Diagnostics, Matrix, Options, Source, parse};

/// A matrix with everything that most tests need.
pub(crate) const GOOD: &str = r#"
version: 1
name: example
axes:
  cpus: [1, 2]
  servers: [3, 10, 30]
  mode: [wait, close]
roles:
  server:
    run: [srv, "{{ address }}:{{ port }}", "{{ servers }}"]
    ports: [port, admin]
    ready: { tcp: port, processes: "{{ servers + 1 }}" }
    measure: lines
  client:
    after: server
    run: [cli, "{{ server.address }}:{{ server.port }}", "{{ mode }}"]
    measure: lines
metrics:
  rate: { unit: conn/s, better: higher, primary: true }
  failed: { unit: connections, better: lower, must: "== 0" }
repeat: 3
"#;

/// The good matrix with texts replaced; each must be there.
pub(crate) fn edited(edits: &[(&str, &str)]) -> String {
    edits.iter().fold(GOOD.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    })
}

pub(crate) fn read(text: &str, options: &Options) -> Result<Matrix, Diagnostics> {
    parse(&Source::new("x.yaml", text), options)
}

pub(crate) fn matrix(edits: &[(&str, &str)]) -> Matrix {
    read(&edited(edits), &Options::default()).unwrap_or_else(|found| panic!("{found}"))
}

/// Cells as `cpus=1 servers=3 mode=wait`.
pub(crate) fn cells(matrix: &Matrix) -> Vec<String> {
    matrix.cells().map(|planned| planned.cell.to_string()).collect()
}
