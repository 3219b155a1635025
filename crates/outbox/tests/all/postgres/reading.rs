//! Reading the log under hostile writers: early transaction ids, long transactions, savepoints, rollbacks; while
//! relays die and take over; behind a pooler; and after a dump and restore into another server.

use std::collections::{HashMap, HashSet};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outbox::admin::{Admin, ReplayFrom};
use outbox::memory::Recorder;
use outbox::postgres::Outbox;
use outbox::{Cause, Message, MessageId, Outcome, Pipe, code};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sqlx::Row;
use testbed::{PgBouncer, Postgres};
use tokio_util::sync::CancellationToken;

use super::Log;

const WRITERS: u64 = 8;
const KEYS: usize = 20;

/// What was committed: the ledger that arrivals are checked against.
type Ledger = Arc<Mutex<HashSet<MessageId>>>;

async fn prepare(outbox: &Outbox) {
    let pool = outbox.pool();
    sqlx::raw_sql("create table aggregates (key text primary key, version int not null)")
        .execute(pool)
        .await
        .unwrap();
    let seed = "insert into aggregates select 'k' || n, 0 from generate_series(0, 19) n";
    sqlx::raw_sql(seed).execute(pool).await.unwrap();
}

/// Writes until `end`; every event carries the next version of its aggregate, taken under its row lock.
async fn write(outbox: Outbox, writer: u64, end: Instant, ledger: Ledger) {
    let mut dice = StdRng::seed_from_u64(writer);
    while Instant::now() < end {
        let mut tx = outbox.pool().begin().await.unwrap();
        // An id long before the first row: the case in which a number alone misleads.
        sqlx::raw_sql("select pg_current_xact_id()").execute(&mut *tx).await.unwrap();
        let pause = match writer {
            0 => dice.random_range(0..1200),
            _ if dice.random_bool(0.3) => dice.random_range(0..20),
            _ => 0,
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let mut keys: Vec<usize> = (0..dice.random_range(1..4)).map(|_| dice.random_range(0..KEYS)).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut written = Vec::new();
        for key in keys {
            let undone = dice.random_bool(0.1);
            if undone {
                sqlx::raw_sql("savepoint s").execute(&mut *tx).await.unwrap();
            }
            let sql = "update aggregates set version = version + 1 where key = $1 returning version";
            let row =
                sqlx::query(sql).bind(format!("k{key}")).persistent(false).fetch_one(&mut *tx).await.unwrap();
            let body = format!("k{key}:{}", row.get::<i32, _>(0) - 1);
            let event = Message::new("aggregate.changed", body).key(format!("k{key}"));
            let id = outbox.enqueue(&mut tx, event).await.unwrap();
            if undone {
                sqlx::raw_sql("rollback to s").execute(&mut *tx).await.unwrap();
            } else {
                written.push(id);
            }
        }
        if dice.random_bool(0.1) {
            tx.rollback().await.unwrap();
        } else {
            tx.commit().await.unwrap();
            ledger.lock().unwrap().extend(written);
        }
    }
}

async fn write_all(outbox: &Outbox, seconds: u64, ledger: &Ledger) {
    let end = Instant::now() + Duration::from_secs(seconds);
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write(outbox.clone(), writer, end, ledger.clone())));
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

/// Lost, phantom, twice, and out of order by first arrival.
fn check(ledger: &Ledger, came: &[Message]) -> (usize, usize, usize, usize) {
    let committed = ledger.lock().unwrap();
    let ids: HashSet<_> = came.iter().map(|message| message.id.clone()).collect();
    let (lost, phantom) = (committed.difference(&ids).count(), ids.difference(&committed).count());
    let (mut next, mut overtaken): (HashMap<&str, usize>, usize) = (HashMap::new(), 0);
    for message in came {
        let body = std::str::from_utf8(&message.payload).unwrap();
        let (key, number) = body.split_once(':').unwrap();
        let (number, expected) = (number.parse::<usize>().unwrap(), next.entry(key).or_default());
        overtaken += usize::from(number > *expected);
        *expected = (*expected).max(number + 1);
    }
    (lost, phantom, came.len() - ids.len(), overtaken)
}

