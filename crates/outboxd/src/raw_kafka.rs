//! A client of Kafka that is not a pipe's: for verbs that make topics, read them, and write beside outboxd.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::Context as _;
use faults::Proxy;
use outbox::kafka::Brokers;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

use crate::connection::Connection;
use crate::trouble::Trouble;

/// How long a broker may take to tell where it is.
const TELLS: Duration = Duration::from_secs(10);

/// Where the cluster is and how to log in. What was removed is not made again by asking for it.
pub fn client(brokers: &Brokers) -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", brokers.servers()).set("allow.auto.create.topics", "false");
    client.set("reconnect.backoff.max.ms", "500");
    let protocol = match (brokers.is_tls(), brokers.login().is_some()) {
        (false, false) => "plaintext",
        (false, true) => "sasl_plaintext",
        (true, false) => "ssl",
        (true, true) => "sasl_ssl",
    };
    client.set("security.protocol", protocol);
    if let Some(login) = brokers.login() {
        client.set("sasl.mechanism", login.mechanism.as_str().to_ascii_uppercase());
        client.set("sasl.username", &login.user);
        client.set("sasl.password", login.password.as_deref().unwrap_or_default());
    }
    client
}

/// How a broker is made to announce a proxy.
const LISTENER: &str = "give the broker one more listener, with the address of --kafka-proxy in advertised.listeners, \
                        and name the port of that listener under [connections]";

/// A proxy before a broker. Its clients go to the address that it announces, so that is where the proxy must be.
pub async fn proxy(connection: &Connection, address: SocketAddr) -> anyhow::Result<Proxy> {
    let brokers = Brokers::parse(connection.url.reveal())?;
    if brokers.is_tls() {
        let help = "leave --kafka-proxy out, or name a listener without TLS under [connections]";
        return Err(Trouble::usage(
            format!("no proxy can be before {connection}: it is reached by TLS"),
            help,
        )
        .into());
    }
    if brokers.hosts().count() > 1 {
        let help = "leave --kafka-proxy out, or name a cluster of one broker under [connections]";
        return Err(Trouble::usage("one proxy cannot be before several brokers", help).into());
    }
    if is_at(&brokers.servers(), address) {
        let what =
            format!("{connection} is where --kafka-proxy should be, and a proxy cannot lead to itself");
        return Err(Trouble::usage(what, LISTENER).into());
    }
    let cannot = || format!("cannot use {connection}");
    let announced = announced(client(&brokers)).await.with_context(cannot)?;
    if let Some(elsewhere) = announced.iter().find(|told| !is_at(told, address)) {
        let what = format!("{connection} tells its clients to go to {elsewhere}, and not to {address}");
        return Err(Trouble::usage(what, LISTENER).into());
    }
    let proxy = Proxy::at(address, brokers.servers().as_str()).await;
    let proxy =
        proxy.map_err(|error| Trouble::usage(format!("--kafka-proxy: {error:#}"), "choose another"))?;
    // What goes through it from now on is to arrive.
    let mut through = client(&brokers);
    through.set("bootstrap.servers", address.to_string());
    self::announced(through).await.with_context(|| format!("{} by way of {address}", cannot()))?;
    Ok(proxy)
}

/// Whether the name and port are those of an address.
fn is_at(server: &str, address: SocketAddr) -> bool {
    server.to_socket_addrs().into_iter().flatten().any(|known| known == address)
}

/// Where the brokers say that they are.
async fn announced(client: ClientConfig) -> anyhow::Result<Vec<String>> {
    tokio::task::spawn_blocking(move || {
        let consumer: BaseConsumer = client.create()?;
        let metadata = consumer.fetch_metadata(None, TELLS)?;
        let brokers = metadata.brokers().iter();
        let told: Vec<String> =
            brokers.map(|broker| format!("{}:{}", broker.host(), broker.port())).collect();
        anyhow::ensure!(!told.is_empty(), "it does not tell where its brokers are");
        Ok(told)
    })
    .await?
}
