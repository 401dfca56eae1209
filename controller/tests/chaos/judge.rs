//! Compares what the store says with what truly ran. Pure.

use std::collections::{BTreeMap, BTreeSet};

use drover_model::{AttemptId, RunId, TrialId, Verdict};
use drover_store::AttemptRecord;

use crate::history::History;

/// Attempts that are told of, of those with the same cause.
const TOLD: usize = 4;

/// What went wrong in a round, as far as it hit something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Harm {
    pub controller_kills: u64,
    pub agent_kills: u64,
    pub task_kills: u64,
    pub interrupts: u64,
    /// Anything that takes time from somebody: stops, cuts, sshd.
    pub delays: u64,
    pub store_fills: u64,
    pub store_breaks: u64,
    pub agent_fills: u64,
    pub clock_sets: u64,
}

impl Harm {
    pub fn add(&mut self, other: Self) {
        self.controller_kills += other.controller_kills;
        self.agent_kills += other.agent_kills;
        self.task_kills += other.task_kills;
        self.interrupts += other.interrupts;
        self.delays += other.delays;
        self.store_fills += other.store_fills;
        self.store_breaks += other.store_breaks;
        self.agent_fills += other.agent_fills;
        self.clock_sets += other.clock_sets;
    }

    /// How many attempts may have failed with this cause; `None` if the harm does not allow to say.
    fn allows(&self, cause: &str) -> Option<u64> {
        let unbounded = |when: bool| if when { None } else { Some(0) };
        match cause {
            // A kill of an agent ends the attempt that runs on its host, no other.
            "agent-lost" if self.agent_fills == 0 => Some(self.agent_kills),
            "agent-lost" => None,
            "crash" | "script" => Some(self.task_kills),
            // A controller that cannot store any more ends what runs.
            "cancelled" => unbounded(self.interrupts + self.store_fills + self.store_breaks > 0),
            "disk-full" => unbounded(self.store_fills + self.agent_fills > 0),
            "start-skew" => unbounded(self.controller_kills + self.agent_kills + self.delays > 0),
            "lost-host" | "host-unavailable" | "internal" => unbounded(self.agent_fills > 0),
            _ => Some(0),
        }
    }
}

