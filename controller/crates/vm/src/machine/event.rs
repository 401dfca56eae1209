//! What QEMU says by itself, over QMP.

use serde_json::Value;

/// The guest has stopped for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// Whether the guest did it: powered off, rebooted, panicked. Else QEMU was told to, or got a signal.
    pub by_guest: bool,
    /// QEMU's word for why: `guest-shutdown`, `guest-reset`, `host-qmp-quit`, `host-signal`, ...
    pub reason: String,
}

/// Something that happened to the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VmEvent {
    /// The guest's program serves; the boot id.
    Booted(String),
    /// The kernel has panicked, and goes on until it has said all.
    Panicked,
    /// It stops for good.
    Shutdown(Shutdown),
    /// It boots again.
    Reset,
    /// Nobody has fed the watchdog.
    Watchdog,
    /// The power button was pressed, by us.
    PowerDown,
    /// The guest's CPUs stand still.
    Stopped,
    /// They run again.
    Resumed,
    /// The console's file has reached its limit; what comes is lost.
    ConsoleFull,
}

impl VmEvent {
    /// The event in a message of QMP; `None` if it is of no concern here.
    pub(super) fn from_qmp(name: &str, data: &Value) -> Option<Self> {
        Some(match name {
            "GUEST_PANICKED" => Self::Panicked,
            "SHUTDOWN" => Self::Shutdown(Shutdown {
                by_guest: data.get("guest").and_then(Value::as_bool).unwrap_or(false),
                reason: data.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned(),
            }),
            "RESET" => Self::Reset,
            "WATCHDOG" => Self::Watchdog,
            "POWERDOWN" => Self::PowerDown,
            "STOP" => Self::Stopped,
            "RESUME" => Self::Resumed,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Shutdown, VmEvent};

    #[test]
    fn expect_events_when_qemu_names_them() {
        let data = json!({ "guest": true, "reason": "guest-reset" });
        let shutdown = Shutdown { by_guest: true, reason: "guest-reset".into() };
        assert_eq!(VmEvent::from_qmp("SHUTDOWN", &data), Some(VmEvent::Shutdown(shutdown)));
        assert_eq!(VmEvent::from_qmp("WATCHDOG", &json!({ "action": "none" })), Some(VmEvent::Watchdog));
        assert_eq!(VmEvent::from_qmp("GUEST_PANICKED", &json!({})), Some(VmEvent::Panicked));
        assert_eq!(VmEvent::from_qmp("NIC_RX_FILTER_CHANGED", &json!({})), None);
    }
}
