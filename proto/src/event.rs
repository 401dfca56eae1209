//! What an agent reports of its tasks.

use std::time::Duration;

use drover_model::{
    Counters, EndKind, NotStarted, OutputSummary, RoundEnd, TaskEnd, TaskEvent, TaskEventKind, Usage,
};

use crate::{
    ConversionError, Problem,
    error::{id, required},
    micros, v1,
};

impl From<TaskEvent> for v1::TaskEvent {
    fn from(event: TaskEvent) -> Self {
        use v1::task_event::Kind;
        let kind = match event.kind {
            TaskEventKind::Started { pid, cpus } => Kind::Started(v1::Started { pid, cpus }),
            TaskEventKind::Armed => Kind::Armed(v1::Armed {}),
            TaskEventKind::Released { late_us } => Kind::Released(v1::Released { late_us }),
            TaskEventKind::Ready { after } => Kind::Ready(v1::Ready { after_us: micros(after) }),
            TaskEventKind::Round { number, end } => Kind::Round(round(number, end)),
            TaskEventKind::Lines { at_unix_us, text, dropped } => {
                Kind::Lines(v1::Lines { at_unix_us, text, dropped })
            }
            TaskEventKind::Stalled { for_, what } => {
                Kind::Stalled(v1::Stalled { for_us: micros(for_), what })
            }
            TaskEventKind::Ended(end) => Kind::Ended(end.into()),
        };
        Self { seq: event.seq, task: event.task.to_string(), at_unix_us: event.at_unix_us, kind: Some(kind) }
    }
}

impl TryFrom<v1::TaskEvent> for TaskEvent {
    type Error = ConversionError;

    fn try_from(event: v1::TaskEvent) -> Result<Self, ConversionError> {
        use v1::task_event::Kind;
        let kind = match required(event.kind, "kind")? {
            Kind::Started(started) => TaskEventKind::Started { pid: started.pid, cpus: started.cpus },
            Kind::Armed(_) => TaskEventKind::Armed,
            Kind::Released(released) => TaskEventKind::Released { late_us: released.late_us },
            Kind::Ready(ready) => TaskEventKind::Ready { after: Duration::from_micros(ready.after_us) },
            Kind::Round(round) => TaskEventKind::Round {
                number: round.number,
                end: round.try_into().map_err(|error: ConversionError| error.within("round"))?,
            },
            Kind::Lines(lines) => TaskEventKind::Lines {
                at_unix_us: lines.at_unix_us,
                text: lines.text,
                dropped: lines.dropped,
            },
            Kind::Stalled(stalled) => {
                TaskEventKind::Stalled { for_: Duration::from_micros(stalled.for_us), what: stalled.what }
            }
            Kind::Host(_) => return Err(ConversionError::new("kind", Problem::Missing)),
            Kind::Ended(end) => {
                TaskEventKind::Ended(end.try_into().map_err(|error: ConversionError| error.within("ended"))?)
            }
        };
        Ok(Self { seq: event.seq, task: id(&event.task, "task")?, at_unix_us: event.at_unix_us, kind })
    }
}

fn round(number: u64, end: RoundEnd) -> v1::Round {
    v1::Round {
        number,
        kind: Some(end.kind.into()),
        wall_us: micros(end.wall),
        usage: Some(end.usage.into()),
        started_unix_us: end.started_unix_us,
        stdout: Some(end.stdout.into()),
        stderr: Some(end.stderr.into()),
        cut: end.cut,
    }
}

impl TryFrom<v1::Round> for RoundEnd {
    type Error = ConversionError;

    fn try_from(round: v1::Round) -> Result<Self, ConversionError> {
        let kind = EndKind::try_from(required(round.kind, "kind")?).map_err(|error| error.within("kind"))?;
        Ok(Self {
            kind,
            wall: Duration::from_micros(round.wall_us),
            usage: required(round.usage, "usage")?.into(),
            started_unix_us: round.started_unix_us,
            stdout: required(round.stdout, "stdout")?.into(),
            stderr: required(round.stderr, "stderr")?.into(),
            cut: round.cut,
        })
    }
}

impl From<TaskEnd> for v1::TaskEnd {
    fn from(end: TaskEnd) -> Self {
        Self {
            kind: Some(end.kind.into()),
            wall_us: micros(end.wall),
            usage: Some(end.usage.into()),
            stdout: Some(end.stdout.into()),
            stderr: Some(end.stderr.into()),
            cpus: end.cpus,
            leftovers: end.leftovers,
            counters: end.counters.map(Into::into),
        }
    }
}

impl TryFrom<v1::TaskEnd> for TaskEnd {
    type Error = ConversionError;

    fn try_from(end: v1::TaskEnd) -> Result<Self, ConversionError> {
        let kind = EndKind::try_from(required(end.kind, "kind")?).map_err(|error| error.within("kind"))?;
        Ok(Self {
            kind,
            wall: Duration::from_micros(end.wall_us),
            usage: required(end.usage, "usage")?.into(),
            stdout: required(end.stdout, "stdout")?.into(),
            stderr: required(end.stderr, "stderr")?.into(),
            cpus: end.cpus,
            leftovers: end.leftovers,
            counters: end.counters.map(Into::into),
        })
    }
}

