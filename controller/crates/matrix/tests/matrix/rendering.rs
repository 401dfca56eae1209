//! Roles as tasks.

use std::time::{Duration, Instant};

use super::common::{edited, matrix, read};
use drover_matrix::{Endpoint, Matrix, Options, RenderContext, RenderError, RenderedRole, Renderer};
use drover_model::{CpuPart, Placement, ReadyCheck};

fn endpoint(host: &str, address: &str, ports: &[u16]) -> Endpoint {
    Endpoint { host: host.parse().unwrap(), address: address.parse().unwrap(), ports: ports.into() }
}

fn endpoints() -> [Vec<Endpoint>; 2] {
    [vec![endpoint("web1", "127.0.0.1", &[5001, 5002])], vec![endpoint("load1", "127.0.0.2", &[])]]
}

fn render(matrix: &Matrix, role: usize, cell: u32) -> Result<RenderedRole, RenderError> {
    let context = RenderContext {
        run: "00000000-0000-0000-0000-00000000000a".parse().unwrap(),
        repetition: 2,
        dir: "/tmp/a",
        instance: 0,
        endpoints: &endpoints(),
    };
    Renderer::new(matrix).unwrap().render(role, &matrix.cell(cell).unwrap().cell, &context)
}

fn argument(template: &str) -> String {
    let matrix = matrix(&[("[cli, ", &format!("[cli, {template:?}, "))]);
    render(&matrix, 1, 0).unwrap().argv[1].clone()
}

#[test]
fn expect_everything_a_task_needs() {
    let matrix = matrix(&[
        (
            "ports: [port, admin]",
            "ports: [port, admin]\n    env: { DIR: \"{{ dir }}\" }\n    files: { c: \"{{ port }}\\n\" }",
        ),
        ("repeat: 3", "placement: { client: disjoint }\ntimeout: 9s"),
    ]);
    let server = render(&matrix, 0, 6).unwrap();
    assert_eq!(server.argv, ["srv", "127.0.0.1:5001", "3"]);
    assert_eq!(server.env, [("DIR".to_owned(), "/tmp/a".to_owned())]);
    assert_eq!((server.files[0].path.as_str(), server.files[0].contents.as_slice()), ("c", &b"5001\n"[..]));
    assert_eq!(server.ready, [ReadyCheck::Tcp("127.0.0.1:5001".parse().unwrap()), ReadyCheck::Processes(4)]);
    assert_eq!(server.placement, Some(Placement { count: 2, part: CpuPart::Inside }));
    assert_eq!((server.deadline, server.ports.as_slice()), (Duration::from_secs(9), &[5001, 5002][..]));
    let client = render(&matrix, 1, 6).unwrap();
    assert_eq!(client.argv, ["cli", "127.0.0.1:5001", "wait"]);
    assert_eq!(client.placement, Some(Placement { count: 2, part: CpuPart::Outside }));
}

#[test]
fn expect_every_variable_in_plain_and_in_full_templates() {
    let cell = matrix(&[]).cell(0).unwrap().cell;
    assert_eq!(argument("{{ run }} {{ repetition }}"), "00000000-0000-0000-0000-00000000000a 2");
    assert_eq!(argument("{{ address }}"), "127.0.0.2");
    assert_eq!(argument("{{server.admin}}"), "5002");
    assert_eq!(argument("{{ server.port + servers }}"), "5004");
    assert_eq!(argument("{% if mode == 'wait' %}{{ server.address }}{% endif %}"), "127.0.0.1");
    // A changed command changes the key, so only its form is known.
    assert_eq!(argument("{{ cell }}").len(), cell.key.to_string().len());
    assert_eq!(argument("{{ 'x' * servers }}"), "xxx");
}

#[test]
fn expect_no_shell_and_no_escaping() {
    let nasty = "; rm -rf / & <b> $HOME `x` 'q' \"d\"";
    let edit = format!("mode: [{nasty:?}]");
    let matrix = matrix(&[("mode: [wait, close]", &edit)]);
    assert_eq!(render(&matrix, 1, 0).unwrap().argv[2], nasty);
}

#[test]
fn expect_text_commands_as_words_or_for_a_shell() {
    let text = "run: \"cli --to {{ server.address }}:{{ server.port }} 'a b'\"";
    let words = matrix(&[("run: [cli, \"{{ server.address }}:{{ server.port }}\", \"{{ mode }}\"]", text)]);
    assert_eq!(render(&words, 1, 0).unwrap().argv, ["cli", "--to", "127.0.0.1:5001", "a b"]);
    let text = "shell: \"echo {{ mode }} | cat\"";
    let shell = matrix(&[("run: [cli, \"{{ server.address }}:{{ server.port }}\", \"{{ mode }}\"]", text)]);
    assert_eq!(render(&shell, 1, 0).unwrap().argv, ["sh", "-c", "echo wait | cat"]);
}

