//! [`Endpoint`], the sink: a POST per message, several at a time.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Client, Response};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

use super::answer::Answer;
use super::config::EndpointConfig;
use super::guard::{Forbidden, Guard, Reach};
use super::{client, envelope, tls};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::sink::{Cause, Outcome, Sink, code};
use crate::together;

/// The code of a cause: the endpoint took the connection and the request, and closed it without an answer.
pub const NO_ANSWER: &str = "NO_ANSWER";

/// So much of an answer is read.
const MOST: usize = 64 * 1024;

/// How long the rest of an answer may take after its status, which alone decides.
const REST: Duration = Duration::from_secs(2);

/// So often a request is sent that gets no answer: a connection that was kept may have been closed at the other end, and
/// only a new one tells whether the endpoint is there at all.
const SENDINGS: usize = 2;

/// An endpoint of an application, called with a POST for every message.
///
/// The body is the payload, byte for byte. The headers are the attributes of the message as CloudEvents has them in its
/// binary form (`ce-id`, `ce-type`, `ce-time`, …), its content type, and its own headers as they are, where HTTP can carry
/// them and they do not belong to the request itself. The id is there as `idempotency-key` and `x-event-id` too. With
/// secrets there are `webhook-id`, `webhook-timestamp` and `webhook-signature`, as Standard Webhooks has them. The id
/// is the same for every repeat of a message.
///
/// | what happens | outcome |
/// | --- | --- |
/// | 2xx | delivered |
/// | 408, 425, 429, 5xx | rejected `HTTP_<status>`, with the pause of `Retry-After`, at most an hour |
/// | any other 4xx | refused `HTTP_<status>` |
/// | 3xx: redirects are not followed | refused `HTTP_<status>` |
/// | no answer in time | rejected `TIMEOUT` |
/// | the connection is closed without an answer, twice | rejected `NO_ANSWER` |
/// | a configured header lacks something of the message, or HTTP cannot carry it | refused `UNFIT` |
/// | no such host, no connection, no trust (TLS) | unavailable `UNREACHABLE` |
/// | the host leads to an address that may not be called | unavailable `FORBIDDEN`, and nothing is sent |
///
/// The status alone decides, however the body of the answer ends. The first line of a failed answer is in the cause.
///
/// Unless `private` is set, only addresses of the public Internet are called: not those of private networks, of this
/// machine, of clouds' metadata, in none of the forms in which IPv6 can write them. They are checked when a connection is
/// made, so a name cannot be turned after the check. The exception is a URL that names this machine literally. No proxy
/// of the environment is used, and there are no cookies.
///
/// A call takes up to `timeout` for each `concurrency` messages of it, twice where connections are lost: make the batches
/// of the pipe small. Once the endpoint cannot be reached the rest of the call is not tried.
pub struct Endpoint {
    client: Client,
    url: Url,
    config: EndpointConfig,
    guard: Guard,
    /// Scheme, host and port: what a path or a query holds may be secret.
    place: String,
}

/// Why there is no answer.
enum Fault {
    /// The endpoint cannot be called.
    Gone(Cause),
    /// It had the request, and nothing came back.
    Lost(String),
    /// Nothing came back in time.
    Late,
}

impl Endpoint {
    /// A sink that connects when it is first used: an endpoint that is not there is no error here.
    ///
    /// A malformed configuration, or certificates that cannot be read, are an error of kind
    /// [`Config`](ErrorKind::Config).
    pub fn new(config: EndpointConfig) -> Result<Self> {
        config.check()?;
        let url = config.url()?;
        let guard = Guard::new(Reach::of(&url, config.private));
        Self::guarded(config, url, guard)
    }

    fn guarded(config: EndpointConfig, url: Url, guard: Guard) -> Result<Self> {
        let tls = tls::client(url.scheme() == "https", config.ca_file.as_deref())?;
        let client = client::builder(tls)
            .dns_resolver(guard.clone())
            .connect_timeout(config.connecting())
            .build()
            .map_err(|error| client::no_client(&words(&error)))?;
        let place = url.origin().ascii_serialization();
        Ok(Self { client, url, config, guard, place })
    }

    /// Connects now and sends nothing, to see whether somebody listens.
    pub async fn check(&self) -> Result<()> {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let port = self.url.port_or_known_default().unwrap_or_default();
        let connecting = async {
            let addresses = self.guard.addresses(host).await?;
            let addresses: Vec<_> = addresses.into_iter().map(|address| (address, port).into()).collect();
            TcpStream::connect(&addresses[..]).await?;
            Ok(())
        };
        let connected: Result<(), Box<dyn StdError + Send + Sync>> =
            timeout(self.config.connecting(), connecting)
                .await
                .unwrap_or_else(|_| Err(self.no_connection().into()));
        connected.map_err(|error| {
            let kind = if error.is::<Forbidden>() { ErrorKind::Config } else { ErrorKind::Unreachable };
            Error::new(kind, format!("cannot call {}: {}", self.place, words(&*error)))
        })
    }

