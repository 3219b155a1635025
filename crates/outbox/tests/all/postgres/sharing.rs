//! Several relays on one cursor: leases, lanes, and what a stale owner can do (nothing).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use outbox::admin::Admin;
use outbox::conformance::source::SourceFixture;
use outbox::memory::Recorder;
use outbox::postgres::{Cursor, Outbox};
use outbox::{Message, Pipe, Result, Source, Verdict};
use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Log;
use crate::busy;

const LANES: u32 = 4;

/// One process that runs every lane which it can get.
struct Relay {
    stop: CancellationToken,
    pipes: JoinSet<Result<()>>,
}

impl Relay {
    fn start(outbox: &Outbox, owner: &str, lanes: u32, sink: &Recorder) -> Self {
        let (stop, mut pipes) = (CancellationToken::new(), JoinSet::new());
        let cursor = outbox.cursor("c").owner(owner).lease(Duration::from_millis(900));
        for lane in cursor.lanes(lanes) {
            pipes.spawn(
                Pipe::new(lane, sink.clone()).batch(20).idle(Duration::from_millis(50)).run(stop.clone()),
            );
        }
        Self { stop, pipes }
    }

    async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.pipes.join_next().await {
            ended.unwrap().unwrap();
        }
    }
}

async fn owners(outbox: &Outbox) -> Vec<Option<String>> {
    outbox.status().await.unwrap().into_iter().map(|lane| lane.owner).collect()
}

