use super::*;
use crate::plan::Plan;

fn connection(name: &str, url: &str) -> Connection {
    Connection::parse(name, url, None, false, Path::new("/tmp")).expect("it is there")
}

fn known(connections: &[(&str, &str)]) -> BTreeMap<String, Connection> {
    connections.iter().map(|(name, url)| ((*name).to_owned(), connection(name, url))).collect()
}

#[test]
fn a_configuration_has_one_database_and_one_broker_at_most() {
    let pair = known(&[("shop", "postgres://app@localhost/shop"), ("rabbit", "amqp://localhost")]);
    let servers = Servers::of(&pair).expect("it is there");
    assert_eq!(
        (servers.database.kind, servers.broker.expect("it is there").kind),
        (Kind::Postgres, Kind::Amqp)
    );
    let alone = Servers::of(&known(&[("shop", "sqlite:shop.db"), ("post", "smtp://localhost")]))
        .expect("it is there");
    assert!(alone.broker.is_none());
    for wrong in [
        known(&[("rabbit", "amqp://localhost")]),
        known(&[("shop", "mysql://app@localhost/shop")]),
        known(&[("a", "sqlite:a.db"), ("b", "postgres://app@localhost/b")]),
        known(&[("a", "sqlite:a.db"), ("b", "amqp://localhost"), ("c", "kafka://localhost")]),
    ] {
        assert_eq!(Servers::of(&wrong).err().map(|trouble| trouble.exit), Some(Exit::Usage));
    }
}

#[tokio::test]
async fn the_relays_get_a_configuration_without_mistakes_that_leads_through_the_proxies() {
    let folder = tempfile::tempdir().expect("it is there");
    let names = Names::of(Run::new(7));
    for (database, broker) in [
        ("sqlite:a.db", None),
        ("postgres://app:p%24%7Bx@localhost:5433/shop", Some("amqp://guest:guest@localhost:5673/%2f")),
        ("postgres://app@127.0.0.1/shop", Some("kafka://localhost:9092")),
    ] {
        let servers = Servers {
            database: connection("shop", database),
            broker: broker.map(|broker| connection("events", broker)),
        };
        let network = Network::before(&servers, None).await.expect("it is there");
        let text = config(folder.path(), &servers, &network, &names, LEASE).expect("it is there");
        let parsed = Plan::parse(Path::new("verify.toml"), &text, &|_| None);
        let plan = parsed.unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{text}")).plan;
        assert_eq!(plan.pipes.len(), 2);
        for side in [Side::Database, Side::Broker] {
            let Ok(proxy) = network.side(side) else { continue };
            assert!(text.contains(&format!("127.0.0.1:{}", proxy.port())), "{text}");
        }
    }
}

#[tokio::test]
async fn there_is_no_proxy_where_it_would_be_a_stranger_or_passed_by() {
    for (url, reason) in [
        ("sqlite:a.db", "file"),
        ("kafka://localhost:9092", "--kafka-proxy"),
        ("amqps://localhost", "certificate"),
        ("postgres://app@db.example/shop?sslmode=verify-full", "certificate"),
        ("postgres:///shop?host=/run/postgresql", "socket"),
    ] {
        let told = proxy(&connection("it", url)).await.expect_err("it is refused");
        assert!(told.contains(reason), "{url}: {told}");
    }
    assert!(proxy(&connection("it", "postgres://app@127.0.0.1:1/shop")).await.is_ok());
}
