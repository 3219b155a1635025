//! One connection to the broker, made when it is needed and made again after it was lost.
//!
//! The driver's own recovery stays off: it would publish again by itself what nobody knows the outcome of.

use std::ops::Deref;
use std::path::Path;
use std::pin::Pin;
use std::str::FromStr as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use lapin::options::ConfirmSelectOptions;
use lapin::tcp::OwnedTLSConfig;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, Event};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use url::{Host, Url};

use super::declare::Declaring;
use super::error::{connect_fault, publish_fault};
use crate::error::{Error, ErrorKind, Result};
use crate::sink::{Cause, code};

/// Channels kept open for the next call; more than that are closed when they are done.
const IDLE: usize = 16;

/// What has to be there on every new connection.
#[async_trait]
pub(super) trait Establish: Send + Sync {
    /// How to connect.
    fn way(&self) -> Way<'_>;

    /// Makes it, or looks whether it is there.
    async fn establish(&self, declaring: &mut Declaring<'_>) -> Result<(), Cause>;
}

/// How to connect.
pub(super) struct Way<'c> {
    /// What the broker's own tools call our connection.
    pub(super) name: &'c str,
    pub(super) timeout: Duration,
    pub(super) heartbeat: Duration,
    pub(super) ca_file: Option<&'c Path>,
}

/// The way to the broker.
pub(super) struct Link {
    uri: AMQPUri,
    tls: OwnedTLSConfig,
    config: Arc<dyn Establish>,
    /// The broker, for people: without user and password.
    shown: String,
    /// How many attempts have ended; calls that waited for one share its failure.
    attempts: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    session: Option<Arc<Session>>,
    /// How the last attempt failed.
    failure: Option<Cause>,
}

impl Link {
    /// Reads the URL and the certificates; nothing is connected yet.
    pub(super) fn new(url: &str, config: Arc<dyn Establish>) -> Result<Self> {
        let (mut uri, shown) = read_url(url)?;
        if uri.query.heartbeat.is_none() {
            uri.query.heartbeat = Some(u16::try_from(config.way().heartbeat.as_secs()).unwrap_or(u16::MAX));
        }
        let cert_chain = match config.way().ca_file {
            Some(path) => Some(std::fs::read_to_string(path).map_err(|error| {
                let what = format!("cannot read the certificates in '{}'", path.display());
                Error::new(ErrorKind::Config, what).caused_by(error)
            })?),
            None => None,
        };
        let tls = OwnedTLSConfig { identity: None, cert_chain };
        Ok(Self { uri, tls, config, shown, attempts: AtomicU64::new(0), state: Mutex::default() })
    }

    /// The broker, without user and password.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// The connection that is there, or one attempt at a new one.
    pub(super) async fn session(&self) -> Result<Arc<Session>, Cause> {
        let seen = self.attempts.load(Ordering::Acquire);
        let mut state = self.state.lock().await;
        if let Some(session) = state.session.as_ref().filter(|session| session.is_connected()) {
            return Ok(Arc::clone(session));
        }
        // Somebody tried while we waited in line: that was our attempt as well.
        if seen != self.attempts.load(Ordering::Acquire)
            && let Some(failure) = &state.failure
        {
            return Err(failure.clone());
        }
        state.session = None;
        let attempt = timeout(self.config.way().timeout, self.connect()).await;
        let attempt = attempt.unwrap_or_else(|_| {
            let limit = self.config.way().timeout;
            Err(Cause::new(code::UNREACHABLE, format!("{} did not answer within {limit:?}", self.shown)))
        });
        self.attempts.fetch_add(1, Ordering::AcqRel);
        match attempt {
            Ok(session) => {
                let session = Arc::new(session);
                state.session = Some(Arc::clone(&session));
                state.failure = None;
                Ok(session)
            }
            Err(cause) => {
                state.failure = Some(cause.clone());
                Err(cause)
            }
        }
    }

    async fn connect(&self) -> Result<Session, Cause> {
        let properties = ConnectionProperties::default().with_connection_name(self.config.way().name.into());
        let fault = |error: lapin::Error| connect_fault(&self.shown, &error);
        let runtime = lapin::runtime::default_runtime().map_err(fault)?;
        let connection =
            Connection::connect_uri_with_config(self.uri.clone(), properties, self.tls.clone(), runtime)
                .await
                .map_err(fault)?;
        let session = Session {
            events: StdMutex::new(Events { listener: Box::pin(connection.events_listener()), blocked: None }),
            idle: StdMutex::default(),
            connection,
        };
        let mut declaring = Declaring::new(&session);
        self.config.establish(&mut declaring).await?;
        if let Some(channel) = declaring.into_channel() {
            session.give_back(InUse::new(channel));
        }
        tracing::debug!(broker = %self.shown, "connected");
        Ok(session)
    }

    /// Makes the next call connect anew, and declare the topology with it. Calls under way keep the old one.
    pub(super) async fn forget(&self, session: &Arc<Session>) {
        let mut state = self.state.lock().await;
        if state.session.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            state.session = None;
        }
    }
}

/// A connection, with the channels that no call uses at the moment.
pub(super) struct Session {
    connection: Connection,
    idle: StdMutex<Vec<Channel>>,
    events: StdMutex<Events>,
}

struct Events {
    listener: Pin<Box<dyn Stream<Item = Event> + Send>>,
    blocked: Option<String>,
}

impl Session {
    pub(super) fn is_connected(&self) -> bool {
        self.connection.status().connected()
    }

