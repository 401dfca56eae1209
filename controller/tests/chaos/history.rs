//! What truly ran: the log that every job writes by itself, outside of Drover's folders, each line synced to the disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use drover_model::{AttemptId, TaskId};

/// The lines of all logs.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// How often the command of a task ran.
    pub begun: BTreeMap<TaskId, u32>,
    /// The figure of each time that it came to its end.
    pub ended: BTreeMap<TaskId, Vec<f64>>,
    /// Ports that attempts were given.
    pub ports: BTreeSet<u16>,
    /// Lines that make no sense.
    pub strange: Vec<String>,
}

impl History {
    pub fn read<'a>(logs: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut history = Self::default();
        for log in logs {
            let text = fs::read_to_string(log).unwrap_or_default();
            text.lines().for_each(|line| history.line(line));
        }
        history
    }

    pub fn line(&mut self, line: &str) {
        if self.take(line).is_none() {
            self.strange.push(line.to_owned());
        }
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        let (kind, attempt, task, number) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let task: TaskId = format!("{attempt}.{task}").parse().ok()?;
        match kind {
            "begin" => {
                self.ports.extend(number.parse::<u16>().ok().filter(|port| *port > 0));
                *self.begun.entry(task).or_default() += 1;
            }
            "end" => self.ended.entry(task).or_default().push(number.parse().ok()?),
            _ => return None,
        }
        words.next().is_none().then_some(())
    }

    /// Attempts of which something ran.
    pub fn attempts(&self) -> BTreeSet<AttemptId> {
        self.begun.keys().chain(self.ended.keys()).map(|task| task.attempt).collect()
    }

    /// Sum of what the jobs of an attempt found; `None` unless each of them ended exactly once.
    pub fn figure(&self, attempt: AttemptId, roles: &[(&str, u32)]) -> Option<f64> {
        let mut sum = 0.0;
        for (role, instance) in roles {
            let task = TaskId { attempt, role: role.parse().ok()?, instance: *instance };
            match self.ended.get(&task)?.as_slice() {
                [value] => sum += value,
                _ => return None,
            }
        }
        Some(sum)
    }
}