/// What was planned.
pub struct Planned {
    pub run: RunId,
    pub cells: u32,
    /// The tasks that log themselves and measure.
    pub jobs: Vec<(&'static str, u32)>,
}

/// Everything that is not as it must be, in words; empty when all holds.
pub fn judge(planned: &Planned, stored: &[AttemptRecord], history: &History, harm: &Harm) -> Vec<String> {
    let mut wrong: Vec<String> =
        history.strange.iter().map(|line| format!("a job logged `{line}`")).collect();
    verdicts(planned, stored, &mut wrong);
    executions(stored, history, &mut wrong);
    figures(planned, stored, history, &mut wrong);
    excuses(stored, harm, &mut wrong);
    wrong
}

/// Every planned trial has one final verdict, its last; no other trial has any; nothing follows on a number.
fn verdicts(planned: &Planned, stored: &[AttemptRecord], wrong: &mut Vec<String>) {
    let mut trials: BTreeMap<TrialId, Vec<&AttemptRecord>> =
        (0..planned.cells).map(|cell| (TrialId { cell, repetition: 1 }, Vec::new())).collect();
    for attempt in stored {
        match trials.get_mut(&attempt.id.trial).filter(|_| attempt.id.run == planned.run) {
            Some(attempts) => attempts.push(attempt),
            None => wrong.push(format!("{} was not planned", attempt.id)),
        }
    }
    for (trial, mut attempts) in trials {
        attempts.sort_by_key(|attempt| attempt.id.number);
        let numbers: Vec<u32> = attempts.iter().map(|attempt| attempt.id.number).collect();
        let finals: Vec<u32> =
            attempts.iter().filter(|attempt| attempt.is_final).map(|attempt| attempt.id.number).collect();
        if finals.len() != 1 || finals.last() != numbers.last() {
            wrong.push(format!("{trial} has the attempts {numbers:?}, of which {finals:?} are final"));
        }
        if !numbers.iter().copied().eq(1..=u32::try_from(numbers.len()).unwrap_or(0)) {
            wrong.push(format!("{trial} has the attempts {numbers:?}, with gaps"));
        }
        let counted = attempts.iter().filter(|attempt| attempt.verdict.outcome().has_number()).count();
        if counted > 1 {
            wrong.push(format!("{trial} counts {counted} times"));
        }
    }
}

/// The command of an attempt ran at most once, and never without a record.
fn executions(stored: &[AttemptRecord], history: &History, wrong: &mut Vec<String>) {
    for (task, times) in history.begun.iter().filter(|(_, times)| **times > 1) {
        wrong.push(format!("{task} was executed {times} times"));
    }
    let known: BTreeSet<AttemptId> = stored.iter().map(|attempt| attempt.id).collect();
    for attempt in history.attempts().difference(&known) {
        wrong.push(format!("{attempt} was executed and is not stored"));
    }
}

/// Every number is the one that the jobs themselves logged.
fn figures(planned: &Planned, stored: &[AttemptRecord], history: &History, wrong: &mut Vec<String>) {
    for attempt in stored {
        let shown = attempt.metrics.first().map(|(_, value)| *value);
        if !attempt.verdict.outcome().has_number() {
            if shown.is_some() {
                wrong.push(format!("{} is {} and has a number", attempt.id, attempt.verdict.cause()));
            }
            continue;
        }
        let truth = history.figure(attempt.id, &planned.jobs);
        let same = truth.is_some() && truth.map(f64::to_bits) == shown.map(f64::to_bits);
        if !same {
            wrong.push(format!("{} has the number {shown:?}, its jobs logged {truth:?}", attempt.id));
        }
    }
}

/// Every failure has a cause in what was done to the round, and there are no more of them than that explains.
fn excuses(stored: &[AttemptRecord], harm: &Harm, wrong: &mut Vec<String>) {
    let mut causes: BTreeMap<&str, Vec<&AttemptRecord>> = BTreeMap::new();
    for attempt in stored.iter().filter(|attempt| !attempt.verdict.outcome().has_number()) {
        causes.entry(attempt.verdict.cause()).or_default().push(attempt);
    }
    // A killed task is a crash of a server or a failed script of a client.
    let killed: usize = ["crash", "script"].iter().filter_map(|cause| causes.get(cause)).map(Vec::len).sum();
    for (cause, attempts) in &causes {
        let count = if matches!(*cause, "crash" | "script") { killed } else { attempts.len() };
        let Some(most) = harm.allows(cause) else { continue };
        if u64::try_from(count).is_ok_and(|count| count > most) {
            let which: Vec<String> = attempts.iter().take(TOLD).map(|attempt| told(attempt)).collect();
            wrong.push(format!("{count} attempts are {cause}, {most} are explained: {}", which.join("; ")));
        }
    }
}

fn told(attempt: &AttemptRecord) -> String {
    format!("{} ({})", attempt.id.trial, first_line(&attempt.verdict))
}

fn first_line(verdict: &Verdict) -> String {
    verdict.detail().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use drover_model::ErrorCause;

    use super::*;

    fn run() -> RunId {
        RunId(uuid::Uuid::from_u128(1))
    }

    fn id(cell: u32, number: u32) -> AttemptId {
        AttemptId { run: run(), trial: TrialId { cell, repetition: 1 }, number }
    }

    fn attempt(
        cell: u32,
        number: u32,
        verdict: Verdict,
        is_final: bool,
        value: Option<f64>,
    ) -> AttemptRecord {
        AttemptRecord {
            id: id(cell, number),
            hosts: vec![],
            boot_ids: vec![],
            started_unix_us: 0,
            elapsed: Duration::ZERO,
            verdict,
            is_final,
            metrics: value.map(|value| ("value".parse().unwrap(), value)).into_iter().collect(),
            tasks: vec![],
            start_skew_us: None,
        }
    }

    fn lost() -> Verdict {
        Verdict::Error { cause: ErrorCause::AgentLost, detail: "gone".to_owned() }
    }

    /// Two trials; the first needed two attempts because an agent was killed.
    struct Case {
        planned: Planned,
        stored: Vec<AttemptRecord>,
        history: History,
        harm: Harm,
    }

    impl Case {
        fn sound() -> Self {
            let mut history = History::default();
            for (cell, number) in [(0, 1), (0, 2), (1, 1)] {
                history.line(&format!("begin {} job.0 4000", id(cell, number)));
            }
            history.line(&format!("end {} job.0 70", id(0, 2)));
            history.line(&format!("end {} job.0 71", id(1, 1)));
            Self {
                planned: Planned { run: run(), cells: 2, jobs: vec![("job", 0)] },
                stored: vec![
                    attempt(0, 1, lost(), false, None),
                    attempt(0, 2, Verdict::Ok, true, Some(70.0)),
                    attempt(1, 1, Verdict::Ok, true, Some(71.0)),
                ],
                history,
                harm: Harm { agent_kills: 1, ..Harm::default() },
            }
        }

        fn wrong(&self) -> Vec<String> {
            judge(&self.planned, &self.stored, &self.history, &self.harm)
        }

        #[track_caller]
        fn says(&self, text: &str) {
            let wrong = self.wrong();
            assert!(wrong.iter().any(|one| one.contains(text)), "{wrong:?}");
        }
    }

    #[test]
    fn expect_no_complaint_when_the_store_tells_the_truth() {
        let case = Case::sound();
        assert_eq!(case.wrong(), [""; 0]);
        assert_eq!(case.history.ports, BTreeSet::from([4000]));
    }

    #[test]
    fn expect_a_complaint_when_a_trial_has_no_verdict_or_two() {
        let mut case = Case::sound();
        case.stored.pop();
        case.says("c1r1 has the attempts [], of which [] are final");
        case.says("was executed and is not stored");
        let mut case = Case::sound();
        case.stored[0].is_final = true;
        case.says("of which [1, 2] are final");
        case.stored[0] = attempt(0, 1, Verdict::Ok, false, Some(1.0));
        case.says("counts 2 times");
        case.stored.remove(0);
        case.says("with gaps");
        let mut case = Case::sound();
        case.stored.push(attempt(2, 1, Verdict::Ok, true, Some(1.0)));
        case.says("was not planned");
    }

    #[test]
    fn expect_a_complaint_when_an_attempt_ran_twice_or_its_number_is_not_its_own() {
        let mut case = Case::sound();
        case.history.line(&format!("begin {} job.0 0", id(1, 1)));
        case.says("was executed 2 times");
        let mut case = Case::sound();
        case.stored[2].metrics[0].1 = 70.0;
        case.says("has the number Some(70.0), its jobs logged Some(71.0)");
        let mut case = Case::sound();
        case.history.line(&format!("end {} job.0 71", id(1, 1)));
        case.says("its jobs logged None");
        case.history.line("nonsense");
        case.says("logged `nonsense`");
    }

    #[test]
    fn expect_a_complaint_when_a_failure_has_no_excuse() {
        let mut case = Case::sound();
        case.harm = Harm { controller_kills: 9, ..Harm::default() };
        case.says("1 attempts are agent-lost, 0 are explained: c0r1 (gone)");
        case.stored[0].verdict = Verdict::Error { cause: ErrorCause::Parse, detail: String::new() };
        case.says("1 attempts are parse");
    }
}
