//! Makes an attempt ready to be sent: checks what the cell asks of the machine, gives every role its address and ports,
//! renders the templates. Pure.

use std::net::{IpAddr, Ipv4Addr};

use drover_matrix::{Endpoint, Matrix, RenderContext, RenderedRole, Renderer};
use drover_model::{AttemptId, Cell, ErrorCause, HostFacts, MissingCause, Verdict};

/// Address of every role on the host `local`.
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Ports that the agent must reserve for an attempt.
pub fn reserved_ports(matrix: &Matrix) -> u32 {
    let ports = matrix.roles().iter().flat_map(|role| &role.ports);
    u32::try_from(ports.filter(|port| port.fixed.is_none()).count()).unwrap_or(u32::MAX)
}

/// Where each role can be reached, given the ports that were reserved.
pub fn endpoints(matrix: &Matrix, reserved: &[u16]) -> Option<Vec<Endpoint>> {
    let mut reserved = reserved.iter().copied();
    let mut endpoint = |role: &drover_matrix::Role| {
        let ports = role.ports.iter().map(|port| port.fixed.or_else(|| reserved.next()));
        Some(Endpoint { address: LOOPBACK, ports: ports.collect::<Option<_>>()? })
    };
    matrix.roles().iter().map(&mut endpoint).collect()
}

/// Why the machine is not what the cell asks for, if so: its kernel must run, its CPUs must be there.
pub fn machine_mismatch(cell: &Cell, facts: &HostFacts) -> Option<Verdict> {
    if let Some(kernel) = cell.value("kernel")
        && kernel != "running"
        && kernel != facts.kernel_release
    {
        return Some(Verdict::Missing {
            cause: MissingCause::WrongKernel,
            detail: format!(
                "the cell asks for kernel `{kernel}`, the host runs {}; `running` means whatever runs",
                facts.kernel_release
            ),
        });
    }
    if let Some(cpus) = cell.value("cpus") {
        let online = facts.cpus.len();
        if !cpus.parse::<usize>().is_ok_and(|count| (1..=online).contains(&count)) {
            return Some(Verdict::Missing {
                cause: MissingCause::WrongCpus,
                detail: format!("the cell asks for {cpus} CPUs, the host has {online} online"),
            });
        }
    }
    None
}

/// Every role of an attempt, rendered.
pub fn render(
    renderer: &Renderer,
    roles: usize,
    attempt: &AttemptId,
    cell: &Cell,
    work_dir: &str,
    endpoints: &[Endpoint],
) -> Result<Vec<RenderedRole>, Verdict> {
    let dir = format!("{work_dir}/{attempt}");
    let context =
        RenderContext { run: attempt.run, repetition: attempt.trial.repetition, dir: &dir, endpoints };
    let rendered = (0..roles).map(|role| renderer.render(role, cell, &context));
    rendered
        .collect::<Result<_, _>>()
        .map_err(|error| Verdict::Error { cause: ErrorCause::Template, detail: super::link::chain(&error) })
}

#[cfg(test)]
mod tests {
    use drover_model::{CellKey, CpuCore};

    use super::*;

    fn cell(axis: &str, value: &str) -> Cell {
        Cell { index: 0, key: CellKey::of([]), values: vec![(axis.parse().unwrap(), value.into())] }
    }

    fn facts() -> HostFacts {
        let cpus = (0..2).map(|cpu| CpuCore { cpu, core: cpu, package: 0, node: 0 }).collect();
        HostFacts { kernel_release: "6.1.0".into(), cpus, ..HostFacts::default() }
    }

    #[test]
    fn expect_wrong_kernel_when_another_runs() {
        assert_eq!(machine_mismatch(&cell("kernel", "running"), &facts()), None);
        assert_eq!(machine_mismatch(&cell("kernel", "6.1.0"), &facts()), None);
        let verdict = machine_mismatch(&cell("kernel", "6.10"), &facts()).unwrap();
        assert_eq!(verdict.cause(), "wrong-kernel");
    }

    #[test]
    fn expect_wrong_cpus_when_the_host_has_fewer_or_the_count_is_none() {
        assert_eq!(machine_mismatch(&cell("cpus", "2"), &facts()), None);
        for bad in ["3", "0", "two", "-1"] {
            let verdict = machine_mismatch(&cell("cpus", bad), &facts()).unwrap();
            assert_eq!(verdict.cause(), "wrong-cpus", "{bad}");
        }
    }
}
