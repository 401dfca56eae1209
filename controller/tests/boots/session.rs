//! A controller by hand: it holds a host, arms kernels and reboots.

use drover_connect::Connection;
use drover_model::{BootOnce, HostFacts};
use drover_proto::{LeaseRef, v1};
use tonic::Status;

use crate::host::Host;

/// A host that is held, in one boot of it.
pub struct Session<'a> {
    host: &'a Host,
    connection: Connection,
    lease: v1::LeaseRef,
}

impl<'a> Session<'a> {
    /// Holds the host for a run, always the same one.
    pub async fn new(host: &'a Host) -> Self {
        Self::on(host, host.agent().await).await
    }

    async fn on(host: &'a Host, mut connection: Connection) -> Self {
        let run = "01938f5e-0000-7000-8000-000000000001".to_owned();
        let request = v1::AcquireLeaseRequest {
            run: run.clone(),
            holder: "tester".to_owned(),
            ttl_ms: 600_000,
            observe_interval_ms: 0,
        };
        let lease = connection.client.acquire_lease(request).await.expect("the host is free").into_inner();
        let lease =
            LeaseRef { run: run.parse().expect("an id"), epoch: drover_model::LeaseEpoch(lease.epoch) }
                .into();
        Self { host, connection, lease }
    }

    /// The host, as it was when it was connected to.
    pub fn facts(&self) -> &HostFacts {
        &self.connection.hello.facts
    }

    /// Arms a kernel; whether the words are taken.
    pub async fn arm(&mut self, boot: BootOnce, nonce: &str, words: &[&str]) -> Result<bool, Status> {
        let request = v1::ArmKernelRequest {
            lease: Some(self.lease.clone()),
            boot: Some(boot.into()),
            nonce: nonce.to_owned(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
        };
        self.connection.client.arm_kernel(request).await.map(|reply| reply.into_inner().words_taken)
    }

    /// Asks for a reboot to what is armed under a nonce.
    pub async fn ask_reboot(&mut self, nonce: &str, command: &[&str]) -> Result<(), Status> {
        let request = v1::RebootRequest {
            lease: Some(self.lease.clone()),
            nonce: nonce.to_owned(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
        };
        self.connection.client.reboot(request).await.map(drop)
    }

    /// Reboots, and holds the host in its next boot.
    pub async fn reboot(mut self, nonce: &str, command: &[&str]) -> Session<'a> {
        self.ask_reboot(nonce, command).await.expect("the host reboots");
        self.next_boot().await
    }

    /// Cuts the host's power, and holds it in its next boot.
    pub async fn cut_power(self) -> Session<'a> {
        self.host.cut_power();
        self.next_boot().await
    }

    async fn next_boot(self) -> Session<'a> {
        let before = self.facts().boot_id.clone();
        let again = |connection: &Connection| connection.hello.facts.boot_id != before;
        let connection = self.host.agent_when("the host is up again", again).await;
        Session::on(self.host, connection).await
    }
}
