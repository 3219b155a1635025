//! Two publishers, a log in PostgreSQL and a broker that is stopped, blocked, or cut off in the middle of it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outbox::policy::Backoff;
use outbox::postgres::Outbox;
use outbox::rabbitmq::{Exchange, ExchangeConfig};
use outbox::{Kept, Message, Pipe, Policy, Published, Publisher, Source, Store, Verdict, code};
use testbed::{RabbitMq, Vhost};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::postgres::Log;
use crate::rabbitmq::{EXCHANGE, Scene, id};

const KEYS: usize = 6;
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn short() -> Backoff {
    Backoff { first: Duration::from_millis(100), most: Duration::from_millis(500) }
}

/// A sink of its own connection.
pub(super) fn exchange(url: &str) -> Exchange {
    let mut config = ExchangeConfig::new(EXCHANGE);
    config.timeout = Duration::from_secs(2);
    Exchange::new(url, config).unwrap()
}

pub(super) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("waited too long for {what}"));
}

/// What was answered, in the order of the answers.
pub(super) type Answers = Arc<Mutex<Vec<(Message, Published)>>>;

/// Producers that publish over a few keys, each key by one of the publishers, and the pipe that delivers what is kept.
pub(super) struct Shop {
    pub(super) answers: Answers,
    quiet: CancellationToken,
    producers: Vec<JoinHandle<()>>,
    stop: CancellationToken,
    pipe: JoinHandle<outbox::Result<()>>,
    store: Arc<dyn Store>,
}

impl Shop {
    pub(super) fn open(publishers: Vec<Publisher>, store: Arc<dyn Store>, pipe: Pipe) -> Self {
        let (quiet, stop, answers) = (CancellationToken::new(), CancellationToken::new(), Answers::default());
        let publishers: Vec<_> = publishers.into_iter().map(Arc::new).collect();
        let produce = |key: usize| {
            let publisher = publishers[key % publishers.len()].clone();
            tokio::spawn(produce(publisher, format!("k{key}"), answers.clone(), quiet.clone()))
        };
        let producers = (0..KEYS).map(produce).collect();
        let policy = Policy { retry: short(), probe: short(), ..Policy::default() };
        let pipe = pipe.policy(policy).idle(Duration::from_millis(50));
        let pipe = tokio::spawn(pipe.run(stop.clone()));
        Self { answers, quiet, producers, stop, pipe, store }
    }

    /// Waits until every key has had `count` more answers of this kind.
    pub(super) async fn answers(&self, count: usize, what: &str, is_it: impl Fn(&Published) -> bool) {
        let from = self.answers.lock().unwrap().len();
        until(what, async || {
            let mut by_key: HashMap<String, usize> = HashMap::new();
            for (message, _) in
                self.answers.lock().unwrap()[from..].iter().filter(|(_, answer)| is_it(answer))
            {
                *by_key.entry(message.key.clone().unwrap()).or_default() += 1;
            }
            by_key.len() == KEYS && by_key.values().all(|found| *found >= count)
        })
        .await;
    }

    pub(super) async fn confirms(&self, count: usize) {
        self.answers(count, "confirms", |answer| *answer == Published::Confirmed).await;
    }

    pub(super) async fn keeps(&self, count: usize) {
        self.answers(count, "messages to be kept", |answer| *answer != Published::Confirmed).await;
    }

    /// Ends the publishing, lets the pipe deliver what is kept, and compares the queue with the answers.
    pub(super) async fn close(self, scene: &Scene) -> Vec<(Message, Published)> {
        self.quiet.cancel();
        for producer in self.producers {
            producer.await.unwrap();
        }
        let keys: Vec<String> = (0..KEYS).map(|key| format!("k{key}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        until("everything to be delivered", async || {
            self.store.has_kept(&keys).await.is_ok_and(|kept| kept.is_empty())
        })
        .await;
        self.stop.cancel();
        self.pipe.await.unwrap().unwrap();
        let answers = std::mem::take(&mut *self.answers.lock().unwrap());
        compare(&answers, scene).await;
        answers
    }
}

