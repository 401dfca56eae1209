//! What a controller asks an agent to execute.

use std::time::Duration;

use drover_model::{CpuPart, Placement, ReadyCheck, Rounds, StagedFile, StopPolicy, TaskSpec};

use crate::{
    ConversionError, Problem,
    error::{id, required},
    micros, v1,
};

impl From<TaskSpec> for v1::TaskSpec {
    fn from(spec: TaskSpec) -> Self {
        Self {
            id: spec.id.to_string(),
            argv: spec.argv,
            env: spec.env.into_iter().map(|(name, value)| v1::EnvVar { name, value }).collect(),
            files: spec.files.into_iter().map(Into::into).collect(),
            ready: spec.ready.into_iter().map(Into::into).collect(),
            ready_within_us: micros(spec.ready_within),
            placement: spec.placement.map(Into::into),
            hold: spec.hold,
            deadline_us: micros(spec.deadline),
            stop: Some(spec.stop.into()),
            output_limit: spec.output_limit,
            ports: spec.ports.into_iter().map(u32::from).collect(),
            counters: spec.counters,
            rounds: spec.rounds.map(Into::into),
            progress: spec.progress,
            stall_us: spec.stall.map(micros),
        }
    }
}

impl From<Rounds> for v1::Rounds {
    fn from(rounds: Rounds) -> Self {
        Self {
            for_us: micros(rounds.for_),
            pause_us: micros(rounds.pause),
            deadline_us: micros(rounds.deadline),
            keep_going: rounds.keep_going,
        }
    }
}

impl From<v1::Rounds> for Rounds {
    fn from(rounds: v1::Rounds) -> Self {
        Self {
            for_: Duration::from_micros(rounds.for_us),
            pause: Duration::from_micros(rounds.pause_us),
            deadline: Duration::from_micros(rounds.deadline_us),
            keep_going: rounds.keep_going,
        }
    }
}

impl TryFrom<v1::TaskSpec> for TaskSpec {
    type Error = ConversionError;

    fn try_from(spec: v1::TaskSpec) -> Result<Self, ConversionError> {
        if spec.argv.is_empty() {
            return Err(ConversionError::new("argv", Problem::Missing));
        }
        let ready = spec.ready.into_iter().enumerate().map(|(i, check)| {
            ReadyCheck::try_from(check).map_err(|error| error.within(format_args!("ready[{i}]")))
        });
        let files = spec.files.into_iter().enumerate().map(|(i, file)| {
            StagedFile::try_from(file).map_err(|error| error.within(format_args!("files[{i}]")))
        });
        let placement = spec.placement.map(Placement::try_from).transpose();
        Ok(Self {
            id: id(&spec.id, "id")?,
            argv: spec.argv,
            env: spec.env.into_iter().map(|var| (var.name, var.value)).collect(),
            files: files.collect::<Result<_, _>>()?,
            ready: ready.collect::<Result<_, _>>()?,
            ready_within: Duration::from_micros(spec.ready_within_us),
            placement: placement.map_err(|error| error.within("placement"))?,
            hold: spec.hold,
            deadline: Duration::from_micros(spec.deadline_us),
            stop: required(spec.stop, "stop")?.into(),
            output_limit: spec.output_limit,
            ports: spec.ports.into_iter().map(port).collect::<Result<_, _>>()?,
            counters: spec.counters,
            rounds: spec.rounds.map(Into::into),
            progress: spec.progress,
            stall: spec.stall_us.map(Duration::from_micros),
        })
    }
}

fn port(number: u32) -> Result<u16, ConversionError> {
    match u16::try_from(number) {
        Ok(port) if port != 0 => Ok(port),
        _ => Err(ConversionError::new("ports", Problem::Range(number.into()))),
    }
}

impl From<ReadyCheck> for v1::ReadyCheck {
    fn from(check: ReadyCheck) -> Self {
        use v1::ready_check::Check;
        let check = match check {
            ReadyCheck::Tcp(address) => Check::Tcp(address.to_string()),
            ReadyCheck::Unix(path) => Check::Unix(path),
            ReadyCheck::Log(text) => Check::Log(text),
            ReadyCheck::Http(url) => Check::Http(url),
            ReadyCheck::Command(argv) => Check::Command(v1::Command { argv }),
            ReadyCheck::Processes(count) => Check::Processes(count),
        };
        Self { check: Some(check) }
    }
}

impl TryFrom<v1::ReadyCheck> for ReadyCheck {
    type Error = ConversionError;

    fn try_from(check: v1::ReadyCheck) -> Result<Self, ConversionError> {
        use v1::ready_check::Check;
        Ok(match required(check.check, "check")? {
            Check::Tcp(text) => match text.parse() {
                Ok(address) => Self::Tcp(address),
                Err(error) => return Err(ConversionError::new("tcp", Problem::Address(text, error))),
            },
            Check::Unix(path) => Self::Unix(path),
            Check::Log(text) => Self::Log(text),
            Check::Http(url) => Self::Http(url),
            Check::Command(command) if command.argv.is_empty() => {
                return Err(ConversionError::new("command.argv", Problem::Missing));
            }
            Check::Command(command) => Self::Command(command.argv),
            Check::Processes(count) => Self::Processes(count),
        })
    }
}

impl From<Placement> for v1::Placement {
    fn from(placement: Placement) -> Self {
        let part = match placement.part {
            CpuPart::Inside => v1::CpuPart::Inside,
            CpuPart::Outside => v1::CpuPart::Outside,
        };
        Self { count: placement.count, part: part.into() }
    }
}

impl TryFrom<v1::Placement> for Placement {
    type Error = ConversionError;

