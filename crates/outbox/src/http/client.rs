//! What every client of ours has in common, and one for other things than messages.

use std::path::Path;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use rustls::ClientConfig;

use super::tls;
use crate::error::{Error, ErrorKind, Result};

/// Redirects are not followed and no proxy of the environment is used: what is sent may be secret, and goes where the
/// configuration says.
pub(super) fn builder(tls: ClientConfig) -> ClientBuilder {
    Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(Policy::none())
        .no_proxy()
        .referer(false)
        .user_agent(concat!("outboxd/", env!("CARGO_PKG_VERSION")))
}

pub(super) fn no_client(why: &str) -> Error {
    Error::new(ErrorKind::Unexpected, format!("the HTTP client cannot be set up: {why}"))
}

/// A client by the rules of [`Endpoint`](super::Endpoint), for a program that sends something else than messages: TLS is
/// verified, with the certificates of `ca_file` too; `tls` is whether it is asked for at all.
#[doc(hidden)]
pub fn client(tls: bool, ca_file: Option<&Path>, timeout: Duration) -> Result<Client> {
    let builder = builder(tls::client(tls, ca_file)?).timeout(timeout);
    builder.build().map_err(|error| no_client(&error.without_url().to_string()))
}