async fn wait_for_all(ledger: &Ledger, sink: &Recorder) -> Vec<Message> {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let came = sink.received();
        let ids: HashSet<_> = came.iter().map(|message| &message.id).collect();
        if ids.len() >= ledger.lock().unwrap().len() || Instant::now() > patience {
            return came;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Eight writers, one relay that is never disturbed: nothing lost, nothing twice, every key in order.
async fn exact(log: &Log, outbox: &Outbox) {
    prepare(&log.outbox).await;
    let (ledger, sink, stop) = (Ledger::default(), Recorder::new(), CancellationToken::new());
    let pipe = tokio::spawn(Pipe::new(outbox.cursor("c"), sink.clone()).batch(20).run(stop.clone()));
    write_all(outbox, 6, &ledger).await;
    let came = wait_for_all(&ledger, &sink).await;
    stop.cancel();
    pipe.await.unwrap().unwrap();
    let committed = ledger.lock().unwrap().len();
    assert!(committed > 500, "only {committed} were written");
    assert_eq!(check(&ledger, &came), (0, 0, 0, 0), "lost, phantom, twice, overtaken of {committed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_hostile_writers_lose_nothing_repeat_nothing_and_keep_their_order() {
    let Some(log) = Log::new().await else { return };
    exact(&log, &log.outbox.clone()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_the_same_behind_a_pooler_in_transaction_mode() {
    let (Some(server), Some(log)) = (testbed::postgres().await, Log::new().await) else { return };
    let Some(pooler) = testbed::available(PgBouncer::start(server).await) else { return };
    let outbox = Outbox::connect(&pooler.url(log.database.name())).await.unwrap();
    exact(&log, &outbox).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_relays_that_die_and_take_over_lose_nothing_and_keep_the_order() {
    let Some(log) = Log::new().await else { return };
    prepare(&log.outbox).await;
    let (ledger, sink, stop) = (Ledger::default(), Recorder::new(), CancellationToken::new());
    // Rejections on top, so that what is set aside is taken over, too.
    let dice = Mutex::new(StdRng::seed_from_u64(7));
    sink.judge_by(move |_| match dice.lock().unwrap().random_bool(0.02) {
        true => Outcome::rejected(Cause::new(code::HANDLER, "by the dice")),
        false => Outcome::Delivered,
    });
    let (window, mut relays) = (3 * 20, Vec::new());
    for relay in 0..3 {
        let (outbox, sink, stop) = (log.outbox.clone(), sink.clone(), stop.clone());
        relays.push(tokio::spawn(async move {
            let mut dice = StdRng::seed_from_u64(100 + relay);
            let mut deaths = 0;
            while !stop.is_cancelled() {
                let cursor = outbox.cursor("c").lease(Duration::from_millis(500));
                let pipe = Pipe::new(cursor, sink.clone()).batch(20).depth(3);
                let task = tokio::spawn(pipe.run(CancellationToken::new()));
                tokio::time::sleep(Duration::from_millis(dice.random_range(50..900))).await;
                // Dropped in the middle of whatever it does, with nothing given back.
                task.abort();
                deaths += 1;
            }
            deaths
        }));
    }
    write_all(&log.outbox, 10, &ledger).await;
    let came = wait_for_all(&ledger, &sink).await;
    stop.cancel();
    let mut deaths = 0;
    for relay in relays {
        deaths += relay.await.unwrap();
    }
    let (lost, phantom, twice, overtaken) = check(&ledger, &came);
    assert_eq!((lost, phantom, overtaken), (0, 0, 0), "lost, phantom, overtaken");
    assert!(twice <= deaths * window, "{twice} twice after {deaths} deaths: more than a window each");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_a_cut_connection_costs_no_message() {
    let (Some(server), Some(log)) = (testbed::postgres().await, Log::new().await) else { return };
    prepare(&log.outbox).await;
    let proxy = testbed::Proxy::to(("127.0.0.1", server.port())).await.unwrap();
    let cut = Outbox::connect(&proxy.reroute(log.database.url()).unwrap()).await.unwrap();
    let (ledger, sink, stop) = (Ledger::default(), Recorder::new(), CancellationToken::new());
    let pipe = tokio::spawn(Pipe::new(cut.cursor("c"), sink.clone()).batch(20).run(stop.clone()));
    let disturb = async {
        let mut dice = StdRng::seed_from_u64(5);
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(dice.random_range(50..400))).await;
            if dice.random_bool(0.5) { proxy.cut() } else { proxy.cut_after(dice.random_range(0..3000)) }
        }
    };
    futures_util::future::join(write_all(&log.outbox, 6, &ledger), disturb).await;
    let came = wait_for_all(&ledger, &sink).await;
    stop.cancel();
    pipe.await.unwrap().unwrap();
    assert_eq!(check(&ledger, &came), (0, 0, 0, 0), "the lease outlives a cut, so nothing comes even twice");
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_after_a_dump_and_restore_into_another_server_nothing_is_lost_or_twice() {
    let (Some(server), Some(log)) = (testbed::postgres().await, Log::new().await) else { return };
    let Some(other) = testbed::available(Postgres::start().await) else { return };
    prepare(&log.outbox).await;
    let (ledger, sink) = (Ledger::default(), Recorder::new());
    // Part is done, part is set aside, part is pending when the dump is made; a second cursor has done nothing.
    write_all(&log.outbox, 2, &ledger).await;
    let half = ledger.lock().unwrap().len() / 2;
    let stop = CancellationToken::new();
    let (dice, stopper, counted) = (Mutex::new(StdRng::seed_from_u64(9)), stop.clone(), Mutex::new(0));
    sink.judge_by(move |_| {
        let mut counted = counted.lock().unwrap();
        *counted += 1;
        if *counted >= half {
            stopper.cancel();
        }
        match dice.lock().unwrap().random_bool(0.05) {
            true => Outcome::rejected(Cause::new(code::HANDLER, "by the dice")),
            false => Outcome::Delivered,
        }
    });
    Pipe::new(log.outbox.cursor("c"), sink.clone()).batch(10).depth(1).run(stop).await.unwrap();
    let behind = log.outbox.cursor("idle");
    outbox::Source::claim(&behind, 1).await.unwrap();
    outbox::Source::close(&behind).await.unwrap();

    let database = other.database().await.unwrap();
    let dump = run(Command::new(server.bin().join("pg_dump")).arg("--no-owner").arg(log.database.url()));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), dump).unwrap();
    run(Command::new(server.bin().join("psql"))
        .args(["-qv", "ON_ERROR_STOP=1"])
        .arg(database.url())
        .arg("-f")
        .arg(file.path()));

    let restored = Outbox::connect(database.url()).await.unwrap();
    // Applications write before any relay has noticed, and go on while it works.
    write_all(&restored, 1, &ledger).await;
    sink.come_up();
    let idle = Recorder::new();
    let stop = CancellationToken::new();
    let pipes = [("c", &sink), ("idle", &idle)].map(|(name, sink)| {
        tokio::spawn(Pipe::new(restored.cursor(name), sink.clone()).batch(50).run(stop.clone()))
    });
    write_all(&restored, 2, &ledger).await;
    let came = wait_for_all(&ledger, &sink).await;
    assert_eq!(check(&ledger, &came), (0, 0, 0, 0), "lost, phantom, twice, overtaken");
    assert_eq!(
        check(&ledger, &wait_for_all(&ledger, &idle).await),
        (0, 0, 0, 0),
        "the cursor that was behind"
    );
    stop.cancel();
    for pipe in pipes {
        pipe.await.unwrap().unwrap();
    }
    // A cursor that is made only now begins with what came over, too.
    let (fresh, stop) = (Recorder::new(), CancellationToken::new());
    let pipe = tokio::spawn(Pipe::new(restored.cursor("new"), fresh.clone()).run(stop.clone()));
    assert_eq!(check(&ledger, &wait_for_all(&ledger, &fresh).await), (0, 0, 0, 0), "the new cursor");
    stop.cancel();
    pipe.await.unwrap().unwrap();
    // History of before the restore can still be replayed.
    let all = restored.replay("c", &outbox::admin::ReplayFrom::Start, false).await.unwrap();
    let again = Recorder::new();
    let stop = CancellationToken::new();
    let pipe = tokio::spawn(Pipe::new(restored.cursor("c"), again.clone()).run(stop.clone()));
    let came = wait_for_all(&ledger, &again).await;
    assert_eq!((check(&ledger, &came), came.len() as u64), ((0, 0, 0, 0), all));
    stop.cancel();
    pipe.await.unwrap().unwrap();
}

/// After a restore one cursor begins afresh at once and lags, another one later; that one is replayed.
#[tokio::test]
async fn c4_a_replay_of_one_cursor_takes_nothing_from_another_that_began_afresh_before_it() {
    // A log that is empty by then leaves no number to begin at.
    for is_purged in [false, true] {
        let Some(log) = Log::new().await else { return };
        let write = async |count: usize| {
            let mut tx = log.outbox.pool().begin().await.unwrap();
            for _ in 0..count {
                log.outbox.enqueue(&mut tx, Message::new("t", "")).await.unwrap();
            }
            tx.commit().await.unwrap();
        };
        let mut came = HashSet::new();
        write(2).await;
        for name in ["early", "late"] {
            let cursor = log.outbox.cursor(name);
            read_on(&cursor, &mut came).await;
            outbox::Source::close(&cursor).await.unwrap();
        }
        if is_purged {
            sqlx::raw_sql("delete from outbox.messages").execute(log.outbox.pool()).await.unwrap();
        }
        // As after a restore: the cursors are of another server.
        sqlx::raw_sql("update outbox.cursors set system_id = 1").execute(log.outbox.pool()).await.unwrap();
        let early = log.outbox.cursor("early");
        assert!(outbox::Source::claim(&early, 10).await.unwrap().messages.is_empty(), "it had read all");
        write(2).await;
        let late = log.outbox.cursor("late");
        read_on(&late, &mut came).await;
        outbox::Source::close(&late).await.unwrap();
        let all = if is_purged { 2 } else { 4 };
        for dry_run in [true, false] {
            assert_eq!(log.outbox.replay("late", &ReplayFrom::Start, dry_run).await.unwrap(), all);
        }

        let mut left = HashSet::new();
        read_on(&early, &mut left).await;
        assert_eq!(left.len(), 2, "what was written since it began afresh");
        let mut again = HashSet::new();
        read_on(&log.outbox.cursor("late"), &mut again).await;
        assert_eq!(again.len() as u64, all);
    }
}

/// A cursor that was made since reads its first window, and has passed the place of a row that was not committed then.
#[tokio::test]
async fn c4_a_replay_of_one_cursor_takes_nothing_from_another_that_is_within_its_first_window() {
    let Some(log) = Log::new().await else { return };
    let pool = log.outbox.pool();
    let write = async || {
        let mut tx = pool.begin().await.unwrap();
        log.outbox.enqueue(&mut tx, Message::new("t", "")).await.unwrap();
        tx
    };
    write().await.commit().await.unwrap();
    let mut came = HashSet::new();
    let old = log.outbox.cursor("old");
    read_on(&old, &mut came).await;
    outbox::Source::close(&old).await.unwrap();
    // As after a restore onto a server whose ids are higher.
    sqlx::raw_sql("update outbox.cursors set system_id = 1").execute(pool).await.unwrap();
    let late = write().await;
    for _ in 0..2 {
        write().await.commit().await.unwrap();
    }
    let (new, mut left) = (log.outbox.cursor("new"), HashSet::new());
    let claim = outbox::Source::claim(&new, 2).await.unwrap();
    left.extend(claim.messages.iter().map(|message| message.id.to_string()));
    outbox::Source::settle(&new, &claim, &[outbox::Verdict::Done, outbox::Verdict::Done]).await.unwrap();
    late.commit().await.unwrap();

    read_on(&old, &mut came).await;
    outbox::Source::close(&old).await.unwrap();
    for dry_run in [true, false] {
        assert_eq!(log.outbox.replay("old", &ReplayFrom::Start, dry_run).await.unwrap(), 4);
    }
    read_on(&new, &mut left).await;
    assert_eq!((came.len(), left.len()), (4, 4), "of both cursors");
    let mut again = HashSet::new();
    read_on(&log.outbox.cursor("old"), &mut again).await;
    assert_eq!(again.len(), 4);
}

/// The mark of a new cursor and a writer that begins at the same moment: one writer, so that no other transaction
/// hides the mistake, and many cursors, each made at another moment of its transactions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_a_writer_that_begins_while_a_cursor_is_made_is_not_passed_over() {
    let Some(log) = Log::new().await else { return };
    let (writing, outbox) = (CancellationToken::new(), log.outbox.clone());
    let (writer, ended) = (writing.clone(), writing.clone());
    let writer = tokio::spawn(async move {
        let _ended = ended.drop_guard();
        while !writer.is_cancelled() {
            let mut tx = outbox.pool().begin().await.unwrap();
            outbox.enqueue(&mut tx, Message::new("t", "")).await.unwrap();
            tokio::time::sleep(Duration::from_millis(3)).await;
            tx.commit().await.unwrap();
        }
    });
    let mut cursors = Vec::new();
    for number in 0..150 {
        let cursor = log.outbox.cursor(format!("c{number}"));
        let mut came = HashSet::new();
        // Two windows, at least: the second begins at the floor of the first.
        for _ in 0..2 {
            read_on(&cursor, &mut came).await;
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
        cursors.push((cursor, came));
    }
    writing.cancel();
    writer.await.unwrap();
    let rows =
        sqlx::query("select id::text from outbox.messages").fetch_all(log.outbox.pool()).await.unwrap();
    let written: HashSet<String> = rows.iter().map(|row| row.get(0)).collect();
    for (cursor, mut came) in cursors {
        read_on(&cursor, &mut came).await;
        assert_eq!(written.difference(&came).count(), 0, "passed over, of {}", written.len());
    }
}

/// Claims and settles until nothing is due.
async fn read_on(cursor: &outbox::postgres::Cursor, came: &mut HashSet<String>) {
    loop {
        let claim = outbox::Source::claim(cursor, 1000).await.unwrap();
        if claim.messages.is_empty() {
            return;
        }
        let done = vec![outbox::Verdict::Done; claim.messages.len()];
        outbox::Source::settle(cursor, &claim, &done).await.unwrap();
        came.extend(claim.messages.iter().map(|message| message.id.to_string()));
    }
}
