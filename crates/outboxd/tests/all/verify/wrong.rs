//! Where a promise is really broken, `verify` says so.

use std::io::Write;
use std::time::{Duration, Instant};

use sqlx::{Connection, SqliteConnection};

use super::{count, report};
use crate::program::{PATIENCE, Program};

/// In one transaction with the producer every 100th message vanishes; every 50th effect happens twice.
const SABOTAGE: &str = "
    CREATE TRIGGER vanish AFTER INSERT ON outbox_messages WHEN NEW.seq % 100 = 0
        BEGIN DELETE FROM outbox_messages WHERE seq = NEW.seq; END;
    CREATE TRIGGER again AFTER INSERT ON outboxd_verify_effects WHEN NEW.n % 50 = 0
        BEGIN INSERT INTO outboxd_verify_effects (id) VALUES (NEW.id); END;";

#[tokio::test(flavor = "multi_thread")]
async fn d3_what_is_lost_made_up_or_doubled_is_counted_and_ends_with_exit_code_1() {
    let program = Program::new();
    let flags = [
        "verify",
        "--format",
        "json",
        "--dir",
        "run",
        "--faults",
        "term",
        "--minutes",
        "0.15",
        "--seed",
        "5",
    ];
    let mut command = program.command(&flags);
    let running = tokio::task::spawn_blocking(move || Program::finish(&mut command));
    let until = Instant::now() + PATIENCE;
    let events = program.path("run/events.jsonl");
    while !std::fs::read_to_string(&events).is_ok_and(|lines| lines.lines().count() > 10) {
        assert!(Instant::now() < until, "nothing arrives");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let url = format!("sqlite://{}", program.path("run/verify.db").display());
    let mut database = SqliteConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("PRAGMA busy_timeout = 30000").execute(&mut database).await.unwrap();
    sqlx::raw_sql(SABOTAGE).execute(&mut database).await.unwrap();
    let line = std::fs::read_to_string(&events).unwrap().lines().next().unwrap().to_owned() + "\n";
    let id = serde_json::from_str::<serde_json::Value>(&line).unwrap()["id"].as_str().unwrap().to_owned();
    let mut file = std::fs::OpenOptions::new().append(true).open(&events).unwrap();
    // A clean stop repeats nothing, so these are too many; and one that nobody wrote.
    file.write_all(line.repeat(3000).as_bytes()).unwrap();
    file.write_all(line.replace(&id, "0190f2c8-0000-7000-8000-000000000000").as_bytes()).unwrap();
    let ran = running.await.unwrap();
    assert_eq!(ran.code, 1, "{ran:#?}");
    let report = report(&ran);
    assert_eq!(report["holds"], false, "{report:#}");
    assert!(count(&report, "lost") > 0, "{report:#}");
    assert_eq!(count(&report, "lost"), count(&report, "effects_missing"), "{report:#}");
    assert!(count(&report, "effects_twice") > 0, "{report:#}");
    assert_eq!(count(&report, "phantom"), 1, "{report:#}");
    assert!(count(&report, "duplicates") >= 3000, "{report:#}");
    assert!(count(&report, "duplicate_bound") <= 40 * count(&report, "lapses"), "{report:#}");
    assert_eq!((count(&report, "out_of_order"), count(&report, "seed")), (0, 5), "{report:#}");
    assert!(ran.stderr.contains("the logs of the relays"), "{ran:#?}");
    let wrong = program.read("run/wrong.txt");
    assert_eq!(wrong.matches(" lost\n").count() as u64, count(&report, "lost"), "{wrong}");
}
