//! What an agent observes of its machine.

use std::time::Duration;

use drover_model::{
    AgentEvent, Completeness, Doubt, DoubtKind, HostEvent, HostEventKind, KernelHint, NgCause, TaskEvent,
};

use crate::{
    ConversionError, Problem,
    error::{id, required},
    micros, v1,
};

/// Every way in which a report of the kernel may say that the system under test failed.
const NG: [NgCause; 5] =
    [NgCause::Lockup, NgCause::Panic, NgCause::Oops, NgCause::Hang, NgCause::UnexpectedReboot];

impl From<HostEvent> for v1::TaskEvent {
    fn from(event: HostEvent) -> Self {
        let host = v1::HostEvent { attempt: event.attempt.to_string(), kind: Some(event.kind.into()) };
        Self {
            seq: event.seq,
            task: String::new(),
            at_unix_us: event.at_unix_us,
            kind: Some(v1::task_event::Kind::Host(host)),
        }
    }
}

impl From<AgentEvent> for v1::TaskEvent {
    fn from(event: AgentEvent) -> Self {
        match event {
            AgentEvent::Task(event) => event.into(),
            AgentEvent::Host(event) => event.into(),
        }
    }
}

impl TryFrom<v1::TaskEvent> for AgentEvent {
    type Error = ConversionError;

    fn try_from(event: v1::TaskEvent) -> Result<Self, ConversionError> {
        let v1::TaskEvent { seq, task, at_unix_us, kind } = event;
        match kind {
            Some(v1::task_event::Kind::Host(host)) => {
                let read = |host: v1::HostEvent| -> Result<HostEvent, ConversionError> {
                    let attempt = id(&host.attempt, "attempt")?;
                    let kind = required(host.kind, "kind")?.try_into()?;
                    Ok(HostEvent { seq, attempt, at_unix_us, kind })
                };
                read(host).map(Self::Host).map_err(|error| error.within("host"))
            }
            kind => TaskEvent::try_from(v1::TaskEvent { seq, task, at_unix_us, kind }).map(Self::Task),
        }
    }
}

impl From<HostEventKind> for v1::host_event::Kind {
    fn from(kind: HostEventKind) -> Self {
        match kind {
            HostEventKind::Observing { interval, without } => {
                Self::Observing(v1::Observing { interval_us: micros(interval), without })
            }
            HostEventKind::Kernel { class, severity, hint, first_line, excerpt } => {
                use v1::kernel_report::Hint;
                let hint = match hint {
                    KernelHint::Ng(cause) => Some(Hint::Ng(cause.as_str().to_owned())),
                    KernelHint::Doubt(kind) => Some(Hint::Doubt(kind.as_str().to_owned())),
                    KernelHint::Nothing => None,
                };
                Self::Kernel(v1::KernelReport { class, severity, first_line, excerpt, hint })
            }
            HostEventKind::Tainted { before, after } => Self::Tainted(v1::Tainted { before, after }),
            HostEventKind::Blind { why } => Self::Blind(why),
        }
    }
}

impl TryFrom<v1::host_event::Kind> for HostEventKind {
    type Error = ConversionError;

    fn try_from(kind: v1::host_event::Kind) -> Result<Self, ConversionError> {
        use v1::{host_event::Kind, kernel_report::Hint};
        Ok(match kind {
            Kind::Observing(header) => Self::Observing {
                interval: Duration::from_micros(header.interval_us),
                without: header.without,
            },
            Kind::Kernel(report) => Self::Kernel {
                hint: match report.hint {
                    Some(Hint::Ng(word)) => KernelHint::Ng(ng(&word)?),
                    Some(Hint::Doubt(word)) => KernelHint::Doubt(doubt(&word)?),
                    None => KernelHint::Nothing,
                },
                class: report.class,
                severity: report.severity,
                first_line: report.first_line,
                excerpt: report.excerpt,
            },
            Kind::Tainted(tainted) => Self::Tainted { before: tainted.before, after: tainted.after },
            Kind::Blind(why) => Self::Blind { why },
        })
    }
}

fn ng(word: &str) -> Result<NgCause, ConversionError> {
    let cause = NG.into_iter().find(|cause| cause.as_str() == word);
    cause.ok_or_else(|| ConversionError::new("kernel.ng", Problem::Missing))
}

