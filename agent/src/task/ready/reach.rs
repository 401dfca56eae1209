//! Whether addresses can be reached from this host, asked by a controller before it starts clients.

use std::{io, net::SocketAddr, time::Duration};

use drover_model::ReadyCheck;
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    http,
    probe::{FIRST_PAUSE, MAX_PAUSE, PROBE_LIMIT, tcp},
};
use crate::text::chain;

/// Something that can be reached over the network.
#[derive(Clone, Debug)]
pub enum Target {
    /// A TCP connection is accepted.
    Tcp(SocketAddr),
    /// `GET` on this URL answers with a 2xx or 3xx status.
    Http(String),
}

impl Target {
    /// What a ready check asks for; `None` if that is nothing that another host can see.
    #[must_use]
    pub fn of(check: ReadyCheck) -> Option<Self> {
        match check {
            ReadyCheck::Tcp(address) => Some(Self::Tcp(address)),
            ReadyCheck::Http(url) => Some(Self::Http(url)),
            ReadyCheck::Unix(_) | ReadyCheck::Log(_) | ReadyCheck::Command(_) | ReadyCheck::Processes(_) => {
                None
            }
        }
    }

    async fn probe(&self) -> Result<(), String> {
        match self {
            Self::Tcp(address) => tcp(*address).await.map_err(|error| said(&error)),
            Self::Http(url) => http::probe(url).await.map_err(|error| chain(&error)),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Tcp(address) => address.to_string(),
            Self::Http(url) => url.clone(),
        }
    }
}

/// Without the error's number.
fn said(error: &io::Error) -> String {
    let kind = error.kind().to_string();
    if kind.contains("uncategorized") { error.to_string() } else { kind }
}

/// Probes one target after the other until each has held. Returns what does not hold when the time is over.
pub async fn reach(targets: &[Target], within: Duration) -> Option<String> {
    let until = Instant::now() + within;
    for target in targets {
        let mut failure = "no answer".to_owned();
        if timeout_at(until, holds(target, &mut failure)).await.is_err() {
            return Some(format!("{}: {failure}", target.name()));
        }
    }
    None
}

async fn holds(target: &Target, failure: &mut String) {
    let mut pause = FIRST_PAUSE;
    loop {
        match timeout(PROBE_LIMIT, target.probe()).await {
            Ok(Ok(())) => return,
            Ok(Err(said)) => *failure = said,
            Err(_) => *failure = format!("no answer within {} s", PROBE_LIMIT.as_secs()),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}