    async fn post(&self, message: &Message) -> Outcome {
        let now = Timestamp::now();
        let headers = match envelope::headers(message, &self.config, now.as_second()) {
            Ok(headers) => headers,
            Err(unfit) => return unfit,
        };
        let mut lost = String::new();
        for _ in 0..SENDINGS {
            match self.send(message, headers.clone()).await {
                Ok(answer) => return answer.outcome(&self.url, &self.place, Timestamp::now()),
                Err(Fault::Gone(cause)) => return Outcome::Unavailable(cause),
                Err(Fault::Late) => {
                    let why = format!("{}: no answer within {:?}", self.place, self.config.timeout);
                    return Outcome::rejected(Cause::new(code::TIMEOUT, why));
                }
                Err(Fault::Lost(words)) => lost = words,
            }
        }
        let why = format!("{} took the request and gave no answer: {lost}", self.place);
        Outcome::rejected(Cause::new(NO_ANSWER, why))
    }

    async fn send(&self, message: &Message, headers: HeaderMap) -> Result<Answer, Fault> {
        let request = self.client.post(self.url.clone()).headers(headers).body(message.payload.clone());
        // A connection that takes too long is given up before, and told as such: what is late here is the answer.
        let response = timeout(self.config.timeout, request.send()).await.map_err(|_| Fault::Late)?;
        let response = response.map_err(|error| self.fault(&error))?;
        Ok(read(response).await)
    }

    fn fault(&self, error: &reqwest::Error) -> Fault {
        if !error.is_connect() {
            return Fault::Lost(words(error));
        }
        let is_forbidden = chain(error).any(|error| error.is::<Forbidden>());
        let code = if is_forbidden { code::FORBIDDEN } else { code::UNREACHABLE };
        let why = if error.is_timeout() { self.no_connection() } else { words(error) };
        Fault::Gone(Cause::new(code, format!("cannot call {}: {why}", self.place)))
    }

    fn no_connection(&self) -> String {
        format!("no connection within {:?}", self.config.connecting())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.place)
    }
}

#[async_trait]
impl Sink for Endpoint {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        together::deliver(messages, self.config.concurrency, |message| self.post(message)).await
    }
}

/// What is looked at in an answer. One that does not end, or breaks off, has its status all the same.
async fn read(mut response: Response) -> Answer {
    let text = |name| response.headers().get(name)?.to_str().ok().map(str::to_owned);
    let (retry_after, location) = (text(RETRY_AFTER), text(LOCATION));
    let (status, mut body) = (response.status().as_u16(), Vec::new());
    let _ = timeout(REST, async {
        // To its end where it is short, so that the connection can be used again.
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk[..chunk.len().min(MOST - body.len())]);
            if body.len() == MOST {
                break;
            }
        }
    })
    .await;
    Answer { status, retry_after, location, body }
}

/// The innermost words: those around them name the URL, and what the client was doing.
fn words(error: &(dyn StdError + 'static)) -> String {
    chain(error).last().unwrap_or(error).to_string()
}

/// The error and those beneath it.
fn chain<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of a server of this machine when a name leads to these addresses.
    async fn called(private: bool, addresses: &[&str]) -> (Outcome, bool) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut config = EndpointConfig::new(format!("http://shop.example:{port}/"));
        (config.private, config.plaintext, config.timeout) = (private, true, Duration::from_millis(50));
        let url = config.url().unwrap();
        let reach = Reach::of(&url, config.private);
        let endpoint = Endpoint::guarded(config, url, Guard::told(reach, addresses)).unwrap();
        let outcome = endpoint.deliver(&[Message::new("a", "")]).await.remove(0);
        (outcome, timeout(Duration::ZERO, listener.accept()).await.is_ok())
    }

    #[tokio::test]
    async fn d9_a_name_that_leads_to_this_machine_is_not_called() {
        for addresses in [&["127.0.0.1"][..], &["::ffff:127.0.0.1"], &["10.1.1.1", "127.0.0.1"]] {
            let (outcome, was_called) = called(false, addresses).await;
            assert!(
                matches!(&outcome, Outcome::Unavailable(cause) if cause.code == code::FORBIDDEN),
                "{outcome:?}"
            );
            assert!(!was_called, "{addresses:?}");
        }
        assert!(called(true, &["127.0.0.1"]).await.1, "it is where it should be");
    }
}
