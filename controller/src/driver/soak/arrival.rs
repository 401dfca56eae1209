//! Reports of loads as they arrive: they are read at once, and wait for their place in time.

use drover_matrix::{Load, Role};
use drover_model::{EndKind, Name, RoundEnd};
use drover_store::MarkKind;

use super::{
    course::{Course, Item},
    reading,
    task_clock::TaskClock,
};

impl Course {
    pub(super) fn role(&self, load: usize) -> Option<&Role> {
        self.matrix.roles().get(self.loads.get(load)?.role)
    }

    /// A round is over. Says whether it found something.
    pub(super) fn round(&mut self, load: usize, host: &Name, told: u64, number: u64, end: &RoundEnd) -> bool {
        let label = self.label(load);
        let Some(task) = self.loads.get_mut(load) else { return false };
        let clock = task.clock.get_or_insert_with(|| TaskClock::new(end.started_unix_us));
        let told = clock.report(told, Some(end.wall), self.soak.stall);
        let (cpus, instance) = (task.cpus.clone(), task.id.instance);
        if told.was_set {
            let text = format!("the clock of {host} was set");
            self.merge.push(load, told.elapsed, Item::Mark(MarkKind::ClockSet, text));
        }
        // Ended because the time is over, or by our order.
        if matches!(
            end.kind,
            EndKind::Stopped(_) | EndKind::Killed | EndKind::AgentLost | EndKind::NotReady(_)
        ) {
            return false;
        }
        let Some(role) = self.role(load) else { return false };
        let item = match reading::bad_end(role, &label, &end.kind) {
            Some(bad) => Item::Bad(bad),
            None if role.load == Load::Stream => {
                let text = format!("{label} ended before the time was over, and was started again");
                Item::Mark(MarkKind::Note, text)
            }
            None if end.cut => {
                let text = format!(
                    "what round {number} of {label} found was dropped, because its host could not tell of it for too long"
                );
                Item::Mark(MarkKind::Note, text)
            }
            None => match reading::of_round(role, instance, host, &cpus, end) {
                Ok(reading) => Item::Found(reading),
                Err(bad) => Item::Bad(bad),
            },
        };
        let found = matches!(item, Item::Found(_));
        self.merge.push(load, told.elapsed, item);
        found
    }

    /// Lines of a stream. Says whether one of them has figures.
    pub(super) fn lines(&mut self, load: usize, told: u64, text: &str, dropped: u64) -> bool {
        let Some(spec) = self.role(load).filter(|role| role.load == Load::Stream) else { return false };
        let Some(spec) = spec.measure.clone() else { return false };
        let label = self.label(load);
        let most = self.soak.stall.saturating_mul(2);
        let clock = self.loads.get_mut(load).and_then(|task| task.clock.as_mut());
        let Some(clock) = clock else { return false };
        let told = clock.report(told, None, most);
        if told.was_set {
            let text = format!("the clock of the host of {label} was set");
            self.merge.push(load, told.elapsed, Item::Mark(MarkKind::ClockSet, text));
        }
        if dropped > 0 {
            let text = format!("{dropped} bytes that {label} wrote were too many at once and are not read");
            self.merge.push(load, told.elapsed, Item::Mark(MarkKind::Note, text));
        }
        let readings = text.lines().filter_map(|line| reading::of_line(&spec, line));
        let mut found = false;
        for reading in readings {
            found = true;
            self.merge.push(load, told.elapsed, Item::Found(reading));
        }
        found
    }
}
