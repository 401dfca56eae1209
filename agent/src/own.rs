//! The agent's own executable, which tasks may run as the command `drover-agent`.

use std::path::Path;

/// Command of a task that means the agent's own executable.
const NAME: &str = "drover-agent";

/// How this program is called so that it acts as the agent: its executable, then these arguments. `drover-agent` needs
/// none, `drover` needs `agent`.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnCommand {
    /// Arguments between the executable and the agent's subcommand.
    pub prefix: &'static [&'static str],
}

impl OwnCommand {
    /// The arguments to execute: `argv` itself, unless its command is `drover-agent`.
    ///
    /// When the executable was replaced on disk since the agent started (a new build was installed), it is executed by
    /// way of `/proc/self/exe`, so that agent and workload are always of the same version.
    #[must_use]
    pub fn resolve(&self, argv: &[String]) -> Vec<String> {
        let Some((command, arguments)) = argv.split_first() else { return Vec::new() };
        if command != NAME {
            return argv.to_vec();
        }
        let path = std::env::current_exe().ok().filter(|path| path.exists());
        let path = path.as_deref().and_then(Path::to_str).unwrap_or("/proc/self/exe");
        let prefix = self.prefix.iter().map(|text| (*text).to_owned());
        std::iter::once(path.to_owned()).chain(prefix).chain(arguments.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_own_executable_with_its_prefix_when_a_task_runs_drover_agent() {
        let argv = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let own = OwnCommand { prefix: &["agent"] };
        let resolved = own.resolve(&argv(&["drover-agent", "workload", "server"]));
        assert_eq!(resolved[0], std::env::current_exe().unwrap().to_str().unwrap());
        assert_eq!(resolved[1..], argv(&["agent", "workload", "server"]));
        assert_eq!(own.resolve(&argv(&["true", "drover-agent"])), argv(&["true", "drover-agent"]));
    }
}
