//! The talk with a mail server, and the connections that are kept for the next letter.
//!
//! Only a connection whose last command was answered is kept. One that was given up in the middle of a talk would take
//! the answer to the last command for that to the next: a letter could be called accepted that is not.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lettre::transport::smtp::Error as Driver;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::answer::{Fault, Stage};
use super::config::MailConfig;
use super::letter::Letter;
use super::relay::Relay;
use crate::error::{Error, ErrorKind, Result};

/// A connection that was not used for so long is not used again: servers close theirs after some minutes.
const IDLE: Duration = Duration::from_secs(60);

/// A failure, and how far the letter had come.
pub(super) type Failed = (Stage, Fault);

/// The way to a mail server.
pub(super) struct Sessions {
    relay: Relay,
    /// None where the talk is in the clear.
    tls: Option<TlsParameters>,
    timeout: Duration,
    hello: ClientId,
    /// So many talks at a time.
    permits: Semaphore,
    idle: Mutex<Vec<(AsyncSmtpConnection, Instant)>>,
}

impl Sessions {
    pub(super) fn new(relay: Relay, config: &MailConfig) -> Result<Self> {
        let in_the_clear =
            !relay.is_implicit() && (config.plaintext || (relay.is_loopback() && config.ca_file.is_none()));
        let tls = if in_the_clear { None } else { Some(tls(&relay, config)?) };
        Ok(Self {
            relay,
            tls,
            timeout: config.timeout,
            hello: ClientId::default(),
            permits: Semaphore::new(config.connections),
            idle: Mutex::default(),
        })
    }

    /// Sends a letter; done when the server has accepted it.
    pub(super) async fn send(&self, letter: &Letter) -> Result<(), Failed> {
        let _permit = self.permits.acquire().await;
        let deadline = Instant::now() + self.timeout;
        if let Some(mut kept) = self.kept() {
            match self.talk(&mut kept, letter, deadline).await {
                // It may have been closed since: nobody has the letter, so a new connection may try.
                Err((Stage::Envelope, Fault::Lost(_) | Fault::Answer(421, _))) => {}
                result => return self.ended(kept, result, deadline).await,
            }
        }
        let mut connection = self.connect(deadline).await?;
        let result = self.talk(&mut connection, letter, deadline).await;
        self.ended(connection, result, deadline).await
    }

    /// Connects and logs in, and keeps the connection for the first letter.
    pub(super) async fn check(&self) -> Result<(), Failed> {
        let connection = self.connect(Instant::now() + self.timeout).await?;
        self.keep(connection);
        Ok(())
    }

    async fn connect(&self, deadline: Instant) -> Result<AsyncSmtpConnection, Failed> {
        let connecting = async {
            let (host, port) = (self.relay.host(), self.relay.port());
            let from_the_first_byte = self.tls.clone().filter(|_| self.relay.is_implicit());
            let connecting = AsyncSmtpConnection::connect_tokio1(
                (host, port),
                None,
                &self.hello,
                from_the_first_byte,
                None,
            );
            let mut connection = connecting.await?;
            if let Some(tls) = self.tls.clone().filter(|_| !self.relay.is_implicit()) {
                connection.starttls(tls, &self.hello).await?;
            }
            if let Some((user, password)) = self.relay.login() {
                let credentials = Credentials::new(user.clone(), password.clone());
                connection.auth(DEFAULT_MECHANISMS, &credentials).await?;
            }
            Ok(connection)
        };
        within(deadline, Stage::Greeting, connecting).await
    }

    /// Tells a letter, stage by stage.
    async fn talk(
        &self,
        connection: &mut AsyncSmtpConnection,
        letter: &Letter,
        deadline: Instant,
    ) -> Result<(), Failed> {
        let mut options = Vec::new();
        if letter.is_international() {
            if !connection.server_info().supports_feature(Extension::SmtpUtfEight) {
                let why = "takes no address with other characters than ASCII (it has no SMTPUTF8)";
                return Err((Stage::Envelope, Fault::Unfit(why)));
            }
            options.push(MailParameter::SmtpUtfEight);
        }
        if !letter.content.is_ascii() {
            options.push(MailParameter::Body(MailBodyParameter::EightBitMime));
        }
        let envelope = async {
            connection.command(Mail::new(letter.envelope.from().cloned(), options)).await?;
            for recipient in letter.envelope.to() {
                connection.command(Rcpt::new(recipient.clone(), Vec::new())).await?;
            }
            connection.command(Data).await
        };
        within(deadline, Stage::Envelope, envelope).await?;
        within(deadline, Stage::Content, connection.message(&letter.content)).await?;
        Ok(())
    }

    /// Keeps the connection, if it can be used again.
    async fn ended(
        &self,
        mut connection: AsyncSmtpConnection,
        result: Result<(), Failed>,
        deadline: Instant,
    ) -> Result<(), Failed> {
        let is_usable = match &result {
            Ok(()) | Err((_, Fault::Unfit(_))) => true,
            Err((_, Fault::Answer(answer, _))) if *answer != 421 => {
                // What was told of the letter must be forgotten before the next.
                within(deadline, Stage::Envelope, connection.command(Rset)).await.is_ok()
            }
            Err(_) => false,
        };
        if is_usable {
            self.keep(connection);
        }
        result
    }

    fn kept(&self) -> Option<AsyncSmtpConnection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(_, since)| since.elapsed() < IDLE);
        idle.pop().map(|(connection, _)| connection)
    }

    fn keep(&self, connection: AsyncSmtpConnection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push((connection, Instant::now()));
    }
}

async fn within<T>(
    deadline: Instant,
    stage: Stage,
    asked: impl Future<Output = Result<T, Driver>>,
) -> Result<T, Failed> {
    match timeout_at(deadline, asked).await {
        Ok(answer) => answer.map_err(|error| (stage, fault(&error))),
        Err(_) => Err((stage, Fault::Late)),
    }
}

/// What an error of the driver is. Its words are those beneath: the driver's own only name the kind.
fn fault(error: &Driver) -> Fault {
    let words = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    match error.status() {
        Some(status) => Fault::Answer(status.into(), words),
        None => Fault::Lost(words),
    }
}

fn tls(relay: &Relay, config: &MailConfig) -> Result<TlsParameters> {
    let mut builder = TlsParameters::builder(relay.host().to_owned());
    if let Some(path) = &config.ca_file {
        let wrong =
            |why: String| Error::new(ErrorKind::Config, format!("ca_file '{}' {why}", path.display()));
        let pem = std::fs::read(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
            return Err(wrong("holds no certificate in PEM".to_owned()));
        }
        let certificate =
            Certificate::from_pem(&pem).map_err(|error| wrong(format!("cannot be used: {error}")))?;
        builder = builder.add_root_certificate(certificate);
    }
    builder.build().map_err(|error| Error::new(ErrorKind::Config, format!("TLS cannot be set up: {error}")))
}
