//! What an error of the driver means: whose fault it is, and what to tell. Nothing else looks inside one.

use lapin::{Error as Driver, ErrorKind as DriverKind};

use super::config::Topology;
use crate::error::{Error, ErrorKind};
use crate::sink::{Cause, code};

/// The code of a cause: exchange or queue are missing or not as the configuration has them.
pub const TOPOLOGY: &str = "TOPOLOGY";

/// What a failed publish says about whom.
#[derive(Debug)]
pub(super) enum Fault {
    /// One of the messages on the channel: alone, the others would go through.
    Message { cause: Cause, permanent: bool },
    /// The channel is gone for something that was not on it, or that was told elsewhere.
    Unclear(Cause),
    /// Everything that is sent there.
    Sink(Cause),
}

impl Fault {
    pub(super) fn into_cause(self) -> Cause {
        match self {
            Self::Message { cause, .. } | Self::Unclear(cause) | Self::Sink(cause) => cause,
        }
    }
}

/// The number and the words of an error that the broker itself told, as in `404, "no exchange 'x'"`.
pub(super) fn told(error: &Driver) -> Option<(u16, &str)> {
    match error.kind() {
        DriverKind::ProtocolError(error) => Some((error.get_id(), error.get_message().as_str())),
        _ => None,
    }
}

/// Whether this error says more than that something else went wrong before.
pub(super) fn is_telling(error: &Driver) -> bool {
    !matches!(
        error.kind(),
        DriverKind::InvalidChannel(_)
            | DriverKind::InvalidChannelState(..)
            | DriverKind::InvalidConnectionState(_)
            | DriverKind::FutureCompleted
    )
}

/// What an error met while publishing means. `place` is the exchange and the broker, without secrets.
pub(super) fn publish_fault(place: &str, error: &Driver) -> Fault {
    let cause = |code: &'static str| Cause::new(code, format!("{place}: {}", words(error)));
    match told(error) {
        // The exchange is the same for all messages.
        Some((404, _)) => Fault::Sink(cause(code::NO_EXCHANGE)),
        // A permission may be for the exchange, or (by topic) for some routing keys only.
        Some((403, text)) if text.contains("access to topic") => {
            Fault::Message { cause: cause(code::FORBIDDEN), permanent: false }
        }
        Some((403 | 530, _)) => Fault::Sink(cause(code::FORBIDDEN)),
        Some((311, _)) => Fault::Message { cause: cause(code::TOO_LARGE), permanent: true },
        Some((406, text)) if text.contains("size") => {
            Fault::Message { cause: cause(code::TOO_LARGE), permanent: true }
        }
        Some((406, _)) => Fault::Message { cause: cause(code::UNFIT), permanent: true },
        // What the driver had queued for a channel went out after the broker had closed it: for a bad message
        // there, the connection is closed to all.
        Some((504, _)) => Fault::Unclear(cause(code::UNREACHABLE)),
        Some(_) => Fault::Sink(cause(code::UNREACHABLE)),
        None => match error.kind() {
            DriverKind::InvalidChannel(_) | DriverKind::InvalidChannelState(..) => {
                Fault::Unclear(cause(code::UNREACHABLE))
            }
            _ => Fault::Sink(cause(code::UNREACHABLE)),
        },
    }
}

/// The property or the argument in which a queue differs from its declaration; the broker tells the first of them.
pub(super) fn differs_in(error: &Driver) -> Option<&str> {
    let (406, text) = told(error)? else { return None };
    text.split_once("inequivalent arg '")?.1.split_once('\'').map(|(name, _)| name)
}

/// What an error met while declaring or checking `what` means.
pub(super) fn topology_fault(what: &str, topology: Topology, error: &Driver) -> Cause {
    match told(error) {
        Some((404, _)) if topology == Topology::Check => {
            let code = if what.starts_with("exchange") { code::NO_EXCHANGE } else { TOPOLOGY };
            Cause::new(code, format!("{what} does not exist; create it, or let it be declared"))
        }
        Some((403, text)) => Cause::new(code::FORBIDDEN, format!("{what}: {text}")),
        Some((406, text)) => Cause::new(
            TOPOLOGY,
            format!(
                "{what} exists and is not as configured: {text}; change one of the two, or only check it"
            ),
        ),
        Some((_, text)) => Cause::new(TOPOLOGY, format!("{what}: {text}")),
        None => Cause::new(code::UNREACHABLE, format!("{what}: {}", words(error))),
    }
}

/// What an error met while connecting to `broker` means.
pub(super) fn connect_fault(broker: &str, error: &Driver) -> Cause {
    match told(error) {
        // 403 is a refused login, 530 an unknown or forbidden virtual host.
        Some((403 | 530, text)) => Cause::new(code::FORBIDDEN, format!("{broker} refuses us: {text}")),
        _ => Cause::new(code::UNREACHABLE, format!("cannot connect to {broker}: {}", words(error))),
    }
}

/// The error in words, without the driver's prefixes.
fn words(error: &Driver) -> String {
    match error.kind() {
        DriverKind::IOError(error) => error.to_string(),
        DriverKind::ProtocolError(error) => error.get_message().to_string(),
        DriverKind::InvalidConnectionState(_) => "the connection is closed".to_owned(),
        DriverKind::InvalidChannel(_) | DriverKind::InvalidChannelState(..) => {
            "the channel is closed".to_owned()
        }
        _ => error.to_string(),
    }
}

/// A cause as an error, for whoever connects by hand.
pub(super) fn into_error(cause: &Cause) -> Error {
    let kind = match cause.code.as_ref() {
        code::FORBIDDEN => ErrorKind::Denied,
        code::TIMEOUT => ErrorKind::Timeout,
        code::BLOCKED => ErrorKind::Busy,
        code::NO_EXCHANGE | TOPOLOGY => ErrorKind::Config,
        _ => ErrorKind::Unreachable,
    };
    Error::new(kind, cause.detail.clone())
}