    /// Why the broker takes nothing from us at the moment, if it does not.
    pub(super) fn blocked(&self) -> Option<String> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        // Read on every call, so that what nobody asks for does not pile up.
        while let Some(Some(event)) = events.listener.next().now_or_never() {
            match event {
                Event::ConnectionBlocked(reason) => events.blocked = Some(reason),
                Event::ConnectionUnblocked => events.blocked = None,
                _ => {}
            }
        }
        // The status is set before the event is sent, and is the one that counts.
        let is_blocked = self.connection.status().blocked();
        is_blocked.then(|| events.blocked.clone().unwrap_or_else(|| "an alarm".to_owned()))
    }

    /// The largest frame; the properties of a message must fit in one.
    pub(super) fn frame_max(&self) -> usize {
        self.connection.configuration().frame_max() as usize
    }

    /// A channel for one call, on which nothing is pending.
    ///
    /// Each call has its own, so that a message that comes back cannot be taken for another call's.
    pub(super) async fn channel(&self, place: &str, deadline: Instant) -> Result<InUse, Cause> {
        if let Some(channel) = self.take_idle() {
            return Ok(InUse::new(channel));
        }
        match timeout_at(deadline, self.open()).await {
            Ok(Ok(channel)) => Ok(InUse::new(channel)),
            Ok(Err(error)) => Err(publish_fault(place, &error).into_cause()),
            Err(_) => Err(Cause::new(code::TIMEOUT, format!("{place}: no channel was opened in time"))),
        }
    }

    fn take_idle(&self) -> Option<Channel> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(|channel| channel.status().connected())
    }

    /// A channel that confirms what is published on it.
    pub(super) async fn open(&self) -> lapin::Result<Channel> {
        let channel = self.connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    }

    /// A channel to read from, on which nothing is published.
    pub(super) async fn reading(&self) -> lapin::Result<Channel> {
        self.connection.create_channel().await
    }

    /// Keeps a channel for the next call. Only for one of which every confirm has come.
    pub(super) fn give_back(&self, mut channel: InUse) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        channel.is_settled = true;
        if idle.len() < IDLE && channel.status().connected() {
            idle.push(channel.clone());
        }
    }
}

/// A channel that one call uses.
///
/// Unless it is given back, it stays open until all that was published on it is confirmed: a close would
/// overtake what is still queued, and to that the broker answers by closing the connection.
pub(super) struct InUse {
    channel: Channel,
    is_settled: bool,
}

impl InUse {
    fn new(channel: Channel) -> Self {
        Self { channel, is_settled: false }
    }
}

impl Deref for InUse {
    type Target = Channel;

    fn deref(&self) -> &Channel {
        &self.channel
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if !self.is_settled
            && self.channel.status().connected()
            && let Ok(runtime) = Handle::try_current()
        {
            let channel = self.channel.clone();
            runtime.spawn(async move {
                let _ = channel.wait_for_confirms().await;
            });
        }
    }
}

/// The URL as the driver needs it, and as it may be shown.
fn read_url(text: &str) -> Result<(AMQPUri, String)> {
    let wrong = |what: &str| {
        let form = "amqp://user:password@host:5672/vhost";
        Error::new(ErrorKind::Config, format!("the URL of the broker {what}; it should look like {form}"))
    };
    let url = Url::parse(text).map_err(|error| wrong(&format!("cannot be read ({error})")))?;
    if !matches!(url.scheme(), "amqp" | "amqps") {
        return Err(wrong(&format!("begins with '{}:'", url.scheme())));
    }
    if url.cannot_be_a_base() {
        return Err(wrong("lacks the '//' after its scheme"));
    }
    let mut uri = AMQPUri::from_str(text).map_err(|error| wrong(&format!("cannot be used ({error})")))?;
    // The driver would quietly go to localhost for an address of version 6.
    if let Some(Host::Ipv6(address)) = url.host() {
        uri.authority.host = address.to_string();
    }
    // A lone slash means the default virtual host to everybody but the letter of the specification.
    if uri.vhost.is_empty() {
        uri.vhost = "/".to_owned();
    }
    let host = url.host_str().filter(|host| !host.is_empty()).unwrap_or("localhost");
    let slash = if uri.vhost.starts_with('/') { "" } else { "/" };
    let shown = format!("{}://{host}:{}{slash}{}", url.scheme(), uri.authority.port, uri.vhost);
    Ok((uri, shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_secrets() {
        for (text, shown) in [
            ("amqp://guest:s3cret@localhost:5672/%2f", "amqp://localhost:5672/"),
            ("amqps://u:s3cret@broker.example/shop", "amqps://broker.example:5671/shop"),
            ("amqp://localhost", "amqp://localhost:5672/"),
            ("amqp://u:s3cret@[::1]:7/", "amqp://[::1]:7/"),
        ] {
            assert_eq!(read_url(text).unwrap().1, shown);
        }
        assert_eq!(read_url("amqp://[::1]/").unwrap().0.authority.host, "::1");
        assert_eq!(read_url("amqp://127.0.0.1/").unwrap().0.authority.host, "127.0.0.1");
        assert_eq!(read_url("amqp://h/").unwrap().0.vhost, "/");
    }

    #[test]
    fn a_malformed_url_is_told_without_its_secrets() {
        for text in [
            "",
            "localhost",
            "http://u:s3cret@h/",
            "amqp:u:s3cret@h",
            "amqp://u:s3cret@h:port/",
            "amqp://u:s3cret@h/?heartbeat=x",
        ] {
            let error = read_url(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{text}");
            assert!(!error.chain().contains("s3cret"), "{error}");
            assert!(error.to_string().contains("should look like amqp://"), "{error}");
        }
    }
}