fn doubt(word: &str) -> Result<DoubtKind, ConversionError> {
    DoubtKind::from_word(word).ok_or_else(|| ConversionError::new("doubt", Problem::Missing))
}

impl From<Doubt> for v1::SensorFlag {
    fn from(doubt: Doubt) -> Self {
        Self { kind: doubt.kind.as_str().to_owned(), text: doubt.detail }
    }
}

impl TryFrom<v1::SensorFlag> for Doubt {
    type Error = ConversionError;

    fn try_from(flag: v1::SensorFlag) -> Result<Self, ConversionError> {
        Ok(Self { kind: doubt(&flag.kind)?, detail: flag.text })
    }
}

impl From<Completeness> for v1::Completeness {
    fn from(completeness: Completeness) -> Self {
        match completeness {
            Completeness::Complete => Self::Complete,
            Completeness::Partial => Self::Partial,
            Completeness::None => Self::None,
        }
    }
}

impl TryFrom<v1::Completeness> for Completeness {
    type Error = ConversionError;

    fn try_from(completeness: v1::Completeness) -> Result<Self, ConversionError> {
        match completeness {
            v1::Completeness::Unspecified => Err(ConversionError::new("completeness", Problem::Missing)),
            v1::Completeness::Complete => Ok(Self::Complete),
            v1::Completeness::Partial => Ok(Self::Partial),
            v1::Completeness::None => Ok(Self::None),
        }
    }
}

#[cfg(test)]
mod tests {
    use drover_model::TaskEventKind;
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::spec::tests::task_id;

    fn text() -> impl Strategy<Value = String> {
        "\\PC{0,12}"
    }

    fn kind() -> impl Strategy<Value = HostEventKind> {
        let hint = prop_oneof![
            prop::sample::select(NG.to_vec()).prop_map(KernelHint::Ng),
            prop::sample::select(DoubtKind::ALL.to_vec()).prop_map(KernelHint::Doubt),
            Just(KernelHint::Nothing),
        ];
        prop_oneof![
            (any::<u64>(), vec(text(), 0..3)).prop_map(|(interval, without)| HostEventKind::Observing {
                interval: Duration::from_micros(interval),
                without,
            }),
            (text(), text(), hint, text(), text()).prop_map(
                |(class, severity, hint, first_line, excerpt)| HostEventKind::Kernel {
                    class,
                    severity,
                    hint,
                    first_line,
                    excerpt,
                }
            ),
            (any::<u64>(), any::<u64>()).prop_map(|(before, after)| HostEventKind::Tainted { before, after }),
            text().prop_map(|why| HostEventKind::Blind { why }),
        ]
    }

    proptest! {
        #[test]
        fn events_of_hosts_survive_the_wire(seq: u64, at_unix_us: u64, task in task_id(), kind in kind()) {
            let event = AgentEvent::Host(HostEvent { seq, attempt: task.attempt, at_unix_us, kind });
            let bytes = prost::Message::encode_to_vec(&v1::TaskEvent::from(event.clone()));
            let decoded: v1::TaskEvent = prost::Message::decode(bytes.as_slice()).unwrap();
            prop_assert!(TaskEvent::try_from(decoded.clone()).is_err());
            prop_assert_eq!(AgentEvent::try_from(decoded), Ok(event));
        }
    }

    #[test]
    fn expect_tasks_told_from_hosts_when_both_come_from_one_stream() {
        let task = "00000000-0000-0000-0000-000000000001.c0r1a1.server.0".parse().unwrap();
        let event = TaskEvent { seq: 3, task, at_unix_us: 4, kind: TaskEventKind::Armed };
        assert_eq!(AgentEvent::try_from(v1::TaskEvent::from(event.clone())), Ok(AgentEvent::Task(event)));
        let kind = v1::host_event::Kind::Kernel(v1::KernelReport {
            hint: Some(v1::kernel_report::Hint::Ng("bored".into())),
            ..Default::default()
        });
        let attempt = "00000000-0000-0000-0000-000000000001.c0r1a1".to_owned();
        let host = v1::HostEvent { attempt, kind: Some(kind) };
        let event = v1::TaskEvent { kind: Some(v1::task_event::Kind::Host(host)), ..Default::default() };
        assert_eq!(AgentEvent::try_from(event).unwrap_err().field, "host.kernel.ng");
    }
}
