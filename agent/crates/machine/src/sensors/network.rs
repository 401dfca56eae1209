//! Sources of a network namespace: every counter of TCP and UDP by its name, sockets, and the backlog of each CPU.

use super::{
    layout::Layout,
    sample::Value,
    schema::{SeriesId, SeriesKind, ValueType},
    sink::{Parse, Sink},
    text::{hex, lines, signed, unsigned, words},
};

/// Fields that are states; all others are totals.
const GAUGES: [&str; 5] = ["RtoAlgorithm", "RtoMin", "RtoMax", "MaxConn", "CurrEstab"];
/// -1 where there is no limit.
const MAYBE_NEGATIVE: &str = "MaxConn";

/// `/proc/net/netstat` and `/proc/net/snmp`: two lines for each protocol, names and values.
#[derive(Debug)]
pub(crate) struct Tables {
    file: &'static str,
    protocols: Vec<Protocol>,
}

#[derive(Debug)]
struct Protocol {
    name: &'static str,
    fields: Layout<Option<(SeriesId, ValueType)>>,
}

impl Tables {
    pub(crate) fn netstat() -> Self {
        Self::of("netstat", &["TcpExt", "IpExt"])
    }

    pub(crate) fn snmp() -> Self {
        Self::of("snmp", &["Tcp", "Udp"])
    }

    fn of(file: &'static str, protocols: &[&'static str]) -> Self {
        let protocol = |name: &&'static str| Protocol { name, fields: Layout::default() };
        Self { file, protocols: protocols.iter().map(protocol).collect() }
    }
}

impl Parse for Tables {
    fn parse(&mut self, text: &[u8], sink: &mut Sink<'_>) {
        let mut lines = lines(text);
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let (mut names, mut values) = (words(names), words(values));
            let (title, title_again) = (names.next(), values.next());
            // Lines that are no pair say nothing that could be trusted, and neither does what follows.
            let Some(title) = title.filter(|_| title == title_again).and_then(|t| t.strip_suffix(b":"))
            else {
                return;
            };
            let protocol = self.protocols.iter_mut().find(|protocol| protocol.name.as_bytes() == title);
            let Some(Protocol { name: protocol, fields }) = protocol else { continue };
            fields.rewind();
            for (name, value) in names.zip(values) {
                let file = self.file;
                let found = fields.find(name, |name| {
                    let kind = if GAUGES.contains(&name) { SeriesKind::Gauge } else { SeriesKind::Counter };
                    let values = if name == MAYBE_NEGATIVE { ValueType::Signed } else { ValueType::Unsigned };
                    let id = sink.series(format!("{file}.{protocol}.{name}"), "1", kind, values)?;
                    Some((id, values))
                });
                let Some((id, values)) = found else { continue };
                let value = match values {
                    ValueType::Signed => signed(value).map(Value::Signed),
                    ValueType::Unsigned | ValueType::Float => unsigned(value).map(Value::Unsigned),
                };
                sink.put_value(Some(id), value);
            }
        }
    }
}

/// `/proc/net/sockstat`: `TCP: inuse 1 orphan 0 tw 0 alloc 4 mem 168`.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    protocols: Vec<SocketProtocol>,
}

#[derive(Debug)]
struct SocketProtocol {
    name: Box<[u8]>,
    fields: Layout<Option<SeriesId>>,
}

impl Parse for Sockets {
    fn parse(&mut self, text: &[u8], sink: &mut Sink<'_>) {
        for line in lines(text) {
            let mut words = words(line);
            let Some(protocol) = words.next().and_then(|word| word.strip_suffix(b":")) else { continue };
            let known = self.protocols.iter().position(|known| &*known.name == protocol);
            let at = known.unwrap_or_else(|| {
                self.protocols.push(SocketProtocol { name: protocol.into(), fields: Layout::default() });
                self.protocols.len() - 1
            });
            let Some(SocketProtocol { fields, .. }) = self.protocols.get_mut(at) else { continue };
            fields.rewind();
            while let (Some(field), Some(value)) = (words.next(), words.next()) {
                let id = fields.find(field, |field| {
                    let unit = match field {
                        "mem" => "pages",
                        "memory" => "bytes",
                        _ => "1",
                    };
                    sink.gauge(format!("sockstat.{}.{field}", String::from_utf8_lossy(protocol)), unit)
                });
                sink.put(id, unsigned(value));
            }
        }
    }
}

/// `/proc/net/softnet_stat`: a line for each CPU, in hexadecimal; the sums of its first three columns. A CPU that goes offline takes
/// its counts with it, and then the sums go back.
#[derive(Debug, Default)]
pub(crate) struct Softnet {
    ids: [Option<SeriesId>; 3],
}

impl Parse for Softnet {
    fn parse(&mut self, text: &[u8], sink: &mut Sink<'_>) {
        const NAMES: [&str; 3] = ["softnet.processed", "softnet.dropped", "softnet.time_squeeze"];
        let mut sums = [None; 3];
        for line in lines(text) {
            for (sum, word) in sums.iter_mut().zip(words(line)) {
                *sum = Some(sum.unwrap_or(0_u64).wrapping_add(hex(word).unwrap_or(0)));
            }
        }
        for ((id, name), sum) in self.ids.iter_mut().zip(NAMES).zip(sums) {
            *id = id.or_else(|| sink.counter(name.to_owned(), "1"));
            sink.put(*id, sum);
        }
    }
}
