//! How this host is at the moment, for a look before a run. Used by the service, and by `drover doctor` for this machine.

use drover_model::{Survey, TakenPort};
use drover_supervise::ports::{PortState, state_of};

/// Most ports that are looked at.
const MAX_PORTS: usize = 1000;

/// Looks at the machine, and at these TCP ports. Reads a file of every process: takes milliseconds.
#[must_use]
pub fn survey(ports: &[u16]) -> Survey {
    let taken = ports.iter().take(MAX_PORTS).filter_map(|port| {
        let why = match state_of(*port) {
            Ok(PortState::Free | PortState::TimeWait) => return None,
            Ok(PortState::Taken(Some(holder))) => {
                format!("taken by process {} ({})", holder.pid, holder.comm)
            }
            Ok(PortState::Taken(None)) => "taken".to_owned(),
            Err(error) => crate::text::chain(&error),
        };
        Some(TakenPort { port: *port, why })
    });
    Survey { taken_ports: taken.collect(), ..drover_machine::survey() }
}