impl From<EndKind> for v1::EndKind {
    fn from(kind: EndKind) -> Self {
        use v1::end_kind::Kind;
        let kind = match kind {
            EndKind::Exited(status) => Kind::Exited(status),
            EndKind::Signaled(signal) => Kind::Signaled(signal),
            EndKind::Stopped(status) => Kind::Stopped(v1::Stopped { status }),
            EndKind::Killed => Kind::Killed(v1::Killed {}),
            EndKind::Deadline => Kind::Deadline(v1::Deadline {}),
            EndKind::NotReady(why) => Kind::NotReady(why),
            EndKind::NotStarted(cause, detail) => {
                Kind::NotStarted(v1::NotStarted { cause: v1::NotStartedCause::from(cause).into(), detail })
            }
            EndKind::AgentLost => Kind::AgentLost(v1::AgentLost {}),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<v1::EndKind> for EndKind {
    type Error = ConversionError;

    fn try_from(kind: v1::EndKind) -> Result<Self, ConversionError> {
        use v1::end_kind::Kind;
        Ok(match required(kind.kind, "kind")? {
            Kind::Exited(status) => Self::Exited(status),
            Kind::Signaled(signal) => Self::Signaled(signal),
            Kind::Stopped(stopped) => Self::Stopped(stopped.status),
            Kind::Killed(_) => Self::Killed,
            Kind::Deadline(_) => Self::Deadline,
            Kind::NotReady(why) => Self::NotReady(why),
            Kind::NotStarted(not) => Self::NotStarted(not.cause().try_into()?, not.detail),
            Kind::AgentLost(_) => Self::AgentLost,
        })
    }
}

impl From<NotStarted> for v1::NotStartedCause {
    fn from(cause: NotStarted) -> Self {
        match cause {
            NotStarted::NotFound => Self::NotFound,
            NotStarted::Permission => Self::Permission,
            NotStarted::PortTaken => Self::PortTaken,
            NotStarted::DiskFull => Self::DiskFull,
            NotStarted::WrongCpus => Self::WrongCpus,
            NotStarted::Cancelled => Self::Cancelled,
            NotStarted::Other => Self::Other,
        }
    }
}

impl TryFrom<v1::NotStartedCause> for NotStarted {
    type Error = ConversionError;

    fn try_from(cause: v1::NotStartedCause) -> Result<Self, ConversionError> {
        Ok(match cause {
            v1::NotStartedCause::Unspecified => {
                return Err(ConversionError::new("not_started.cause", Problem::Missing));
            }
            v1::NotStartedCause::NotFound => Self::NotFound,
            v1::NotStartedCause::Permission => Self::Permission,
            v1::NotStartedCause::PortTaken => Self::PortTaken,
            v1::NotStartedCause::DiskFull => Self::DiskFull,
            v1::NotStartedCause::WrongCpus => Self::WrongCpus,
            v1::NotStartedCause::Cancelled => Self::Cancelled,
            v1::NotStartedCause::Other => Self::Other,
        })
    }
}

impl From<Usage> for v1::Usage {
    fn from(usage: Usage) -> Self {
        Self {
            user_us: micros(usage.user),
            system_us: micros(usage.system),
            max_rss_bytes: usage.max_rss_bytes,
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
        }
    }
}

impl From<v1::Usage> for Usage {
    fn from(usage: v1::Usage) -> Self {
        Self {
            user: Duration::from_micros(usage.user_us),
            system: Duration::from_micros(usage.system_us),
            max_rss_bytes: usage.max_rss_bytes,
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
        }
    }
}

impl From<OutputSummary> for v1::OutputSummary {
    fn from(output: OutputSummary) -> Self {
        Self { written: output.written, kept: output.kept, inline: output.inline.map(Into::into) }
    }
}

impl From<v1::OutputSummary> for OutputSummary {
    fn from(output: v1::OutputSummary) -> Self {
        Self { written: output.written, kept: output.kept, inline: output.inline.map(Into::into) }
    }
}

impl From<Counters> for v1::Counters {
    fn from(counters: Counters) -> Self {
        Self {
            context_switches: counters.context_switches,
            listen_overflows: counters.listen_overflows,
            listen_drops: counters.listen_drops,
            retransmits: counters.retransmits,
            time_wait_overflows: counters.time_wait_overflows,
            steal_us: counters.steal_us,
        }
    }
}

impl From<v1::Counters> for Counters {
    fn from(counters: v1::Counters) -> Self {
        Self {
            context_switches: counters.context_switches,
            listen_overflows: counters.listen_overflows,
            listen_drops: counters.listen_drops,
            retransmits: counters.retransmits,
            time_wait_overflows: counters.time_wait_overflows,
            steal_us: counters.steal_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{option, prelude::*};

    use super::*;
    use crate::spec::tests::task_id;

    fn duration() -> impl Strategy<Value = Duration> {
        any::<u64>().prop_map(Duration::from_micros)
    }

    fn end_kind() -> impl Strategy<Value = EndKind> {
        let not_started = prop_oneof![
            Just(NotStarted::NotFound),
            Just(NotStarted::Permission),
            Just(NotStarted::PortTaken),
            Just(NotStarted::DiskFull),
            Just(NotStarted::WrongCpus),
            Just(NotStarted::Cancelled),
            Just(NotStarted::Other),
        ];
        prop_oneof![
            any::<i32>().prop_map(EndKind::Exited),
            any::<i32>().prop_map(EndKind::Signaled),
            any::<Option<i32>>().prop_map(EndKind::Stopped),
            Just(EndKind::Killed),
            Just(EndKind::Deadline),
            "\\PC{0,12}".prop_map(EndKind::NotReady),
            (not_started, "\\PC{0,12}").prop_map(|(cause, detail)| EndKind::NotStarted(cause, detail)),
            Just(EndKind::AgentLost),
        ]
    }

    prop_compose! {
        fn output()(written: u64, kept: u64, inline in option::of(any::<Vec<u8>>())) -> OutputSummary {
            OutputSummary { written, kept, inline }
        }
    }

    prop_compose! {
        fn usage()(user in duration(), system in duration(), numbers: (u64, u64, u64)) -> Usage {
            Usage {
                user, system, max_rss_bytes: numbers.0, voluntary_switches: numbers.1, involuntary_switches: numbers.2,
            }
        }
    }

    fn counters(n: [u64; 6]) -> Counters {
        Counters {
            context_switches: n[0],
            listen_overflows: n[1],
            listen_drops: n[2],
            retransmits: n[3],
            time_wait_overflows: n[4],
            steal_us: n[5],
        }
    }

    prop_compose! {
        fn end()(
            kind in end_kind(), wall in duration(), usage in usage(), outputs in (output(), output()),
            cpus in "[0-9,-]{0,9}", leftovers: u32, counted: Option<[u64; 6]>,
        ) -> TaskEnd {
            let (stdout, stderr) = outputs;
            TaskEnd { kind, wall, usage, stdout, stderr, cpus, leftovers, counters: counted.map(counters) }
        }
    }

    prop_compose! {
        fn round_end()(
            kind in end_kind(), wall in duration(), usage in usage(), started_unix_us: u64,
            outputs in (output(), output()), cut: bool,
        ) -> RoundEnd {
            let (stdout, stderr) = outputs;
            RoundEnd { kind, wall, usage, started_unix_us, stdout, stderr, cut }
        }
    }

    fn event_kind() -> impl Strategy<Value = TaskEventKind> {
        prop_oneof![
            (any::<u64>(), round_end()).prop_map(|(number, end)| TaskEventKind::Round { number, end }),
            (any::<u64>(), "\\PC{0,12}", any::<u64>())
                .prop_map(|(at_unix_us, text, dropped)| TaskEventKind::Lines { at_unix_us, text, dropped }),
            (duration(), "\\PC{0,12}").prop_map(|(for_, what)| TaskEventKind::Stalled { for_, what }),
            (any::<u32>(), "[0-9,-]{0,9}").prop_map(|(pid, cpus)| TaskEventKind::Started { pid, cpus }),
            Just(TaskEventKind::Armed),
            any::<u64>().prop_map(|late_us| TaskEventKind::Released { late_us }),
            duration().prop_map(|after| TaskEventKind::Ready { after }),
            end().prop_map(TaskEventKind::Ended),
        ]
    }

    proptest! {
        #[test]
        fn events_survive_the_wire(seq: u64, at_unix_us: u64, task in task_id(), kind in event_kind()) {
            let event = TaskEvent { seq, task, at_unix_us, kind };
            let bytes = prost::Message::encode_to_vec(&v1::TaskEvent::from(event.clone()));
            let decoded: v1::TaskEvent = prost::Message::decode(bytes.as_slice()).unwrap();
            prop_assert_eq!(TaskEvent::try_from(decoded), Ok(event));
        }

        #[test]
        fn no_bytes_make_the_conversion_panic(bytes: Vec<u8>) {
            if let Ok(decoded) = <v1::TaskEvent as prost::Message>::decode(bytes.as_slice()) {
                let _ = TaskEvent::try_from(decoded);
            }
        }
    }

    #[test]
    fn expect_the_path_of_the_field_when_an_end_has_no_usage() {
        let end = v1::TaskEnd {
            kind: Some(EndKind::Killed.into()),
            stdout: Some(v1::OutputSummary::default()),
            ..Default::default()
        };
        let event = v1::TaskEvent { kind: Some(v1::task_event::Kind::Ended(end)), ..Default::default() };
        assert_eq!(TaskEvent::try_from(event).unwrap_err().field, "ended.usage");
    }
}
