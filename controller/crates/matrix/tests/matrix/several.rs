//! Roles with several instances, on several hosts: what they say, what their templates see, what changes a cell.

use super::common::{edited, matrix, read};
use drover_matrix::{Across, Endpoint, Matrix, Options, RenderContext, RenderError, RenderedRole, Renderer};
use drover_model::{Name, ReadyCheck};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Two servers on a host each, and two clients on each of two hosts.
fn herd(argument: &str) -> Matrix {
    matrix(&[
        ("    ports: [port, admin]", "    ports: [port, admin]\n    on: server\n    hosts: 2"),
        (
            "    after: server\n",
            "    after: server\n    on: [client, big]\n    hosts: 2\n    instances: 2\n    other_host_than: server\n",
        ),
        ("[cli, ", &format!("[cli, {argument:?}, ")),
        ("higher, primary: true", "higher, primary: true, from: client, across: sum"),
        ("better: lower, must", "better: lower, from: client, across: sum, must"),
    ])
}

fn endpoints() -> [Vec<Endpoint>; 2] {
    let endpoint = |host: &str, address: &str, ports: &[u16]| Endpoint {
        host: name(host),
        address: address.parse().unwrap(),
        ports: ports.into(),
    };
    let client = |host, address| [endpoint(host, address, &[]), endpoint(host, address, &[])];
    [
        vec![endpoint("web1", "10.1.0.1", &[5001, 5002]), endpoint("web2", "fd00::2", &[6001, 6002])],
        [client("load1", "10.1.0.3"), client("load2", "10.1.0.4")].concat(),
    ]
}

fn render(matrix: &Matrix, role: usize, instance: u32) -> Result<RenderedRole, RenderError> {
    let context = RenderContext {
        run: "00000000-0000-0000-0000-00000000000a".parse().unwrap(),
        repetition: 1,
        dir: "/tmp/a",
        instance,
        endpoints: &endpoints(),
    };
    Renderer::new(matrix).unwrap().render(role, &matrix.cell(0).unwrap().cell, &context)
}

fn argument(template: &str, instance: u32) -> String {
    render(&herd(template), 1, instance).unwrap().argv[1].clone()
}

#[test]
fn expect_what_a_role_says_of_its_hosts() {
    let herd = herd("x");
    let client = herd.role("client").unwrap();
    assert_eq!(client.on, [name("client"), name("big")]);
    assert_eq!((client.hosts, client.instances, client.tasks()), (2, 2, 4));
    assert_eq!((client.other_host_than.as_slice(), &client.same_host_as), (&[name("server")][..], &None));
    let plain = matrix(&[]);
    let server = plain.role("server").unwrap();
    assert_eq!((server.on.len(), server.hosts, server.instances, server.tasks()), (0, 1, 1, 1));
}

#[test]
fn expect_as_many_hosts_as_the_role_that_is_followed() {
    let probe = "  probe:\n    run: [x]\n    same_host_as: middle\n    instances: 3\n  middle:\n    run: [x]\n    \
                 same_host_as: server\nmetrics:";
    let followed = matrix(&[
        ("metrics:", probe),
        ("    ports: [port, admin]", "    ports: [port, admin]\n    hosts: 4"),
        ("higher, primary: true", "higher, primary: true, from: client"),
        ("better: lower, must", "better: lower, from: client, must"),
    ]);
    let probe = followed.role("probe").unwrap();
    assert_eq!((probe.hosts, probe.tasks(), probe.same_host_as.clone()), (4, 12, Some(name("middle"))));
}

#[test]
fn expect_own_variables_of_the_instance_and_those_of_the_first_of_another_role() {
    assert_eq!(argument("{{ instance }} {{ host }} {{ address }}", 0), "0 load1 10.1.0.3");
    assert_eq!(argument("{{ instance }} {{ host }} {{ address }}", 3), "3 load2 10.1.0.4");
    assert_eq!(argument("{{ server.host }} {{ server.address }} {{ server.port }}", 3), "web1 10.1.0.1 5001");
    assert_eq!(argument("{{ server.count }} {{ client.count }}", 1), "2 4");
    // By way of minijinja too.
    assert_eq!(argument("{{ instance + 1 }}{{ host | upper }}{{ server.admin + 1 }}", 2), "3LOAD25003");
    let second = render(&herd("x"), 0, 1).unwrap();
    assert_eq!(second.argv[1], "fd00::2:6001");
    assert_eq!(second.ready[0], ReadyCheck::Tcp("[fd00::2]:6001".parse().unwrap()));
    assert_eq!(second.ports, [6001, 6002]);
}