/// Publishes one after the other until told to be quiet.
async fn produce(publisher: Arc<Publisher>, key: String, answers: Answers, quiet: CancellationToken) {
    for number in 0.. {
        if quiet.is_cancelled() {
            return;
        }
        let message = Message::new("order.changed", format!("{key}:{number}")).key(&key);
        let answer = publisher.publish(message.clone()).await.unwrap();
        answers.lock().unwrap().push((message, answer));
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}

/// Everything is in the queue, in order for its key; what was confirmed once, and what was kept seldom twice.
async fn compare(answers: &[(Message, Published)], scene: &Scene) {
    let mut arrived: HashMap<String, usize> = HashMap::new();
    let mut firsts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for delivery in scene.drain("orders").await {
        let count = arrived.entry(id(&delivery)).or_default();
        *count += 1;
        if *count == 1 {
            let text = String::from_utf8(delivery.data).unwrap();
            firsts.entry(text.split(':').next().unwrap().to_owned()).or_default().push(text);
        }
    }
    for (key, came) in &firsts {
        let expected: Vec<_> = (0..came.len()).map(|number| format!("{key}:{number}")).collect();
        assert_eq!(*came, expected, "{key} is overtaken, or has a gap");
    }
    assert_eq!(firsts.values().map(Vec::len).sum::<usize>(), answers.len(), "something is lost");
    let twice: HashSet<&String> = arrived.iter().filter(|(_, count)| **count > 1).map(|(id, _)| id).collect();
    let confirmed = answers.iter().filter(|(_, answer)| *answer == Published::Confirmed);
    let confirmed: Vec<_> =
        confirmed.filter(|(message, _)| twice.contains(&message.id.to_string())).collect();
    assert!(confirmed.is_empty(), "confirmed, and there twice: {confirmed:?}");
    eprintln!("{} published, {} of them twice", answers.len(), twice.len());
}

pub(super) fn causes(answers: &[(Message, Published)]) -> HashSet<String> {
    let cause = |(_, answer): &(Message, Published)| match answer {
        Published::Kept(Kept::Cause(cause)) => Some(cause.code.to_string()),
        Published::Kept(Kept::Behind) => Some("behind".to_owned()),
        Published::Confirmed => None,
    };
    answers.iter().filter_map(cause).collect()
}

/// Two publishers with a pool and a connection of their own, as two processes have.
async fn open(log: &Log, url: &str) -> Shop {
    let mut publishers = Vec::new();
    for _ in 0..2 {
        let outbox = Outbox::connect(log.database.url()).await.unwrap();
        let publisher = Publisher::new(Arc::new(exchange(url)), Arc::new(outbox.store("later")));
        publishers.push(publisher.timeout(Duration::from_secs(1)).probe(short()));
    }
    let pipe = Pipe::new(log.outbox.cursor("later"), exchange(url));
    Shop::open(publishers, Arc::new(log.outbox.store("later")), pipe)
}

async fn private() -> Option<(RabbitMq, Vhost)> {
    let broker = testbed::available(RabbitMq::start().await)?;
    let vhost = broker.vhost().await.unwrap();
    Scene::at(vhost.clone()).await.with_orders().await;
    Some((broker, vhost))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e4_the_broker_is_stopped_and_started_in_the_middle_and_nothing_is_lost_or_overtaken() {
    let (Some(log), Some((mut broker, vhost))) = (Log::new().await, private().await) else { return };
    let shop = open(&log, vhost.url()).await;
    shop.confirms(20).await;
    assert!(causes(&shop.answers.lock().unwrap()).is_empty(), "everything is confirmed as long as it is up");
    broker.stop().await.unwrap();
    shop.keeps(10).await;
    broker.start_again().await.unwrap();
    // Behind what is kept at first, and then directly again.
    shop.confirms(20).await;
    broker.kill().await.unwrap();
    shop.keeps(10).await;
    broker.start_again().await.unwrap();
    shop.confirms(20).await;
    let answers = shop.close(&Scene::at(vhost).await).await;
    let causes = causes(&answers);
    assert!(causes.contains(code::UNREACHABLE) && causes.contains("behind"), "{causes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e4_while_the_broker_blocks_publishers_messages_are_kept() {
    let (Some(log), Some((mut broker, vhost))) = (Log::new().await, private().await) else { return };
    let shop = open(&log, vhost.url()).await;
    shop.confirms(10).await;
    broker.block().await.unwrap();
    shop.keeps(10).await;
    broker.unblock().await.unwrap();
    shop.confirms(10).await;
    let answers = shop.close(&Scene::at(vhost).await).await;
    let causes = causes(&answers);
    // Whoever publishes while the broker is about to say that it blocks hears nothing.
    assert!(causes.contains(code::BLOCKED) || causes.contains(code::TIMEOUT), "{causes:?}");
}

/// A broker that says nothing: every time-out is a message that may have arrived.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e4_a_broker_that_falls_silent_delays_one_caller_and_not_all() {
    let (Some(log), Some(scene)) = (Log::new().await, Scene::shared().await) else { return };
    let scene = scene.with_orders().await;
    let proxy = crate::rabbitmq::proxy(&scene).await;
    let shop = open(&log, &proxy.reroute(&scene.url).unwrap()).await;
    for _ in 0..3 {
        shop.confirms(5).await;
        proxy.block();
        shop.keeps(20).await;
        proxy.unblock();
    }
    shop.confirms(5).await;
    let answers = shop.close(&scene).await;
    assert!(causes(&answers).contains(code::TIMEOUT));
}

/// Where everything is delivered the question must not read the log; nor may a backlog make it slow.
#[tokio::test]
async fn the_question_what_is_kept_does_not_read_a_log_that_is_delivered() {
    let Some(log) = Log::new().await else { return };
    let fill = "insert into outbox.messages (type, key, payload)
                select 't', 'k' || n % 1000, '{}' from generate_series(1, 50000) n";
    let pool =
        sqlx::postgres::PgPoolOptions::new().max_connections(1).connect(log.database.url()).await.unwrap();
    let outbox = Outbox::new(pool.clone());
    let store = outbox.store("later");
    let read = async || {
        let sql =
            "select coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint from pg_stat_xact_user_tables
                   where relname = 'messages'";
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&pool).await.unwrap()
    };
    let ask = async |key: &str| {
        let before = read().await;
        let kept = !store.has_kept(&[key, "unheard of"]).await.unwrap().is_empty();
        // The server may have put its counts away in between, and begun afresh.
        (kept, read().await.checked_sub(before).filter(|read| *read >= 0))
    };
    for round in 0..2 {
        sqlx::raw_sql(fill).execute(&pool).await.unwrap();
        let (kept, read) = ask("k7").await;
        assert!(kept && read.is_none_or(|read| read <= 30_000), "round {round}: {read:?} with a backlog");
        let cursor = log.outbox.cursor("later");
        let mut left = 50_000;
        while left > 0 {
            let claim = cursor.claim(5_000).await.unwrap();
            if claim.messages.is_empty() {
                continue;
            }
            left -= claim.messages.len();
            cursor.settle(&claim, &vec![Verdict::Done; claim.messages.len()]).await.unwrap();
            if left == 25_000 {
                assert!(ask("k7").await.0, "it is half done");
            }
        }
        for _ in 0..5 {
            let (kept, read) = ask("k7").await;
            assert!(!kept, "round {round}: everything is done");
            assert!(read.is_none_or(|read| read <= 10), "round {round}: {read:?} rows were read for nothing");
        }
    }
}
