//! How it is asked for, what it refuses, and how it ends.

use std::time::{Duration, Instant};

use super::{holds, report, run, users_of};
use crate::program::{PATIENCE, Program, Ran};

#[test]
fn a_database_that_is_not_empty_is_refused_unless_it_may_be_destroyed() {
    let config = "[connections]\nshop = \"sqlite:shop.db\"\n[sources.orders]\non = \"shop\"\n\
                  [sinks.out]\nstdout = true\n[pipes.out]\nfrom = \"orders\"\nto = \"out\"\n";
    let program = Program::migrated(config);
    program.send("a");
    let flags = ["--config", "outboxd.toml", "--faults", "term", "--minutes", "0.05"];
    let refused = run(&program, &flags);
    assert_eq!(refused.code, 2, "{refused:#?}");
    assert!(refused.stderr.contains("there is an outbox that was used"), "{refused:#?}");
    assert!(refused.stderr.contains("--yes-destroy"), "{refused:#?}");
    assert_eq!(program.ok(&["list"]).lines().count(), 2, "it is left as it was: a header and the message");
    let mut destroying = flags.to_vec();
    destroying.push("--yes-destroy");
    let report = holds(&run(&program, &destroying));
    // A machine that is too busy to keep a lease is no fault of SIGTERM.
    if report["lapses"] == 0 {
        assert_eq!(report["duplicates"], 0, "SIGTERM under load repeats nothing: {report:#}");
    }
    let gone = program.run(&["status"]);
    assert!(gone.only_error(1).1.contains("outboxd migrate"), "its tables are removed: {gone:#?}");
}

#[test]
fn what_cannot_be_is_told_before_anything_is_made() {
    let program = Program::new();
    for (flags, words) in [
        (vec!["--faults", "kil"], "there is no fault 'kil'"),
        (vec!["--faults", "broker-cut"], "there is no broker"),
        (vec!["--faults", "term", "--kills", "3"], "--kills without the fault 'kill'"),
        (vec!["--hook", "kill=true"], "two faults of the name 'kill'"),
        (vec!["--kafka-proxy", "127.0.0.1:1"], "--kafka-proxy without Kafka"),
    ] {
        let refused = run(&program, &flags);
        assert_eq!(refused.code, 2, "{refused:#?}");
        assert!(refused.stderr.contains(words), "{refused:#?}");
    }
    assert_eq!(program.run(&["verify", "--hook", "no-command"]).code, 2);
    assert_eq!(program.run(&["verify", "--minutes", "0"]).code, 2);
}

#[test]
fn where_nothing_breaks_nothing_comes_twice() {
    let ran = run(&Program::new(), &["--faults", "none", "--minutes", "0.1"]);
    let report = report(&ran);
    assert!(report["events"].as_u64() > Some(0) && report["faults"] == serde_json::json!({}), "{ran:#?}");
    assert_eq!((&report["lost"], &report["duplicate_bound"]), (&0.into(), &0.into()), "{ran:#?}");
    // A machine that is too busy to keep a lease is nobody's fault.
    if report["lapses"] == 0 {
        assert_eq!((ran.code, &report["duplicates"]), (0, &0.into()), "{ran:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_is_removed_if_it_cannot_begin() {
    let Some(postgres) = testbed::postgres().await else { return };
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let (database, vhost) = (postgres.database().await.unwrap(), rabbitmq.vhost().await.unwrap());
    let mut connection = <sqlx::PgConnection as sqlx::Connection>::connect(database.url()).await.unwrap();
    let read_only = format!("alter database \"{}\" set default_transaction_read_only = on", database.name());
    sqlx::raw_sql(sqlx::AssertSqlSafe(read_only)).execute(&mut connection).await.unwrap();
    let config = format!("[connections]\nshop = \"{}\"\nrabbit = \"{}\"\n", database.url(), vhost.url());
    let refused = run(&Program::with(&config), &["--config", "outboxd.toml"]);
    assert_ne!(refused.code, 0, "{refused:#?}");
    assert!(refused.stderr.contains("read-only"), "{refused:#?}");
    for list in ["list_queues", "list_exchanges"] {
        let left = rabbitmq.ctl(&["-q", list, "-p", vhost.name(), "name"]).await.unwrap();
        assert!(!left.contains("outboxd-verify"), "{left}");
    }
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_clients_of_kafka_would_pass_by_is_refused() {
    let Some(kafka) = testbed::kafka().await else { return };
    let config = format!("[connections]\nshop = \"sqlite:shop.db\"\nkafka = \"{}\"\n", kafka.url());
    let program = Program::with(&config);
    let proxy = faults::port::address(faults::port::free().unwrap()).to_string();
    let refused = run(&program, &["--config", "outboxd.toml", "--kafka-proxy", &proxy]);
    assert_eq!(refused.code, 2, "{refused:#?}");
    let told = format!("tells its clients to go to {}, and not to {proxy}", kafka.brokers());
    assert!(refused.stderr.contains(&told), "{refused:#?}");
    assert!(refused.stderr.contains("advertised.listeners"), "{refused:#?}");
}

#[test]
fn a_signal_ends_it_well_and_no_relay_outlives_it_however_it_ends() {
    let program = Program::new();
    for signal in ["INT", "KILL"] {
        let folder = format!("run-{signal}");
        let flags = ["verify", "--format", "json", "--dir", &folder, "--minutes", "60", "--faults", "kill"];
        let running = program.start(&flags);
        let config = program.path(&folder).join("verify.toml");
        let until = |what: &str, is_so: &dyn Fn() -> bool| {
            let end = Instant::now() + PATIENCE;
            while !is_so() {
                assert!(Instant::now() < end, "never {what}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let events = program.path(&folder).join("events.jsonl");
        until("anything arrives", &|| std::fs::metadata(&events).is_ok_and(|file| file.len() > 10_000));
        assert!(users_of(&config) > 0);
        // Without a kill there would be nothing to say.
        let lives = || {
            let logs = (0..3).map(|relay| program.read(&format!("{folder}/relay-{relay}.log")));
            logs.map(|log| log.matches("outboxd is up").count()).sum::<usize>()
        };
        until("a relay is killed", &|| lives() > 4);
        running.signal(signal);
        if signal == "INT" {
            let first = running.next_line();
            let (code, stderr) = running.end();
            assert_eq!(code, 0, "{first}\n{stderr}");
        }
        until("all gone", &|| users_of(&config) == 0);
    }
}

#[test]
fn people_get_a_table() {
    let program = Program::new();
    let Ran { code, stdout, stderr } =
        program.run(&["verify", "--minutes", "0.05", "--faults", "kill", "--seed", "9"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(stdout.contains("lost") && stdout.contains("seed 9: all promises hold"), "{stdout}");
    assert!(stderr.contains("seed 9; working in"), "{stderr}");
}
