//! Online CPUs and their place: physical core, package, NUMA node.

use std::collections::BTreeMap;

use drover_model::CpuCore;

use crate::source::{Source, cpu_list};

const CPUS: &str = "sys/devices/system/cpu";

/// Online CPUs in ascending order. Where `/sys` is hidden (some containers), they are taken from `/proc/cpuinfo`; a CPU whose core is
/// not known counts as a core of its own.
pub(crate) fn online(source: Source<'_>) -> Vec<CpuCore> {
    let listed = source.text(&format!("{CPUS}/online")).map(|list| cpu_list(&list));
    let cpus = listed.filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| processors(source));
    let nodes = nodes(source);
    cpus.into_iter()
        .map(|cpu| {
            // Devices without the notion say -1.
            let place = |name: &str| source.number::<u32>(&format!("{CPUS}/cpu{cpu}/topology/{name}"));
            let node = nodes.get(&cpu).copied().unwrap_or(0);
            CpuCore {
                cpu,
                core: place("core_id").unwrap_or(cpu),
                package: place("physical_package_id").unwrap_or(0),
                node,
            }
        })
        .collect()
}

/// Number of CPUs the kernel knows of.
pub(crate) fn present(source: Source<'_>) -> Option<u32> {
    let list = source.text(&format!("{CPUS}/present"))?;
    u32::try_from(cpu_list(&list).len()).ok().filter(|&count| count > 0)
}

fn nodes(source: Source<'_>) -> BTreeMap<u32, u32> {
    let mut nodes = BTreeMap::new();
    for name in source.names("sys/devices/system/node") {
        let number = name.strip_prefix("node").and_then(|number| number.parse::<u32>().ok());
        if let Some(node) = number {
            let cpus = source.text(&format!("sys/devices/system/node/{name}/cpulist")).unwrap_or_default();
            nodes.extend(cpu_list(&cpus).into_iter().map(|cpu| (cpu, node)));
        }
    }
    nodes
}

/// The `processor` lines of `/proc/cpuinfo`, which lists online CPUs only.
fn processors(source: Source<'_>) -> Vec<u32> {
    let text = source.text("proc/cpuinfo").unwrap_or_default();
    let value =
        |line: &str| line.strip_prefix("processor")?.trim_start().strip_prefix(':')?.trim().parse().ok();
    text.lines().filter_map(value).collect()
}