async fn until_shared(outbox: &Outbox, expected: &[(&str, usize)]) {
    let shared = async {
        loop {
            let owners = owners(outbox).await;
            let held = |name: &str| owners.iter().flatten().filter(|owner| *owner == name).count();
            if expected.iter().all(|(name, lanes)| held(name) == *lanes) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let told = format!("{expected:?} was never reached");
    tokio::time::timeout(Duration::from_secs(20), shared).await.expect(&told);
}

fn batch(from: usize) -> Vec<Message> {
    (from..from + 200).map(|n| Message::new("t", n.to_string()).key(n % 40)).collect()
}

fn assert_once_and_in_order(came: &[Message], count: usize) {
    let ids: HashSet<_> = came.iter().map(|message| &message.id).collect();
    assert_eq!((ids.len(), came.len()), (count, count), "each exactly once");
    let mut last: HashMap<&str, usize> = HashMap::new();
    for message in came {
        let number: usize = std::str::from_utf8(&message.payload).unwrap().parse().unwrap();
        let before = last.insert(message.key.as_deref().unwrap(), number);
        assert!(before.is_none_or(|before| before < number));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_are_shared_fairly_with_no_double_owner_and_change_hands_cleanly() {
    let Some(log) = Log::new().await else { return };
    let sink = Recorder::new();
    log.enqueue(batch(0)).await;
    let one = Relay::start(&log.outbox, "one", LANES, &sink);
    until_shared(&log.outbox, &[("one", 4)]).await;
    sink.wait_for(200).await;
    let two = Relay::start(&log.outbox, "two", LANES, &sink);
    until_shared(&log.outbox, &[("one", 2), ("two", 2)]).await;
    for round in 1..5 {
        log.enqueue(batch(round * 200)).await;
    }
    sink.wait_for(1000).await;
    one.stop().await;
    until_shared(&log.outbox, &[("one", 0), ("two", 4)]).await;
    log.enqueue(batch(1000)).await;
    assert_once_and_in_order(&sink.wait_for(1200).await, 1200);
    two.stop().await;
    assert!(owners(&log.outbox).await.iter().all(Option::is_none), "nothing stays claimed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_is_never_idle_gives_lanes_back_all_the_same() {
    let Some(log) = Log::new().await else { return };
    log.enqueue(busy::work().collect()).await;
    let relay = |owner: &str| -> Vec<Arc<dyn Source>> {
        let cursor = log.outbox.cursor("c").owner(owner).lease(Duration::from_secs(3));
        cursor.lanes(busy::LANES).into_iter().map(|lane| Arc::new(lane) as _).collect()
    };
    busy::assert_lanes_are_given_back(&relay("one"), &relay("two")).await;
}

/// One connection for all, since it alone knows at once what it has looked at; none before PostgreSQL 15.
async fn counting(log: &Log) -> Option<PgPool> {
    let version: i32 = sqlx::query_scalar("select current_setting('server_version_num')::int")
        .fetch_one(log.outbox.pool())
        .await
        .unwrap();
    if version < 150_000 {
        testbed::skip("this needs PostgreSQL 15, which can be asked at once what was looked at");
        return None;
    }
    Some(PgPoolOptions::new().max_connections(1).connect(log.database.url()).await.unwrap())
}

async fn counted(pool: &PgPool, what: &'static str) -> i64 {
    sqlx::query("select pg_stat_force_next_flush()").execute(pool).await.unwrap();
    sqlx::query_scalar(what).fetch_one(pool).await.unwrap()
}

async fn read_all(cursor: &Cursor) {
    loop {
        let claim = cursor.claim(10_000).await.unwrap();
        if claim.messages.is_empty() {
            return;
        }
        cursor.settle(&claim, &vec![Verdict::Done; claim.messages.len()]).await.unwrap();
    }
}

/// Fills the log with 100,000 messages.
async fn fill(log: &Log) {
    let fill = "insert into outbox.messages (type, key, payload)
                select 't', 'k' || n % 1000, '' from generate_series(1, 100000) as n";
    sqlx::query(fill).execute(log.outbox.pool()).await.unwrap();
    sqlx::query("analyze outbox.messages").execute(log.outbox.pool()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_of_a_lane_goes_by_index_however_long_the_log_is() {
    let Some(log) = Log::new().await else { return };
    fill(&log).await;
    let Some(pool) = counting(&log).await else { return };
    let one_by_one = "select seq_tup_read from pg_stat_user_tables where relid = 'outbox.messages'::regclass";
    let before = counted(&pool, one_by_one).await;
    let sink = Recorder::new();
    let relay = Relay::start(&Outbox::new(pool.clone()), "one", LANES, &sink);
    sink.wait_for(2_000).await;
    relay.stop().await;
    let read = counted(&pool, one_by_one).await - before;
    assert!(read < 100_000, "no claim looks through the whole log");
}

/// Neither to find its messages nor to plan how: what was removed is in the index until it is vacuumed.
#[tokio::test]
async fn a_claim_does_not_walk_through_what_was_removed() {
    let Some(log) = Log::new().await else { return };
    let not_vacuumed = "alter table outbox.messages set (autovacuum_enabled = off)";
    sqlx::raw_sql(not_vacuumed).execute(log.outbox.pool()).await.unwrap();
    fill(&log).await;
    let Some(pool) = counting(&log).await else { return };
    let cursor = Outbox::new(pool.clone()).cursor("c");
    read_all(&cursor).await;
    // Who meets them the second time knows at once that they are gone; and so passes any number of them.
    let remove = "delete from outbox.messages; set enable_seqscan = off; set enable_bitmapscan = off;
        select count(payload) from outbox.messages where seq > 0; reset all";
    sqlx::raw_sql(remove).execute(&pool).await.unwrap();
    log.enqueue(batch(0)).await;
    let blocks = "select (idx_blks_read + idx_blks_hit)::bigint from pg_statio_user_indexes
        where indexrelid = 'outbox.messages_pkey'::regclass";
    let before = counted(&pool, blocks).await;
    assert_eq!(cursor.claim(10).await.unwrap().messages.len(), 10);
    let walked = counted(&pool, blocks).await - before;
    assert!(walked < 50, "{walked} pages of the index");
}

/// Where the planner thinks it dear: that takes longer than a claim does, for each claim.
#[tokio::test]
async fn neither_a_claim_nor_a_purge_is_compiled_first() {
    let Some(log) = Log::new().await else { return };
    log.enqueue(batch(0)).await;
    let usual = format!("alter database \"{}\" set jit = on", log.database.name());
    sqlx::raw_sql(AssertSqlSafe(usual)).execute(log.outbox.pool()).await.unwrap();
    let outbox = Outbox::connect(log.database.url()).await.unwrap();
    // Both ask it for each row.
    let watch =
        "create or replace function outbox.lane_of(key text, seq bigint, lanes integer) returns integer
        language plpgsql as $$ begin
            if current_setting('jit')::bool then raise 'it may be compiled'; end if;
            return 0;
        end $$";
    sqlx::raw_sql(watch).execute(outbox.pool()).await.unwrap();
    let asked =
        sqlx::query("select outbox.lane_of(key, seq, 2) from outbox.messages").fetch_all(outbox.pool());
    assert!(asked.await.is_err(), "by itself it may be");
    let lanes = outbox.cursor("c").lanes(2);
    read_all(&lanes[0]).await;
    assert!(lanes[1].claim(500).await.unwrap().messages.is_empty());
    for lane in &lanes {
        lane.close().await.unwrap();
    }
    assert_eq!(outbox.purge(Duration::ZERO, 1_000, false).await.unwrap(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_is_late_and_says_so_right_now_keeps_nobody_waiting() {
    let Some(log) = Log::new().await else { return };
    let late =
        "insert into outbox.relays (cursor, owner, seen_at) values ('c', 'late', now() - interval '1 hour')";
    sqlx::query(late).execute(log.outbox.pool()).await.unwrap();
    let mut saying = log.outbox.pool().begin().await.unwrap();
    sqlx::query("update outbox.relays set seen_at = now()").execute(&mut *saying).await.unwrap();
    log.enqueue(batch(0)).await;
    let sink = Recorder::new();
    let relay = Relay::start(&log.outbox, "one", LANES, &sink);
    // As late as it is, it counts until it is forgotten, so half of the lanes wait for it.
    until_shared(&log.outbox, &[("one", 2)]).await;
    saying.commit().await.unwrap();
    until_shared(&log.outbox, &[("one", 4)]).await;
    sink.wait_for(200).await;
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lanes_of_a_relay_that_dies_are_taken_over_when_its_lease_is_over() {
    let Some(log) = Log::new().await else { return };
    let sink = Recorder::new();
    let (one, two) =
        (Relay::start(&log.outbox, "one", LANES, &sink), Relay::start(&log.outbox, "two", LANES, &sink));
    until_shared(&log.outbox, &[("one", 2), ("two", 2)]).await;
    drop(one.pipes);
    until_shared(&log.outbox, &[("two", 4)]).await;
    log.enqueue(batch(0)).await;
    assert_once_and_in_order(&sink.wait_for(200).await, 200);
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_lanes_can_change_without_loss() {
    let Some(log) = Log::new().await else { return };
    let sink = Recorder::new();
    for (round, lanes) in [1, 4, 3, 1].into_iter().enumerate() {
        log.enqueue(batch(round * 200)).await;
        let relay = Relay::start(&log.outbox, &format!("relay {round}"), lanes, &sink);
        sink.wait_for((round + 1) * 200).await;
        relay.stop().await;
        assert_eq!(owners(&log.outbox).await.len(), lanes as usize);
    }
    assert_once_and_in_order(&sink.received(), 800);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_owner_keeps_its_lease_and_a_standby_waits() {
    let Some(log) = Log::new().await else { return };
    let lease = Duration::from_millis(600);
    let holder = Arc::new(log.outbox.cursor("c").owner("holder").lease(lease));
    assert!(holder.claim(1).await.unwrap().messages.is_empty());
    let standby = log.outbox.cursor("c").owner("standby").lease(lease);
    // Three leases long, with nobody claiming on the holder's side: renewals alone keep it.
    let end = tokio::time::Instant::now() + 3 * lease;
    while tokio::time::Instant::now() < end {
        assert!(standby.claim(1).await.unwrap().messages.is_empty());
        assert_eq!(owners(&log.outbox).await, [Some("holder".to_owned())]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    holder.close().await.unwrap();
    standby.claim(1).await.unwrap();
    assert_eq!(owners(&log.outbox).await, [Some("standby".to_owned())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_was_halted_before_a_change_of_lanes_changes_nothing_after_it() {
    let Some(log) = Log::new().await else { return };
    log.enqueue(batch(0)).await;
    let halted = log.outbox.cursor("c").owner("halted").lanes(4).remove(0);
    let stale = halted.claim(10).await.unwrap();
    assert!(!stale.messages.is_empty());
    log.expire("c").await;
    let next = log.outbox.cursor("c").owner("next").lanes(2).remove(0);
    let taken = next.claim(10).await.unwrap();
    let error = halted.settle(&stale, &vec![outbox::Verdict::Done; stale.messages.len()]).await.unwrap_err();
    assert_eq!(error.kind(), outbox::ErrorKind::Lost);
    let cause = outbox::Cause::new(outbox::code::HANDLER, "told to fail");
    let retry = outbox::Verdict::Retry { after: Duration::from_secs(3600), attempts: 1, cause };
    next.settle(&taken, &vec![retry; taken.messages.len()]).await.unwrap();
    let waiting: u64 = log.outbox.status().await.unwrap().iter().map(|lane| lane.waiting).sum();
    assert_eq!(waiting, taken.messages.len() as u64, "the retries are written down");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_that_nobody_has_taken_yet_are_not_forgotten() {
    let Some(log) = Log::new().await else { return };
    log.enqueue(batch(0)).await;
    let first = log.outbox.cursor("c").owner("one").lanes(4).remove(0);
    let claim = first.claim(500).await.unwrap();
    let done = claim.messages.len();
    first.settle(&claim, &vec![outbox::Verdict::Done; done]).await.unwrap();
    first.close().await.unwrap();
    assert_eq!(
        log.outbox.purge(Duration::ZERO, 1000, false).await.unwrap(),
        done as u64,
        "only what its lane has done"
    );
    let sink = Recorder::new();
    let relay = Relay::start(&log.outbox, "two", 2, &sink);
    assert_eq!(sink.wait_for(200 - done).await.len(), 200 - done, "the other lanes' messages are all there");
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_cursors_that_listen_leave_connections_for_the_work() {
    let Some(log) = Log::new().await else { return };
    let outbox = log.outbox.clone().notify(true);
    outbox.migrate().await.unwrap();
    let (sink, stop, mut pipes) = (Recorder::new(), CancellationToken::new(), JoinSet::new());
    for lane in outbox.cursor("c").lanes(12) {
        pipes.spawn(Pipe::new(lane, sink.clone()).run(stop.clone()));
    }
    for round in 1..4 {
        log.enqueue(batch(round * 200)).await;
        sink.wait_for(round * 200).await;
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    stop.cancel();
    while let Some(ended) = pipes.join_next().await {
        ended.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_falls_silent_costs_no_more_than_a_lease() {
    let (Some(server), Some(log)) = (testbed::postgres().await, Log::new().await) else { return };
    let proxy = testbed::Proxy::to(("127.0.0.1", server.port())).await.unwrap();
    let silent = Outbox::connect(&proxy.reroute(log.database.url()).unwrap()).await.unwrap();
    let (sink, stop) = (Recorder::new(), CancellationToken::new());
    let cursor = silent.cursor("c").lease(Duration::from_secs(1));
    let pipe = tokio::spawn(Pipe::new(cursor, sink.clone()).drain(Duration::from_secs(2)).run(stop.clone()));
    log.enqueue(batch(0)).await;
    sink.wait_for(200).await;
    // Nothing is cut: packets just do not arrive any more, as when a host is gone.
    proxy.block();
    log.enqueue(batch(200)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    proxy.cut();
    proxy.unblock();
    let came = sink.wait_for(400).await;
    assert!(came.len() >= 400, "it went on by itself");
    proxy.block();
    stop.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(20), pipe).await.expect("it does not stop");
    ended.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_long_window_reading_goes_on_where_it_ended() {
    let Some(log) = Log::new().await else { return };
    for round in 0..20 {
        log.enqueue(batch(round * 200)).await;
    }
    // Far more settles than marks are kept, all within the one window of the backlog.
    let (sink, stop) = (Recorder::new(), CancellationToken::new());
    let pipe = tokio::spawn(Pipe::new(log.outbox.cursor("c"), sink.clone()).batch(20).run(stop.clone()));
    sink.wait_for(4000).await;
    stop.cancel();
    pipe.await.unwrap().unwrap();
    let row =
        sqlx::query("select floor, (select last_value from outbox.messages_seq) as last from outbox.cursors");
    let row = row.fetch_one(log.outbox.pool()).await.unwrap();
    let (floor, last): (i64, i64) = (sqlx::Row::get(&row, "floor"), sqlx::Row::get(&row, "last"));
    assert_eq!(floor, last, "nothing below is read again");
}