#[test]
fn expect_every_instance_of_a_role_in_a_list() {
    let share =
        "{{ server.all[instance % server.count].address }}:{{ server.all[instance % server.count].port }}";
    let all: Vec<String> = (0..4).map(|instance| argument(share, instance)).collect();
    assert_eq!(all, ["10.1.0.1:5001", "fd00::2:6001", "10.1.0.1:5001", "fd00::2:6001"]);
    let list = "{% for s in server.all %}{{ s.host }}={{ s.admin }};{% endfor %}{{ server.all | length }}";
    assert_eq!(argument(list, 0), "web1=5002;web2=6002;2");
    assert_eq!(argument("{{ server.all[1].port }}", 0), "6001");
    assert_eq!(argument("{{ server.all | map(attribute='port') | join(',') }}", 0), "5001,6001");
    assert_eq!(argument("{{ server.all }}", 0), "10.1.0.1:5001 fd00::2:6001");
}

#[test]
fn expect_an_error_when_there_is_no_such_instance() {
    let error = render(&herd("x"), 1, 4).unwrap_err();
    assert!(error.problem.contains("no place for `client` 4"), "{error}");
}

#[test]
fn expect_an_index_that_runs_out_only_for_the_last_instance_to_be_found_when_checked() {
    let text = edited(&[
        ("    after: server\n", "    after: server\n    instances: 2\n"),
        ("[cli, ", "[cli, \"{{ server.all[instance].port }}\", "),
        ("higher, primary: true", "higher, primary: true, across: sum"),
        ("better: lower, must", "better: lower, across: sum, must"),
    ]);
    let found = read(&text, &Options::default()).unwrap_err();
    assert_eq!(found.count(), 1, "{found}");
    assert!(found.to_string().contains("`server.all[...]` is undefined"), "{found}");
}

#[test]
fn expect_another_key_only_when_what_is_said_of_hosts_can_change_the_number() {
    let key = |edits: &[(&str, &str)]| matrix(edits).cell(0).unwrap().cell.key;
    let base = key(&[]);
    let role = |text: &str| key(&[("    after: server\n", &format!("    after: server\n    {text}\n"))]);
    for same in ["hosts: 1", "instances: 1", "artifacts: [\"*.log\"]\n    artifact_limit: 1MiB"] {
        assert_eq!(role(same), base, "{same}");
    }
    assert_eq!(key(&[("primary: true", "primary: true, across: max")]), base);
    for same in ["spread: any", "mix_hosts: true", "skew_limit: 1ms", "limits: { file: 1MiB }"] {
        assert_eq!(key(&[("repeat: 3", same)]), base, "{same}");
    }
    for other in ["on: client", "same_host_as: server", "other_host_than: server"] {
        assert_ne!(role(other), base, "{other}");
    }
    let several = |hosts: &str, across: &str| {
        key(&[
            ("    after: server\n", &format!("    after: server\n    {hosts}\n")),
            ("primary: true", &format!("primary: true, across: {across}")),
            ("better: lower, must", "better: lower, across: sum, must"),
        ])
    };
    assert_ne!(several("hosts: 2", "sum"), base);
    assert_ne!(several("hosts: 2", "sum"), several("instances: 2", "sum"));
    assert_ne!(several("hosts: 2", "sum"), several("hosts: 2", "max"));
}

#[test]
fn expect_how_instances_become_one_in_the_metric() {
    let herd = herd("x");
    assert_eq!(herd.metrics().primary().unwrap().across, Some(Across::Sum));
    assert!(matrix(&[]).metrics().iter().all(|metric| metric.across.is_none()));
}

#[test]
fn expect_artifacts_and_their_bound() {
    let text =
        "after: server\n    artifacts: [\"*.log\", ./core, \"out/**/*.json\"]\n    artifact_limit: 1MiB";
    let some = matrix(&[("after: server", text)]);
    let client = some.role("client").unwrap();
    assert_eq!(client.artifacts, ["*.log", "core", "out/**/*.json"]);
    assert_eq!(client.artifact_limit, 1 << 20);
    assert_eq!(some.role("server").unwrap().artifact_limit, 64 << 20);
}

#[test]
fn expect_a_bound_on_files_whether_loaded_or_rendered() {
    let files = "after: server\n    files: { a: { from: a.bin, raw: true } }";
    let small = || matrix(&[("after: server", files), ("repeat: 3", "limits: { file: 1KiB }")]);
    assert_eq!(small().file_limit(), 1024);
    assert!(small().with_files(&[vec![0; 1024]]).is_ok());
    let found = small().with_files(&[vec![0; 1025]]).unwrap_err().to_string();
    assert!(found.contains("the file `a.bin` has more than 1024 bytes"), "{found}");
    assert_eq!(matrix(&[]).file_limit(), 16 << 20);
    let files = "after: server\n    files: { a: \"{{ 'x' * 1025 }}\" }";
    let long = matrix(&[("after: server", files), ("repeat: 3", "limits: { file: 1KiB }")]);
    let error = render(&long, 1, 0).unwrap_err();
    assert!(error.problem.contains("the file `a` has 1025 bytes, 1024 are allowed"), "{error}");
}
