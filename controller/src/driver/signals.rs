//! Signals that ask the run to stop: SIGINT (Ctrl-C), SIGTERM, and SIGHUP (the terminal was closed). Each counts as one
//! request; the second kills the tasks.

use std::io;

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc::UnboundedSender,
    task::JoinHandle,
};

use super::internal_event::InternalEvent;

/// Listens until aborted.
pub fn listen(events: UnboundedSender<InternalEvent>) -> io::Result<JoinHandle<()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(tokio::spawn(async move {
        while any(&mut interrupt, &mut terminate, &mut hangup).await {
            if events.send(InternalEvent::Scheduler(drover_sched::Event::Interrupted)).is_err() {
                return;
            }
        }
    }))
}

async fn any(interrupt: &mut Signal, terminate: &mut Signal, hangup: &mut Signal) -> bool {
    let received = tokio::select! {
        received = interrupt.recv() => received,
        received = terminate.recv() => received,
        received = hangup.recv() => received,
    };
    received.is_some()
}
