//! `power` of a host: the commands that switch it off and on, for a host that does not answer any more.

use std::{ops::Range, time::Duration};

use super::{
    file::{Power, Reach},
    placeholders,
};
use crate::{
    decode::{
        fields::{Fields, Problems},
        role::command_words,
        units, value,
    },
    keys,
    template::Template,
    tree::{Entry, Node},
};

const EXAMPLE: &str =
    "for instance power: { cycle: [ipmitool, -H, \"{{ host }}-bmc\", chassis, power, cycle] }";
/// Time for a host to boot, if its file does not say another.
const USUAL_WITHIN: Duration = Duration::from_secs(300);
/// Times that a host is switched off and on in one run, if its file does not say another number.
const USUAL_TIMES: u32 = 2;

/// `power` before it is known which host it is for.
#[derive(Clone)]
pub(super) struct PowerDraft {
    commands: Vec<Vec<Template>>,
    within: Duration,
    times: u32,
    pub(super) span: Range<usize>,
}

/// Decodes `power`.
pub(super) fn draft(entry: &Entry, what: &str, problems: &mut Problems) -> Option<PowerDraft> {
    let fields = Fields::open(&entry.value, format!("`power` of {what}"), keys::POWER, problems)?;
    let mut command = |key: &str| {
        let node: &Node = fields.get(key)?;
        Some(command_words(node, &format!("`{key}` of {}", fields.what()), problems))
    };
    let (cycle, off, on) = (command("cycle"), command("off"), command("on"));
    let given = [cycle.is_some(), off.is_some(), on.is_some()];
    let commands = match given {
        [true, false, false] => vec![cycle],
        [false, _, true] => vec![off, on].into_iter().filter(Option::is_some).collect(),
        [true, ..] => {
            let other = if off.is_some() { "off" } else { "on" };
            let place = fields.entry(other).map_or(entry.key.span.clone(), |entry| entry.key.span.clone());
            let message = format!("{} has both `cycle` and `{other}`", fields.what());
            problems.add(place, message, "keep `cycle`, which switches off and on, or `off` and `on`");
            return None;
        }
        [false, true, false] => {
            let place = fields.entry("off").map_or(entry.key.span.clone(), |entry| entry.key.span.clone());
            let message = format!("{} has `off` and nothing that switches on again", fields.what());
            problems.add(place, message, "add `on`, or write `cycle` instead");
            return None;
        }
        [false, false, false] => {
            // One that is misspelt is reported already.
            if ["cycle", "off", "on"].iter().all(|key| fields.lacks(key)) {
                let message = format!("{} has no command", fields.what());
                problems.add(entry.key.span.clone(), message, EXAMPLE);
            }
            return None;
        }
    };
    let within = fields.get("within");
    let within =
        within.map(|node| units::duration(node, &format!("`within` of {}", fields.what()), problems));
    let times = fields.get("times");
    let times =
        times.map(|node| value::small(node, &format!("`times` of {}", fields.what()), 1..=100, problems));
    Some(PowerDraft {
        // A command with a mistake is reported.
        commands: commands.into_iter().flatten().collect::<Option<_>>()?,
        within: within.unwrap_or(Some(USUAL_WITHIN))?,
        times: times.unwrap_or(Some(USUAL_TIMES))?,
        span: entry.key.span.clone(),
    })
}

/// For one host: its name and address stand where the templates ask for them.
pub(super) fn of_host(
    draft: &PowerDraft,
    name: &str,
    address: &str,
    problems: &mut Problems,
) -> Option<Power> {
    let values = [("host", name), ("address", address)];
    let help = "the power commands of a host have {{ host }} and {{ address }}";
    let mut commands = Vec::new();
    for command in &draft.commands {
        let words = command.iter().map(|word| placeholders::argument(word, &values, help, problems));
        commands.push(words.collect::<Option<_>>()?);
    }
    Some(Power { commands, within: draft.within, times: draft.times })
}

/// The place at which a host is reached, without its port.
pub(super) fn address(reach: &Reach) -> &str {
    match reach {
        Reach::Local | Reach::Vm(_) => "",
        Reach::Ssh(ssh) => &ssh.host,
        Reach::Tls(tls) => {
            let place = tls.address.rsplit_once(':').map_or(tls.address.as_str(), |(place, _)| place);
            place.trim_start_matches('[').trim_end_matches(']')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_place_without_its_port_when_a_host_is_reached_by_tls() {
        let tls =
            |address: &str| Reach::Tls(super::super::file::TlsReach { address: address.into(), pki: None });
        assert_eq!((address(&tls("h:1")), address(&tls("[fd00::1]:7"))), ("h", "fd00::1"));
    }
}
