//! Runs a command on the host and waits for its end.

use std::io::{self, Read, Write};

use ssh2::{Channel, ExtendedData};

use super::{
    SshError,
    script::{command_line, said},
    wire::{Step, Wire},
};

/// Most bytes of either output that are kept.
const MAX_OUTPUT: usize = 64 << 10;

/// Size of the pieces that are read and written, in bytes.
pub(super) const CHUNK: usize = 32 << 10;

/// What became of a command.
pub(super) struct Output {
    /// Lines of standard output with our mark.
    pub said: Vec<String>,
    /// Everything on standard error.
    pub errors: String,
    /// How it ended, in words.
    pub status: String,
    /// All of standard output, for when there are no lines with our mark.
    pub output: String,
}

impl Output {
    /// The rest of the line that begins with this word.
    pub(super) fn line(&self, word: &str) -> Option<&str> {
        self.said.iter().find_map(|line| {
            let rest = line.strip_prefix(word)?;
            if rest.is_empty() { Some("") } else { rest.strip_prefix(' ') }
        })
    }

    /// Both outputs, for a message.
    pub(super) fn all(&self) -> String {
        let all = format!("{} {}", self.output.trim(), self.errors.trim());
        let all = all.trim();
        if all.is_empty() { "it said nothing".to_owned() } else { all.to_owned() }
    }
}

/// Opens a channel and starts a script on it.
pub(super) fn start(
    wire: &Wire,
    during: &'static str,
    script: &str,
    arguments: &[&str],
) -> Result<Channel, SshError> {
    let mut channel = wire.finish(during, || wire.session().channel_session())?;
    let command = command_line(script, arguments);
    wire.finish(during, || channel.exec(&command))?;
    Ok(channel)
}

/// Runs a script. `each` is called whenever a piece of the input was sent.
pub(super) fn run(
    wire: &Wire,
    during: &'static str,
    script: &str,
    arguments: &[&str],
    input: &[u8],
    each: impl Fn(),
) -> Result<Output, SshError> {
    let mut channel = start(wire, during, script, arguments)?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut left = input;
    let mut eof_sent = false;
    loop {
        let mut moved = false;
        if let Some(written) = left.get(..CHUNK.min(left.len())).filter(|piece| !piece.is_empty()) {
            match wire.step(Step::Write, || channel.write(written)) {
                Some(Ok(count)) => {
                    left = left.get(count..).unwrap_or_default();
                    each();
                    moved = true;
                }
                // The script may have ended early, and will have said why.
                Some(Err(_)) => left = &[],
                None => {}
            }
        } else if !eof_sent && let Some(sent) = wire.step(Step::Eof, || channel.send_eof()) {
            let _ = sent;
            eof_sent = true;
        }
        moved |= take(wire, during, Step::Read, &mut channel, &mut stdout)?;
        moved |= take(wire, during, Step::ReadError, &mut channel.stderr(), &mut stderr)?;
        if wire.unfinished().is_none() && channel.eof() {
            break;
        }
        if !moved {
            wire.wait(during)?;
        }
    }
    wire.close(during, &mut channel)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ok(Output { said: said(&stdout), errors: text(&stderr), status: status(&channel), output: text(&stdout) })
}

/// How the command of a closed channel ended.
pub(super) fn status(channel: &Channel) -> String {
    let signal = channel.exit_signal().ok().and_then(|signal| signal.exit_signal);
    let code = channel.exit_status().unwrap_or(-1);
    signal.map_or_else(|| format!("exit code {code}"), |signal| format!("signal {signal}"))
}

/// Reads what there is; whether there was something.
pub(super) fn take(
    wire: &Wire,
    during: &'static str,
    step: Step,
    source: &mut impl Read,
    kept: &mut Vec<u8>,
) -> Result<bool, SshError> {
    let mut piece = [0; CHUNK];
    match wire.step(step, || source.read(&mut piece)) {
        Some(Ok(count)) => {
            let room = MAX_OUTPUT.saturating_sub(kept.len());
            kept.extend_from_slice(piece.get(..count.min(room)).unwrap_or_default());
            Ok(count > 0)
        }
        Some(Err(error)) => Err(wire.fails(during)(error)),
        None => Ok(false),
    }
}

/// From now on nobody reads the channel's standard error.
pub(super) fn ignore_errors(
    wire: &Wire,
    during: &'static str,
    channel: &mut Channel,
) -> Result<(), SshError> {
    wire.finish(during, || channel.handle_extended_data(ExtendedData::Ignore).map_err(io::Error::from))
}