#[test]
fn expect_every_kind_of_ready_check() {
    let ready = "ready: { tcp: \"localhost:80\", unix: \"{{ dir }}/s\", log: \"up {{ mode }}\", \
                 http: \"http://{{ address }}:{{ port }}/\", command: [test, -e, \"{{ dir }}\"] }";
    let matrix = matrix(&[("ready: { tcp: port, processes: \"{{ servers + 1 }}\" }", ready)]);
    assert_eq!(
        render(&matrix, 0, 0).unwrap().ready,
        [
            ReadyCheck::Tcp("127.0.0.1:80".parse().unwrap()),
            ReadyCheck::Unix("/tmp/a/s".into()),
            ReadyCheck::Log("up wait".into()),
            ReadyCheck::Http("http://127.0.0.1:5001/".into()),
            ReadyCheck::Command(["test", "-e", "/tmp/a"].map(str::to_owned).into()),
        ],
    );
}

#[test]
fn expect_files_from_beside_the_matrix_rendered_or_raw() {
    let files = "files: { a: { from: a.conf, executable: true }, r: { from: r.bin, raw: true } }";
    let matrix = matrix(&[("after: server", &format!("after: server\n    {files}"))]);
    let paths: Vec<&str> = matrix.file_references().iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["a.conf", "r.bin"]);
    let contents = [b"mode {{ mode }}\nend\n".to_vec(), b"\xff{{ mode".to_vec()];
    assert!(render(&matrix, 1, 0).unwrap_err().problem.contains("not loaded"));
    let matrix = matrix.with_files(&contents).unwrap();
    let files = render(&matrix, 1, 0).unwrap().files;
    assert_eq!((files[0].contents.as_slice(), files[0].executable), (&b"mode wait\nend\n"[..], true));
    assert_eq!(files[1].contents, b"\xff{{ mode");
}

#[test]
fn expect_mistakes_in_referenced_files_with_their_place() {
    let files = "files: { a: { from: conf/a.conf }, b: { from: b.bin } }";
    let matrix = matrix(&[("after: server", &format!("after: server\n    {files}"))]);
    let reference = &matrix.file_references()[0];
    let missing = matrix.file_problem(reference, "no such file");
    assert!(
        missing.to_string().starts_with("x.yaml:16:25: the file `conf/a.conf` cannot be read"),
        "{missing}"
    );
    let contents = [b"good\nPort {{ prt }}\nMode {{ mode + 1 }}\n".to_vec(), b"\xff".to_vec()];
    insta::assert_snapshot!(matrix.with_files(&contents).unwrap_err());
}

#[test]
fn expect_an_error_with_place_template_and_cell_when_a_value_does_not_fit() {
    // Only an untried combination can get this far: the tried ones differ from the first cell in one axis.
    let word = "{{ 1 // (2 - cpus) if servers > 3 and cpus == 2 else 'ok' }}";
    let text = edited(&[("[cli, ", &format!("[cli, {word:?}, "))]);
    let matrix = read(&text, &Options::default()).unwrap_or_else(|found| panic!("{found}"));
    let failing =
        matrix.cells().find(|p| p.cell.to_string() == "cpus=2 servers=10 mode=wait").unwrap().cell.index;
    let error = render(&matrix, 1, failing).unwrap_err();
    assert_eq!(
        (error.place.as_str(), error.cell.as_str()),
        ("roles.client.run[1]", "cpus=2 servers=10 mode=wait")
    );
    assert_eq!(error.template, word);
}

#[test]
fn expect_rendering_to_be_cheap() {
    // No assertion on time: the figure is printed for whoever looks for it (`--no-capture`).
    let matrix = matrix(&[]);
    let renderer = Renderer::new(&matrix).unwrap();
    let cell = matrix.cell(0).unwrap().cell;
    let endpoints = endpoints();
    let run = "00000000-0000-0000-0000-00000000000a".parse().unwrap();
    let context = RenderContext { run, repetition: 1, dir: "/tmp/a", instance: 0, endpoints: &endpoints };
    let started = Instant::now();
    for _ in 0..1000 {
        renderer.render(0, &cell, &context).unwrap();
    }
    println!("{:?} per task", started.elapsed() / 1000);
}

#[test]
fn expect_a_matrix_and_its_renderer_to_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Matrix>();
    shared::<Renderer>();
}
