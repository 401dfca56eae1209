//! Releases held tasks at one instant. Used by the service for `ReleaseBarrier`.
//!
//! tokio's timers count milliseconds, so a timerfd waits for the instant. The tasks are then woken in one turn of the
//! event loop; each opens its own gate and gives the loop to the next before it waits for its `exec`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::sync::watch;

use crate::{fd, task::Wish, text::chain};

/// Opens the gates when `CLOCK_MONOTONIC` reaches `at_ns`, at once when it has.
pub async fn open_at(at_ns: u64, gates: Vec<watch::Sender<Wish>>) {
    if let Err(error) = wait_until(at_ns).await {
        tracing::warn!(error = %chain(&error), "a barrier opens early: there is no timer");
    }
    for gate in &gates {
        gate.send_modify(|wish| wish.release_at_ns = wish.release_at_ns.or(Some(at_ns)));
    }
}

async fn wait_until(at_ns: u64) -> io::Result<()> {
    if at_ns <= crate::text::monotonic_ns() {
        return Ok(());
    }
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer: OwnedFd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let it_value = Timespec {
        tv_sec: i64::try_from(at_ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(at_ns % 1_000_000_000).unwrap_or_default(),
    };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &once)?;
    let timer = fd::watch(timer)?;
    drop(timer.readable().await?);
    Ok(())
}
