//! Host facts, leases and the answer to `Hello`.

use drover_model::{CpuCore, HostFacts, HostFeature, LeaseEpoch, LeaseInfo, Name, RunId};

use crate::{
    ConversionError,
    error::{id, name, required},
    v1,
};

/// What an agent says of itself at the start of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Hello {
    /// Version of the contract that the agent speaks.
    pub protocol: u32,
    /// Version of the agent's program.
    pub agent_version: String,
    /// Facts about its host.
    pub facts: HostFacts,
    /// Who holds the host, if anyone.
    pub lease: Option<LeaseInfo>,
    /// Folder below which every attempt has its own, named by its id.
    pub work_dir: String,
    /// Changes at every start of the agent.
    pub agent_id: String,
    /// The host's name in the certificate of an agent that serves TLS.
    pub host_name: Option<Name>,
}

/// The part of a lease that every request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRef {
    /// The run that holds the host.
    pub run: RunId,
    /// Its epoch; an older one is refused.
    pub epoch: LeaseEpoch,
}

impl From<Hello> for v1::HelloReply {
    fn from(hello: Hello) -> Self {
        Self {
            protocol: hello.protocol,
            agent_version: hello.agent_version,
            facts: Some(hello.facts.into()),
            lease: hello.lease.map(Into::into),
            work_dir: hello.work_dir,
            agent_id: hello.agent_id,
            host_name: hello.host_name.map(|name| name.to_string()),
        }
    }
}

impl TryFrom<v1::HelloReply> for Hello {
    type Error = ConversionError;

    fn try_from(reply: v1::HelloReply) -> Result<Self, ConversionError> {
        Ok(Self {
            protocol: reply.protocol,
            agent_version: reply.agent_version,
            facts: required(reply.facts, "facts")?.into(),
            lease: reply.lease.map(LeaseInfo::try_from).transpose().map_err(|error| error.within("lease"))?,
            work_dir: reply.work_dir,
            agent_id: reply.agent_id,
            host_name: reply.host_name.as_deref().map(|text| name(text, "host_name")).transpose()?,
        })
    }
}

impl From<LeaseRef> for v1::LeaseRef {
    fn from(lease: LeaseRef) -> Self {
        Self { run: lease.run.to_string(), epoch: lease.epoch.0 }
    }
}

impl TryFrom<v1::LeaseRef> for LeaseRef {
    type Error = ConversionError;

    fn try_from(lease: v1::LeaseRef) -> Result<Self, ConversionError> {
        Ok(Self { run: id(&lease.run, "run")?, epoch: LeaseEpoch(lease.epoch) })
    }
}

impl From<LeaseInfo> for v1::Lease {
    fn from(lease: LeaseInfo) -> Self {
        Self {
            run: lease.run.to_string(),
            epoch: lease.epoch.0,
            holder: lease.holder,
            since_unix_ms: lease.since_unix_ms,
        }
    }
}

impl TryFrom<v1::Lease> for LeaseInfo {
    type Error = ConversionError;

    fn try_from(lease: v1::Lease) -> Result<Self, ConversionError> {
        Ok(Self {
            run: id(&lease.run, "run")?,
            epoch: LeaseEpoch(lease.epoch),
            holder: lease.holder,
            since_unix_ms: lease.since_unix_ms,
        })
    }
}

impl From<HostFacts> for v1::HostFacts {
    fn from(facts: HostFacts) -> Self {
        Self {
            hostname: facts.hostname,
            kernel_release: facts.kernel_release,
            kernel_version: facts.kernel_version,
            machine: facts.machine,
            boot_id: facts.boot_id,
            cpus: facts.cpus.into_iter().map(Into::into).collect(),
            cpus_present: facts.cpus_present,
            cpu_model: facts.cpu_model,
            memory_bytes: facts.memory_bytes,
            governor: facts.governor,
            mitigations: settings(facts.mitigations),
            cgroup_version: facts.cgroup_version,
            containment: facts.containment,
            sysctls: settings(facts.sysctls),
            cmdline: facts.cmdline,
            tainted: facts.tainted,
            hypervisor: facts.hypervisor,
            clocksource: facts.clocksource,
            uid: facts.uid,
            state_free_bytes: facts.state_free_bytes,
            open_files_limit: facts.open_files_limit,
            features: facts.features.into_iter().map(Into::into).collect(),
            kernel_build_id: facts.kernel_build_id,
            smt: facts.smt,
        }
    }
}

