//! Makes an attempt ready to be sent: checks what the cell asks of its hosts, gives every task its address and ports, renders the
//! templates. Pure.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};

use drover_matrix::{Endpoint, Matrix, RenderContext, RenderedRole, Renderer, Role};
use drover_model::{AttemptId, Cell, ErrorCause, Name, Seats, Verdict};

/// Address of every role when they all are on one host.
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Address of a role that has none and needs none.
const UNSPECIFIED: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The roles of an attempt with their hosts, one instance after the other.
struct Instances<'a> {
    matrix: &'a Matrix,
    seats: &'a Seats,
}

impl<'a> Instances<'a> {
    /// The host of every instance of a role.
    fn of(&self, place: usize, role: &Role) -> impl Iterator<Item = &'a Name> + use<'a> {
        let per_host = usize::try_from(role.instances).unwrap_or(usize::MAX);
        self.seats.of_role(place).iter().flat_map(move |host| std::iter::repeat_n(host, per_host))
    }

    fn all(&self) -> impl Iterator<Item = (usize, &'a Role, &'a Name)> {
        let roles = self.matrix.roles().iter().enumerate();
        roles.flat_map(|(place, role)| self.of(place, role).map(move |host| (place, role, host)))
    }
}

/// Ports that each host must reserve for an attempt; hosts that need none are left out.
pub fn reserved_ports(matrix: &Matrix, seats: &Seats) -> BTreeMap<Name, u32> {
    let mut wanted = BTreeMap::new();
    for (_, role, host) in (Instances { matrix, seats }).all() {
        let free = role.ports.iter().filter(|port| port.fixed.is_none()).count();
        if free > 0 {
            *wanted.entry(host.clone()).or_default() += u32::try_from(free).unwrap_or(u32::MAX);
        }
    }
    wanted
}

/// Where every instance of each role can be reached. `ports` are those that were reserved on each host, `address` gives the
/// address of a host as other hosts reach it.
pub fn endpoints(
    matrix: &Matrix,
    seats: &Seats,
    ports: &BTreeMap<Name, Vec<u16>>,
    address: impl Fn(&Name) -> Option<IpAddr>,
) -> Result<Vec<Vec<Endpoint>>, Verdict> {
    let alone = seats.hosts().len() == 1;
    let mut reserved: BTreeMap<&Name, _> =
        ports.iter().map(|(host, ports)| (host, ports.iter().copied())).collect();
    let instances = Instances { matrix, seats };
    let mut endpoint = |role: &Role, host: &Name| {
        let address = if alone { Some(LOOPBACK) } else { address(host) };
        // Nobody connects to a role without ports.
        let address = address.or_else(|| role.ports.is_empty().then_some(UNSPECIFIED)).ok_or_else(|| {
            internal(format!("other hosts cannot reach {host}: give it an `address` in the host file"))
        })?;
        let mut next = || reserved.get_mut(host).and_then(Iterator::next);
        let ports = role.ports.iter().map(|port| port.fixed.or_else(&mut next));
        let ports: Option<Vec<u16>> = ports.collect();
        let ports = ports.ok_or_else(|| internal(format!("the agent of {host} reserved too few ports")))?;
        Ok(Endpoint { host: host.clone(), address, ports })
    };
    let mut all = Vec::with_capacity(matrix.roles().len());
    for (place, role) in matrix.roles().iter().enumerate() {
        all.push(instances.of(place, role).map(|host| endpoint(role, host)).collect::<Result<_, _>>()?);
    }
    Ok(all)
}

/// The hosts whose kernel and CPUs the cell is about: those that run a service. All of them where there is no service.
pub fn hosts_under_test<'a>(matrix: &Matrix, seats: &'a Seats) -> Vec<&'a Name> {
    let instances = Instances { matrix, seats };
    let services = instances.all().filter(|(_, role, _)| role.is_service());
    let services: Vec<&Name> = services.map(|(_, _, host)| host).collect();
    let hosts = seats.hosts();
    if services.is_empty() {
        hosts
    } else {
        hosts.into_iter().filter(|host| services.contains(host)).collect()
    }
}

/// What there is to render an attempt from.
pub struct Rendering<'a> {
    pub renderer: &'a Renderer,
    pub matrix: &'a Matrix,
    pub attempt: &'a AttemptId,
    pub cell: &'a Cell,
    pub seats: &'a Seats,
    pub endpoints: &'a [Vec<Endpoint>],
}