    fn try_from(placement: v1::Placement) -> Result<Self, ConversionError> {
        let part = match placement.part() {
            v1::CpuPart::Inside => CpuPart::Inside,
            v1::CpuPart::Outside => CpuPart::Outside,
            v1::CpuPart::Unspecified => return Err(ConversionError::new("part", Problem::Missing)),
        };
        Ok(Self { count: placement.count, part })
    }
}

impl From<StopPolicy> for v1::StopPolicy {
    fn from(stop: StopPolicy) -> Self {
        Self { signal: stop.signal, grace_us: micros(stop.grace) }
    }
}

impl From<v1::StopPolicy> for StopPolicy {
    fn from(stop: v1::StopPolicy) -> Self {
        Self { signal: stop.signal, grace: Duration::from_micros(stop.grace_us) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::SocketAddr;

    use drover_model::{AttemptId, Blob, BlobHash, RunId, TaskId, TrialId};
    use proptest::{collection::vec, option, prelude::*};

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        "\\PC{0,12}"
    }

    fn argv() -> impl Strategy<Value = Vec<String>> {
        vec(text(), 1..4)
    }

    prop_compose! {
        pub(crate) fn task_id()(run: u128, numbers: (u32, u32, u32, u32), role in "[a-z_][a-z0-9_-]{0,9}") -> TaskId {
            TaskId {
                attempt: AttemptId {
                    run: RunId(uuid::Uuid::from_u128(run)),
                    trial: TrialId { cell: numbers.0, repetition: numbers.1 },
                    number: numbers.2,
                },
                role: role.parse().unwrap(),
                instance: numbers.3,
            }
        }
    }

    fn check() -> impl Strategy<Value = ReadyCheck> {
        prop_oneof![
            (any::<std::net::IpAddr>(), any::<u16>()).prop_map(|at| ReadyCheck::Tcp(SocketAddr::from(at))),
            text().prop_map(ReadyCheck::Unix),
            text().prop_map(ReadyCheck::Log),
            text().prop_map(ReadyCheck::Http),
            argv().prop_map(ReadyCheck::Command),
            any::<u32>().prop_map(ReadyCheck::Processes),
        ]
    }

    fn duration() -> impl Strategy<Value = Duration> {
        any::<u64>().prop_map(Duration::from_micros)
    }

    prop_compose! {
        fn file()(path in text(), contents: Vec<u8>, executable: bool, blob: Option<([u8; 32], u64)>) -> StagedFile {
            let blob = blob.map(|(hash, size)| Blob { hash: BlobHash(hash), size });
            let contents = if blob.is_some() { Vec::new() } else { contents };
            StagedFile { path, contents, executable, blob }
        }
    }

    prop_compose! {
        fn placement()(count: u32, inside: bool) -> Placement {
            Placement { count, part: if inside { CpuPart::Inside } else { CpuPart::Outside } }
        }
    }

    prop_compose! {
        fn rounds()(times in (duration(), duration(), duration()), keep_going: bool) -> Rounds {
            Rounds { for_: times.0, pause: times.1, deadline: times.2, keep_going }
        }
    }

    prop_compose! {
        fn spec()(
            id in task_id(), argv in argv(), env in vec((text(), text()), 0..3), files in vec(file(), 0..3),
            ready in vec(check(), 0..4), times in (duration(), duration(), duration()), signal: i32,
            placement in option::of(placement()), flags: (bool, bool, bool), rounds in option::of(rounds()),
            stall in option::of(duration()), output_limit: u64, ports in vec(1_u16.., 0..3),
        ) -> TaskSpec {
            TaskSpec {
                id, argv, env, files, ready, ready_within: times.0, placement, hold: flags.0, deadline: times.1,
                stop: StopPolicy { signal, grace: times.2 }, output_limit, ports, counters: flags.1, rounds,
                progress: flags.2, stall,
            }
        }
    }

    proptest! {
        #[test]
        fn specs_survive_the_wire(spec in spec()) {
            let bytes = prost::Message::encode_to_vec(&v1::TaskSpec::from(spec.clone()));
            let decoded: v1::TaskSpec = prost::Message::decode(bytes.as_slice()).unwrap();
            prop_assert_eq!(TaskSpec::try_from(decoded), Ok(spec));
        }

        #[test]
        fn a_bad_check_is_named_with_its_place(mut good in spec(), at in 0_usize..4) {
            let at = at.min(good.ready.len());
            good.ready.insert(at, ReadyCheck::Processes(1));
            let mut sent = v1::TaskSpec::from(good);
            sent.ready[at] = v1::ReadyCheck { check: Some(v1::ready_check::Check::Tcp("nowhere".into())) };
            let error = TaskSpec::try_from(sent).unwrap_err();
            prop_assert_eq!(error.field, format!("ready[{at}].tcp"));
        }
    }

    #[test]
    fn expect_a_named_field_when_a_required_part_is_missing() {
        let id = "00000000-0000-0000-0000-000000000001.c0r1a1.server.0".to_owned();
        let spec = v1::TaskSpec { id, argv: vec!["true".into()], ..Default::default() };
        assert_eq!(TaskSpec::try_from(spec.clone()).unwrap_err().field, "stop");
        let spec = v1::TaskSpec { stop: Some(v1::StopPolicy::default()), ports: vec![65_536], ..spec };
        assert_eq!(TaskSpec::try_from(spec.clone()).unwrap_err().field, "ports");
        let placement = Some(v1::Placement { count: 1, part: 9 });
        let spec = v1::TaskSpec { ports: vec![], placement, ..spec };
        assert_eq!(TaskSpec::try_from(spec.clone()).unwrap_err().field, "placement.part");
        assert_eq!(TaskSpec::try_from(v1::TaskSpec { argv: vec![], ..spec }).unwrap_err().field, "argv");
    }
}
