//! Opens the barrier of an attempt on several hosts at one instant: estimates their clocks, agrees on a time that all of them
//! can still be told of, and orders each to release its tasks when its own clock says so.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use drover_model::{AttemptId, Name};
use drover_proto::v1;
use drover_sched::Event;
use tokio::{task::JoinSet, time::timeout};
use tonic::Status;

use super::{
    clock::{ClockOffset, ClockProbe, Offset, joint_error},
    internal_event::InternalEvent,
    link::{Client, PATIENCE, failed},
};

/// Probes of each host before a release.
const PROBES: u32 = 8;
/// No further probe after this time: on a slow line the probes cost more than they tell.
const PROBE_TIME: Duration = Duration::from_millis(400);
/// Time that an order takes to be carried out, beyond its way to the host.
const SLACK: Duration = Duration::from_millis(4);
/// Longest time ahead that a release is ordered.
const MAX_AHEAD: Duration = Duration::from_secs(5);

/// One host with tasks at the barrier.
#[derive(Clone)]
pub struct Member {
    pub host: Name,
    pub generation: u64,
    pub client: Client,
    pub lease: v1::LeaseRef,
    /// What is known of its clock; shared by all that probe it.
    pub clock: Arc<Mutex<ClockOffset>>,
}

/// Where and why it did not work.
struct Broken {
    host: Name,
    generation: u64,
    status: Status,
}

/// Releases the held tasks of an attempt on all its hosts. `clock` is the origin of the controller's clock.
pub async fn release(attempt: AttemptId, members: Vec<Member>, clock: Instant) -> InternalEvent {
    let opened = async {
        let probed = on_each(&members, |member| probe(member, clock)).await?;
        let now = nanos(clock);
        let way = probed.into_iter().max().unwrap_or_default();
        let at = now.saturating_add(in_nanos((way + SLACK).min(MAX_AHEAD)));
        on_each(&members, |member| order(member, attempt, at, now)).await?;
        // Until then the clocks may drift.
        let offsets = members.iter().filter_map(|member| member.locked().estimate(at));
        Ok(joint_error(&offsets.collect::<Vec<Offset>>()))
    };
    match opened.await {
        Ok(error) => {
            let error_us = u64::try_from(error.as_micros()).unwrap_or(u64::MAX);
            InternalEvent::Scheduler(Event::BarrierReleased { attempt, error_us })
        }
        Err(Broken { host, generation, status }) => failed(host, generation, &status, |why| {
            InternalEvent::Scheduler(Event::BarrierFailed { attempt, why })
        }),
    }
}

impl Member {
    fn locked(&self) -> std::sync::MutexGuard<'_, ClockOffset> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn broken(&self, status: Status) -> Broken {
        Broken { host: self.host.clone(), generation: self.generation, status }
    }
}

/// Does the same with every member, all at a time.
async fn on_each<F, T>(members: &[Member], work: impl Fn(Member) -> F) -> Result<Vec<T>, Broken>
where
    F: Future<Output = Result<T, Broken>> + Send + 'static,
    T: Send + 'static,
{
    let mut set = JoinSet::new();
    members.iter().cloned().for_each(|member| drop(set.spawn(work(member))));
    let mut results = Vec::with_capacity(members.len());
    while let Some(done) = set.join_next().await {
        if let Ok(result) = done {
            results.push(result?);
        }
    }
    Ok(results)
}

/// Probes the clock of a host some times. Gives the longest round trip seen.
async fn probe(member: Member, clock: Instant) -> Result<Duration, Broken> {
    let begun = Instant::now();
    let mut longest = Duration::ZERO;
    let mut client = member.client.clone();
    for _ in 0..PROBES {
        let sent = nanos(clock);
        let reply = timeout(PATIENCE, client.probe_clock(v1::ProbeClockRequest {})).await;
        let received = nanos(clock);
        let silent = |_| Status::deadline_exceeded("its clock was asked for and it did not answer");
        let reading = match reply.map_err(silent).and_then(|reply| reply) {
            Ok(reply) => reply.into_inner().monotonic_ns,
            Err(status) => return Err(member.broken(status)),
        };
        member.locked().add(ClockProbe { sent, received, reading });
        longest = longest.max(Duration::from_nanos(received.saturating_sub(sent)));
        if begun.elapsed() > PROBE_TIME {
            break;
        }
    }
    Ok(longest)
}

/// Orders a host to release at `at` of the controller's clock, which shows `now`.
async fn order(member: Member, attempt: AttemptId, at: u64, now: u64) -> Result<(), Broken> {
    let offset = member.locked().estimate(now).map_or(0, |offset| offset.nanos);
    // 0 would mean at once.
    let at_monotonic_ns = u64::try_from(i128::from(at).saturating_add(offset)).unwrap_or(0).max(1);
    let request = v1::ReleaseBarrierRequest {
        lease: Some(member.lease.clone()),
        attempt: attempt.to_string(),
        at_monotonic_ns,
    };
    let mut client = member.client.clone();
    client.release_barrier(request).await.map(drop).map_err(|status| member.broken(status))
}

fn nanos(clock: Instant) -> u64 {
    in_nanos(clock.elapsed())
}

fn in_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