impl Rendering<'_> {
    /// Every task, by role and instance. `work_dir` gives the folder for attempts on a host.
    pub fn render(&self, work_dir: impl Fn(&Name) -> String) -> Result<Vec<Vec<RenderedRole>>, Verdict> {
        let under_test = hosts_under_test(self.matrix, self.seats);
        let instances = Instances { matrix: self.matrix, seats: self.seats };
        let mut all = Vec::with_capacity(self.matrix.roles().len());
        for (place, role) in self.matrix.roles().iter().enumerate() {
            let mut tasks = Vec::new();
            for (instance, host) in (0u32..).zip(instances.of(place, role)) {
                let dir = format!("{}/{}", work_dir(host), self.attempt);
                let context = RenderContext {
                    run: self.attempt.run,
                    repetition: self.attempt.trial.repetition,
                    dir: &dir,
                    instance,
                    endpoints: self.endpoints,
                };
                let rendered = self.renderer.render(place, self.cell, &context);
                let mut rendered = rendered.map_err(|error| Verdict::Error {
                    cause: ErrorCause::Template,
                    detail: super::link::chain(&error),
                })?;
                // The axis `cpus` is about the machine under test, not about the load's.
                rendered.placement = rendered.placement.filter(|_| under_test.contains(&host));
                tasks.push(rendered);
            }
            all.push(tasks);
        }
        Ok(all)
    }
}

fn internal(detail: String) -> Verdict {
    Verdict::Error { cause: ErrorCause::Internal, detail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_matrix::{Options, Source, parse};

    const MATRIX: &str = "
version: 1
name: two-hosts
axes: { cpus: [1, 2] }
roles:
  server:
    run: [serve, '{{ address }}:{{ port }}', '{{ admin }}']
    ports: [port, admin]
    ready: { tcp: port }
    on: [server]
  client:
    after: server
    on: [client]
    hosts: 2
    instances: 2
    run: [load, '{{ server.address }}:{{ server.port }}', '{{ instance }}', '{{ host }}']
    measure: { regex: 'rate (?<rate>[0-9]+)' }
metrics:
  rate: { unit: 1/s, better: higher, primary: true, across: sum }
";

    fn matrix() -> Matrix {
        parse(&Source::new("m.yaml", MATRIX), &Options::default()).unwrap_or_else(|found| panic!("{found}"))
    }

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn expect_every_instance_to_have_its_place_when_roles_are_on_several_hosts() {
        let matrix = matrix();
        let seats: Seats = "web/c1,c2".parse().unwrap();
        assert_eq!(reserved_ports(&matrix, &seats), BTreeMap::from([(name("web"), 2)]));
        assert_eq!(hosts_under_test(&matrix, &seats), [&name("web")]);
        let ports = BTreeMap::from([(name("web"), vec![8001, 8002])]);
        let address = |host: &Name| match host.as_str() {
            "web" => "10.0.0.1".parse().ok(),
            _ => "10.0.0.9".parse().ok(),
        };
        let endpoints = endpoints(&matrix, &seats, &ports, address).unwrap();
        assert_eq!(endpoints[0].len(), 1);
        assert_eq!(endpoints[1].len(), 4);
        let run = "00000000-0000-0000-0000-000000000001";
        let attempt: AttemptId = format!("{run}.c0r1a1").parse().unwrap();
        let cell = matrix.cell(0).unwrap().cell;
        let rendering = Rendering {
            renderer: &Renderer::new(&matrix).unwrap(),
            matrix: &matrix,
            attempt: &attempt,
            cell: &cell,
            seats: &seats,
            endpoints: &endpoints,
        };
        let tasks = rendering.render(|host| format!("/work/{host}")).unwrap();
        assert_eq!(tasks[0][0].argv, ["serve", "10.0.0.1:8001", "8002"]);
        assert!(tasks[0][0].placement.is_some());
        assert_eq!(tasks[1][2].argv, ["load", "10.0.0.1:8001", "2", "c2"]);
        assert_eq!(tasks[1][2].placement, None, "the load's host is not under test");
    }

    #[test]
    fn expect_loopback_when_all_are_on_one_host_and_a_remedy_when_an_address_is_missing() {
        let matrix = matrix();
        let ports = BTreeMap::from([(name("web"), vec![8001, 8002])]);
        let alone: Seats = "web/web,web".parse().unwrap();
        let found = endpoints(&matrix, &alone, &ports, |_| None).unwrap();
        assert_eq!(found[0][0].address, LOOPBACK);
        let verdict = endpoints(&matrix, &"web/c1,c2".parse().unwrap(), &ports, |_| None).unwrap_err();
        assert!(verdict.detail().contains("give it an `address`"), "{verdict:?}");
        let few = BTreeMap::from([(name("web"), vec![8001])]);
        let verdict = endpoints(&matrix, &alone, &few, |_| None).unwrap_err();
        assert!(verdict.detail().contains("too few ports"), "{verdict:?}");
    }
}
