//! [`Exchange`], the sink: a whole batch at once, and one by one what a bad neighbour spoilt.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use lapin::types::ShortString;
use tokio::time::Instant;

use super::batch::Batch;
use super::config::ExchangeConfig;
use super::confirm;
use super::connection::{Link, Session};
use super::error::{Fault, into_error, publish_fault};
use super::publish::{Ending, Parcel, publish};
use crate::error::Result;
use crate::message::Message;
use crate::sink::{Cause, Outcome, Rejection, Sink, code};

/// So often a call moves to a new connection because a neighbour cost it the old one.
const RENEWALS: usize = 3;

/// An exchange of RabbitMQ.
///
/// Delivered means confirmed by the broker and routed to at least one queue: messages are persistent and
/// `mandatory`, and every confirm of a batch is awaited before any of it is called delivered.
///
/// | what happens | outcome |
/// | --- | --- |
/// | confirmed and routed | delivered |
/// | no queue is bound for the routing key | rejected `NO_ROUTE` |
/// | a queue refuses it while others are taken | rejected `REFUSED` |
/// | nothing of the batch is taken, all of it refused | unavailable `REFUSED` |
/// | larger than `max_message`, than the broker's limit, or headers larger than a frame | refused `TOO_LARGE` |
/// | no routing key can be made of it, a name over 255 bytes, a reserved header | refused `UNFIT` |
/// | the user may not use this routing key | rejected `FORBIDDEN` |
/// | the user may not connect, publish or declare | unavailable `FORBIDDEN` |
/// | the exchange does not exist | unavailable `NO_EXCHANGE` |
/// | exchange or queue are not as configured | unavailable `TOPOLOGY` |
/// | no connection, or it is lost before the confirm | unavailable `UNREACHABLE` |
/// | no confirm in time | unavailable `TIMEOUT` |
/// | the broker blocks publishers (memory or disk alarm) | unavailable `BLOCKED`, and nothing is sent |
///
/// It connects when it is first needed, and again after the connection was lost; a call does not try again when
/// an attempt fails.
///
/// The driver, `lapin`, logs every returned message as a warning with its payload in it: turn the target `lapin` off
/// in your log.
pub struct Exchange {
    link: Link,
    config: Arc<ExchangeConfig>,
    name: ShortString,
    /// Exchange and broker, for every cause.
    place: String,
}

impl Exchange {
    /// A sink that connects when it is first used: a broker that is not there is no error here.
    ///
    /// A malformed URL or configuration is an error of kind [`Config`](crate::ErrorKind::Config).
    pub fn new(url: &str, config: ExchangeConfig) -> Result<Self> {
        config.check()?;
        let config = Arc::new(config);
        let link = Link::new(url, Arc::<ExchangeConfig>::clone(&config))?;
        let name = ShortString::try_new(config.exchange.as_str()).unwrap_or_default();
        let place = format!("exchange '{}' at {}", config.exchange, link.shown());
        Ok(Self { link, config, name, place })
    }

    /// A durable topic exchange with the type as routing key, connected and declared now.
    pub async fn connect(url: &str, exchange: &str) -> Result<Self> {
        let exchange = Self::new(url, ExchangeConfig::new(exchange))?;
        exchange.check().await?;
        Ok(exchange)
    }

    /// Connects now, if need be, and declares or checks the topology.
    pub async fn check(&self) -> Result<()> {
        self.link.session().await.map(drop).map_err(|cause| into_error(&cause))
    }

    /// Sends what is open; an error is what befell everything that is open after it.
    async fn send(&self, batch: &mut Batch<'_>) -> Result<(), Cause> {
        let mut session = self.ready().await?;
        batch.fit(session.frame_max());
        let open = batch.open();
        let mut fault = match self.attempt(&session, batch, &open, self.deadline()).await {
            Ok(()) => return Ok(()),
            Err(fault) => fault,
        };
        // The channel was closed for one of them; which one is only known when each is alone. And that on a new
        // connection: what was queued on the closed channel may yet cost the old one its life, for this call and
        // for others. So one that was lost in that way is replaced, a few times.
        let deadline = self.deadline();
        for _ in 0..RENEWALS {
            if let Fault::Sink(cause) = fault {
                return Err(cause);
            }
            self.link.forget(&session).await;
            session = self.ready().await?;
            fault = match self.one_by_one(&session, batch, deadline).await {
                Ok(()) => return Ok(()),
                Err(fault) => fault,
            };
        }
        Err(fault.into_cause())
    }

    /// Sends what is open one after the other, each confirmed before the next.
    async fn one_by_one(
        &self,
        session: &Arc<Session>,
        batch: &mut Batch<'_>,
        deadline: Instant,
    ) -> Result<(), Fault> {
        for at in batch.open() {
            match self.attempt(session, batch, &[at], deadline).await {
                Ok(()) => {}
                Err(Fault::Message { cause, permanent }) => {
                    let rejection = Rejection { cause, permanent, retry_after: None, defect: false };
                    batch.decide(at, Outcome::Rejected(rejection));
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Publishes these messages together on a channel of their own and notes what the broker answers.
    async fn attempt(
        &self,
        session: &Arc<Session>,
        batch: &mut Batch<'_>,
        which: &[usize],
        deadline: Instant,
    ) -> Result<(), Fault> {
        let channel = match session.channel(&self.place, deadline).await {
            Ok(channel) => channel,
            Err(cause) => match self.blocked(session) {
                Some(blocked) => return Err(Fault::Sink(blocked)),
                None => {
                    self.link.forget(session).await;
                    return Err(Fault::Sink(cause));
                }
            },
        };
        let parcels = which.iter().filter_map(|at| Some((*at, batch.parcel(*at)?)));
        let (which, parcels): (Vec<usize>, Vec<Parcel<'_>>) = parcels.unzip();
        let (receipts, ending) = publish(&channel, &self.name, parcels, deadline).await;
        let ids: Vec<&str> = which.iter().map(|at| batch.id(*at)).collect();
        for (at, fate) in which.iter().zip(confirm::read(&ids, &receipts)) {
            batch.answer(*at, fate);
        }
        match ending {
            Ending::Complete => {
                session.give_back(channel);
                Ok(())
            }
            Ending::TimedOut => Err(Fault::Sink(self.timed_out(session).await)),
            Ending::Broken(error) => {
                let fault = publish_fault(&self.place, &error);
                if matches!(fault, Fault::Sink(_)) {
                    self.link.forget(session).await;
                }
                Err(fault)
            }
        }
    }

    /// Why no confirm came in time.
    async fn timed_out(&self, session: &Arc<Session>) -> Cause {
        // While it is blocked the connection is sound: it tells when the alarm is over.
        if let Some(cause) = self.blocked(session) {
            return cause;
        }
        self.link.forget(session).await;
        Cause::new(code::TIMEOUT, format!("{}: no confirm within {:?}", self.place, self.config.timeout))
    }

    async fn ready(&self) -> Result<Arc<Session>, Cause> {
        let session = self.link.session().await?;
        match self.blocked(&session) {
            Some(cause) => Err(cause),
            None => Ok(session),
        }
    }

    fn blocked(&self, session: &Session) -> Option<Cause> {
        let reason = session.blocked()?;
        Some(Cause::new(code::BLOCKED, format!("{}: the broker blocks publishers: {reason}", self.place)))
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.config.timeout
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exchange({})", self.place)
    }
}

#[async_trait]
impl Sink for Exchange {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let mut batch = Batch::new(messages, &self.config);
        let sent = if batch.open().is_empty() { Ok(()) } else { self.send(&mut batch).await };
        batch.finish(&self.place, sent.err())
    }
}