impl From<v1::HostFacts> for HostFacts {
    fn from(facts: v1::HostFacts) -> Self {
        Self {
            hostname: facts.hostname,
            kernel_release: facts.kernel_release,
            kernel_version: facts.kernel_version,
            machine: facts.machine,
            boot_id: facts.boot_id,
            cpus: facts.cpus.into_iter().map(Into::into).collect(),
            cpus_present: facts.cpus_present,
            cpu_model: facts.cpu_model,
            memory_bytes: facts.memory_bytes,
            governor: facts.governor,
            mitigations: pairs(facts.mitigations),
            cgroup_version: facts.cgroup_version,
            containment: facts.containment,
            sysctls: pairs(facts.sysctls),
            cmdline: facts.cmdline,
            tainted: facts.tainted,
            hypervisor: facts.hypervisor,
            clocksource: facts.clocksource,
            uid: facts.uid,
            state_free_bytes: facts.state_free_bytes,
            open_files_limit: facts.open_files_limit,
            features: facts.features.into_iter().map(Into::into).collect(),
            kernel_build_id: facts.kernel_build_id,
            smt: facts.smt,
        }
    }
}

impl From<CpuCore> for v1::CpuCore {
    fn from(core: CpuCore) -> Self {
        Self { cpu: core.cpu, core: core.core, package: core.package, node: core.node }
    }
}

impl From<v1::CpuCore> for CpuCore {
    fn from(core: v1::CpuCore) -> Self {
        Self { cpu: core.cpu, core: core.core, package: core.package, node: core.node }
    }
}

impl From<HostFeature> for v1::HostFeature {
    fn from(feature: HostFeature) -> Self {
        Self { name: feature.name, missing: feature.missing }
    }
}

impl From<v1::HostFeature> for HostFeature {
    fn from(feature: v1::HostFeature) -> Self {
        Self { name: feature.name, missing: feature.missing }
    }
}

fn settings(pairs: Vec<(String, String)>) -> Vec<v1::Setting> {
    pairs.into_iter().map(|(name, value)| v1::Setting { name, value }).collect()
}

fn pairs(settings: Vec<v1::Setting>) -> Vec<(String, String)> {
    settings.into_iter().map(|setting| (setting.name, setting.value)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, option, prelude::*};

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        "\\PC{0,12}"
    }

    prop_compose! {
        fn facts()(
            texts in vec(text(), 8), cpus in vec((any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>()), 0..5),
            numbers in any::<(u32, u64, u32, u64)>(), optional in (option::of(text()), option::of(text()), option::of(text()), option::of(any::<bool>())),
            mitigations in vec((text(), text()), 0..3), sysctls in vec((text(), text()), 0..3),
            limits in any::<(Option<u32>, Option<u64>, Option<u64>)>(),
            features in vec((text(), option::of(text())), 0..3),
        ) -> HostFacts {
            let mut texts = texts.into_iter();
            let mut next = || texts.next().unwrap_or_default();
            HostFacts {
                hostname: next(), kernel_release: next(), kernel_version: next(), machine: next(),
                boot_id: next(), cpu_model: next(), cmdline: next(), clocksource: next(),
                cpus: cpus.into_iter().map(|(cpu, core, package, node)| CpuCore { cpu, core, package, node }).collect(),
                cpus_present: numbers.0, memory_bytes: numbers.1, cgroup_version: numbers.2, tainted: numbers.3,
                governor: optional.0, hypervisor: optional.1, kernel_build_id: optional.2, smt: optional.3,
                mitigations, sysctls,
                containment: "cgroup2".to_owned(), uid: limits.0, state_free_bytes: limits.1, open_files_limit: limits.2,
                features: features.into_iter().map(|(name, missing)| HostFeature { name, missing }).collect(),
            }
        }
    }

    prop_compose! {
        fn lease()(run: u128, epoch: u64, holder in text(), since_unix_ms: u64) -> LeaseInfo {
            LeaseInfo { run: RunId(uuid::Uuid::from_u128(run)), epoch: LeaseEpoch(epoch), holder, since_unix_ms }
        }
    }

    proptest! {
        #[test]
        fn hello_survives_the_wire(
            protocol: u32, facts in facts(), lease in option::of(lease()), work_dir in text(), agent_id in text(),
            host_name in option::of("[a-z_][a-z0-9_-]{0,9}"),
        ) {
            let host_name = host_name.map(|name| name.parse().unwrap());
            let hello = Hello { protocol, agent_version: "1".into(), facts, lease, work_dir, agent_id, host_name };
            prop_assert_eq!(Hello::try_from(v1::HelloReply::from(hello.clone())), Ok(hello));
        }

        #[test]
        fn lease_refs_survive_the_wire(run: u128, epoch: u64) {
            let lease = LeaseRef { run: RunId(uuid::Uuid::from_u128(run)), epoch: LeaseEpoch(epoch) };
            prop_assert_eq!(LeaseRef::try_from(v1::LeaseRef::from(lease)), Ok(lease));
        }
    }

    #[test]
    fn expect_the_path_of_the_field_when_a_nested_message_is_bad() {
        let lease = v1::Lease { run: "x".into(), ..Default::default() };
        let facts = Some(v1::HostFacts::default());
        let error =
            Hello::try_from(v1::HelloReply { facts, lease: Some(lease), ..Default::default() }).unwrap_err();
        assert_eq!(error.field, "lease.run");
    }
}
