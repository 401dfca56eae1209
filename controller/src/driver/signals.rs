//! What asks the run to stop: SIGINT (Ctrl-C), SIGTERM, SIGHUP (the terminal was closed), and clients of the live socket. Each
//! counts as one request; the second kills the tasks. A controller without a terminal is not asked by SIGHUP.

use std::io;

use drover_sched::Event;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc::UnboundedSender,
    task::JoinHandle,
};

use super::internal_event::InternalEvent;
use crate::live::{Watcher, Wishes};

/// Listens until aborted.
pub fn listen(events: UnboundedSender<InternalEvent>, detached: bool) -> io::Result<JoinHandle<()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(tokio::spawn(async move {
        loop {
            let asked = tokio::select! {
                received = interrupt.recv() => received,
                received = terminate.recv() => received,
                received = hangup.recv() => match received {
                    Some(()) if detached => continue,
                    received => received,
                },
            };
            if asked.is_none() || events.send(InternalEvent::Scheduler(Event::Interrupted)).is_err() {
                return;
            }
        }
    }))
}

/// What clients of the live socket want goes into the driver's loop, for as long as there is one.
impl Wishes for UnboundedSender<InternalEvent> {
    fn watch(&self, watcher: Watcher) {
        let _ = self.send(InternalEvent::Watched(watcher));
    }

    fn stop(&self) {
        let _ = self.send(InternalEvent::Scheduler(Event::Interrupted));
    }
}
