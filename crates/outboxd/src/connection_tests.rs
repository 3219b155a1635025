//! What a URL leads to, what is refused, what is hidden.

use super::*;

fn parse(url: &str, plaintext: bool) -> Result<Connection, Rule> {
    Connection::parse("shop", url, None, plaintext, Path::new("/etc/outboxd"))
}

fn broken(url: &str) -> String {
    let (what, help) = parse(url, false).expect_err(url);
    format!("{what}; {help}")
}

#[test]
fn the_scheme_decides_the_kind() {
    assert_eq!(parse("sqlite:a.db", false).expect("valid").kind, Kind::Sqlite);
    assert_eq!(parse("postgresql://localhost/a", false).expect("valid").kind, Kind::Postgres);
    for scheme in ["mysql", "mariadb"] {
        assert_eq!(parse(&format!("{scheme}://localhost/a"), false).expect("valid").kind, Kind::MySql);
    }
    assert_eq!(parse("amqps://broker.example", false).expect("valid").kind, Kind::Amqp);
    assert!(broken("postgers://localhost/a").contains("did you mean 'postgres'?"));
    assert!(broken("mongodb://localhost").contains("unknown; known are sqlite:, postgres:"));
    assert_eq!(parse("kafka+ssl://one.example,two.example:9093", false).expect("valid").kind, Kind::Kafka);
    assert_eq!(parse("smtps://post:x@mail.example:465", false).expect("valid").kind, Kind::Smtp);
    assert!(broken("nats://localhost").contains("not supported yet"));
    assert!(broken("shop").contains("has no scheme"));
}

#[test]
fn a_sqlite_file_stands_beside_the_configuration() {
    let connection = parse("sqlite:shop.db", false).expect("valid");
    assert_eq!(connection.url.reveal(), "sqlite:///etc/outboxd/shop.db");
    assert_eq!(connection.sqlite_file(), Some(PathBuf::from("/etc/outboxd/shop.db")));
    for url in ["sqlite:///var/shop.db", "sqlite:/var/shop.db"] {
        assert_eq!(parse(url, false).expect("valid").url.reveal(), "sqlite:///var/shop.db");
    }
    let odd = Connection::parse("shop", "sqlite:a%3Fb.db?mode=rw", None, false, Path::new("/50% #1"))
        .expect("valid");
    assert_eq!(odd.url.reveal(), "sqlite:///50%25 %231/a%3Fb.db?mode=rw");
    assert_eq!(odd.sqlite_file(), Some(PathBuf::from("/50% #1/a?b.db")));
    assert!(broken("sqlite::memory:").contains("names no file"));
    assert!(broken("sqlite:").contains("names no file"));
}

#[test]
fn nothing_goes_unencrypted_to_another_host_unless_it_is_said() {
    assert!(broken("amqp://broker.example").contains("amqps://"));
    assert!(broken("postgres://db.example/a?sslmode=prefer").contains("verify-full"));
    assert!(broken("postgres://db.example/a?sslmode=verify").contains("unknown sslmode"));
    assert!(parse("amqp://broker.example", true).is_ok());
    for local in ["amqp://localhost", "amqp://127.0.0.9", "amqp://[::1]:5672", "amqp://a@localhost/%2f"] {
        assert!(parse(local, false).is_ok(), "{local}");
    }
    let remote = parse("postgres://app@db.example/a", false).expect("valid");
    assert_eq!(remote.url.reveal(), "postgres://app@db.example/a?sslmode=verify-full");
    let chosen = parse("postgres://app@db.example/a?sslmode=require", false).expect("valid");
    assert!(chosen.url.reveal().ends_with("?sslmode=require"));
    for local in ["postgres://localhost/a", "postgres:///a?host=/run/postgresql", "postgres://%2Frun%2Fpg/a"]
    {
        let connection = parse(local, false).expect(local);
        assert!(!connection.url.reveal().contains("sslmode"), "{local}");
    }
    assert!(broken("postgres://db.example/a?sslmode=require&sslmode=disable").contains("sslmode=disable"));
}

