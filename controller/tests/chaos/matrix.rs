//! The matrix of a round: short jobs that log themselves.

use crate::{ground::Ground, judge::Planned, plan::Plan};

/// What a job does: it says that it begins, works, makes up a figure that nobody could guess, says that one in its log, and then to
/// Drover. Each line of the log is on the disk before the job goes on.
fn job(log: &str, role: &str, port: &str, work_ms: u64) -> String {
    format!(
        "    shell: |
      say() {{ echo \"$*\" | dd of={log} oflag=append conv=notrunc,fsync status=none; }}
      say begin $DROVER_ATTEMPT {role}.{{{{ instance }}}} {port}
      sleep {}.{:03}
      figure=$(od -An -N4 -tu4 /dev/urandom)
      figure=$((figure))
      say end $DROVER_ATTEMPT {role}.{{{{ instance }}}} $figure
      echo value=$figure
    measure: lines
",
        work_ms / 1000,
        work_ms % 1000
    )
}

pub fn matrix(plan: &Plan, ground: &Ground) -> String {
    let (log, mark, cells) = (ground.log_of_jobs(), &ground.mark, plan.cells);
    let env = format!("    env: {{ CHAOS_ROUND: '{mark}' }}\n");
    let roles = if plan.crew {
        let (server, client) = if plan.lab {
            ("    on: server\n", "    on: client\n    hosts: 2\n")
        } else {
            ("", "    instances: 2\n")
        };
        let job = job(&log, "client", "{{ server.port }}", plan.work_ms);
        format!(
            "  server:\n{server}{env}    run: [drover-agent, workload, server, --listen, '{{{{ address }}}}:{{{{ port }}}}', \
             --servers, 1, --serialisation, none]\n    ports: [port]\n    ready: {{ tcp: port, within: 30s }}\n  \
             client:\n    after: server\n{client}{env}{job}"
        )
    } else {
        format!("  job:\n{env}{}", job(&log, "job", "0", plan.work_ms))
    };
    let across = if plan.crew { ", across: sum" } else { "" };
    format!(
        "version: 1\nname: chaos\naxes: {{ n: ['1..{cells}'] }}\nroles:\n{roles}metrics:\n  \
         value: {{ unit: '1', better: higher, primary: true{across} }}\nretries: 9\nskew_limit: 10s\ntimeout: 60s\n"
    )
}

/// What has to come of it.
pub fn planned(plan: &Plan, run: drover_model::RunId) -> Planned {
    let jobs = if plan.crew { vec![("client", 0), ("client", 1)] } else { vec![("job", 0)] };
    Planned { run, cells: u32::try_from(plan.cells).unwrap_or(u32::MAX), jobs }
}