#[test]
fn mysql_is_encrypted_in_its_own_words() {
    let remote = parse("mysql://app@db.example/a", false).expect("valid");
    assert_eq!(remote.url.reveal(), "mysql://app@db.example/a?ssl-mode=VERIFY_IDENTITY");
    let chosen = parse("mariadb://app@db.example/a?ssl-mode=required", false).expect("valid");
    assert!(chosen.url.reveal().ends_with("?ssl-mode=required"));
    for local in ["mysql://localhost/a", "mysql://app@db.example/a?socket=/run/mysqld/mysqld.sock"] {
        assert!(!parse(local, false).expect(local).url.reveal().contains("ssl"), "{local}");
    }
    assert!(broken("mysql://db.example/a?ssl-mode=PREFERRED").contains("VERIFY_IDENTITY"));
    assert!(broken("mysql://db.example/a?ssl-mode=verify-full").contains("unknown ssl-mode"));
    // The driver of MySQL knows no such parameter: it would go to db.example.
    let elsewhere = parse("mysql://db.example/a?host=localhost", false).expect("valid");
    assert!(elsewhere.url.reveal().ends_with("ssl-mode=VERIFY_IDENTITY"));
    assert!(parse("mysql://db.example/a?ssl-mode=disabled", true).is_ok());
}

#[test]
fn a_list_of_brokers_is_checked_like_any_other_url() {
    for local in ["kafka://localhost", "kafka://127.0.0.1:9092,[::1]:9093", "kafka+ssl://a:b@far.example"] {
        assert_eq!(parse(local, false).expect(local).url.reveal(), local);
    }
    assert!(broken("kafka://localhost,far.example").contains("use kafka+ssl://"));
    assert!(parse("kafka://far.example", true).is_ok());
    assert!(broken("kafka://localhost:x").contains("is no list of brokers: the port of 'localhost'"));
    assert!(broken("kafka://app@localhost").contains("names a user without a password"));
    assert!(broken("kafka://app:canary@localhost?sasl=x").contains("'sasl' must be one of"));
    let secret = Secret::new("p@ss/canary");
    let parse = |url| Connection::parse("events", url, Some(&secret), false, Path::new("/"));
    let connection = parse("kafka://app@localhost:1,localhost:2?sasl=scram-sha-256").expect("valid");
    assert_eq!(
        connection.url.reveal(),
        "kafka://app:p%40ss%2Fcanary@localhost:1,localhost:2?sasl=scram-sha-256"
    );
    assert!(!format!("{connection} {connection:?}").contains("canary"));
    assert!(parse("kafka://app:x@localhost").is_err() && parse("kafka://localhost").is_err());
}

#[test]
fn a_password_from_a_file_is_encoded_and_never_shown() {
    let secret = Secret::new("p@ss/canary");
    let parse = |url| Connection::parse("shop", url, Some(&secret), false, Path::new("/"));
    let connection = parse("postgres://app@localhost/a").expect("valid");
    assert_eq!(connection.url.reveal(), "postgres://app:p%40ss%2Fcanary@localhost/a");
    assert!(!format!("{connection} {connection:?}").contains("canary"));
    assert!(parse("postgres://app:x@localhost/a").is_err());
    assert!(parse("postgres://localhost/a").is_err());
    assert!(parse("sqlite:a.db").is_err());
}

#[test]
fn a_mail_server_is_checked_like_any_other_url() {
    for url in ["smtp://localhost", "smtps://mail.example", "smtp://u:p@mail.example:587"] {
        assert_eq!(parse(url, false).expect(url).kind, Kind::Smtp);
    }
    assert!(broken("smtps://app@mail.example").contains("user and password belong together"));
    assert!(broken("smtps://mail.example/inbox").contains("nothing may stand after the host"));
    let secret = Secret::new("p@ss/canary");
    let connection =
        Connection::parse("post", "smtps://app@mail.example", Some(&secret), false, Path::new("/"));
    let connection = connection.expect("valid");
    assert_eq!(connection.url.reveal(), "smtps://app:p%40ss%2Fcanary@mail.example");
    assert!(!format!("{connection} {connection:?}").contains("canary"));
}
