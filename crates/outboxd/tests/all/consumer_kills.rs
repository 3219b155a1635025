//! Consumers that are killed with SIGKILL again and again: statements take effect once, an endpoint sees a message again
//! only if it was in flight.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outbox::rabbitmq::{Exchange, ExchangeConfig};
use outbox::{Message, Outcome, Sink};
use rand::RngExt;
use rand::rngs::StdRng;
use sqlx::PgPool;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::endpoint::Endpoint;
use crate::kills::{Kills, Ledger};
use crate::program::{PATIENCE, Program};

/// Steps that every consumer passes.
const STEPS: [&str; 9] = [
    "claiming",
    "claimed",
    "delivering",
    "handler_before_commit",
    "handler_after_commit",
    "delivered",
    "settling",
    "acknowledging",
    "settled",
];

/// What the endpoint's pipe has in flight: its batch, as often as it delivers at a time.
const WINDOW: usize = 10 * 2;

/// A table of effects that forbids nothing, and an endpoint.
struct Scene {
    program: Program,
    pool: PgPool,
    endpoint: Endpoint,
}

impl Scene {
    /// With these connections and sources, `statements` and `calls`.
    async fn new(connections: &str, sources: &str) -> Option<Self> {
        let database = testbed::postgres().await?.database().await.unwrap();
        let pool = PgPool::connect(database.url()).await.unwrap();
        let table = "create table effects (n bigserial primary key, id uuid not null, qty int not null)";
        sqlx::query(table).execute(&pool).await.unwrap();
        let endpoint = Endpoint::start().await;
        let program = Program::migrated(&format!(
            "[connections]\ndb = \"{}\"\n{connections}\n{sources}\n\
             [sinks.effects]\non = \"db\"\nsql = \"INSERT INTO effects (id, qty) VALUES (:id, :payload.qty)\"\n\
             [sinks.hook]\nhttp = \"{}\"\ninbox = \"db\"\n\
             [pipes.effects]\nfrom = \"statements\"\nto = \"effects\"\npoll = \"20ms\"\nbatch = 20\n\
             [pipes.calls]\nfrom = \"calls\"\nto = \"hook\"\npoll = \"20ms\"\nbatch = 10\nconcurrency = 2\n",
            database.url(),
            endpoint.url
        ));
        Some(Self { program, pool, endpoint })
    }

    async fn effects(&self) -> Vec<String> {
        let all = sqlx::query_scalar("select id::text from effects order by n").fetch_all(&self.pool);
        all.await.unwrap()
    }

    fn called(&self) -> Vec<String> {
        self.endpoint.posted().into_iter().map(|request| request.id).collect()
    }

    /// Kills one after the other while messages come, then lets a last one finish, and counts.
    async fn kill(self, mut kills: Kills, producer: impl Sink + 'static) {
        // Makes queues and topics, so that nothing is sent into the void.
        self.program.ok(&["run", "--once"]);
        let (ledger, stop) = (Arc::new(Ledger::default()), CancellationToken::new());
        let sending = send(producer, kills.random(), ledger.clone(), stop.clone());
        let sending: JoinHandle<()> = tokio::spawn(sending);
        kills.run(&self.program, &["run"], &STEPS).await;
        stop.cancel();
        sending.await.unwrap();
        let last = self.program.start(&["run"]);
        let (mut since, mut seen) = (Instant::now(), 0);
        loop {
            let (effects, called) = (self.effects().await, self.called());
            let lost = ledger.check(effects.iter().map(String::as_str)).lost.len()
                + ledger.check(called.iter().map(String::as_str)).lost.len();
            if lost == 0 {
                break;
            }
            if effects.len() + called.len() > seen {
                (since, seen) = (Instant::now(), effects.len() + called.len());
            }
            assert!(since.elapsed() < PATIENCE, "{lost} are missing\n{}", last.said());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        last.signal("TERM");
        let (code, said) = last.end();
        assert_eq!(code, 0, "{said}");
        ledger.assert_arrived(self.effects().await.iter().map(String::as_str), &kills, 0);
        ledger.assert_arrived(self.called().iter().map(String::as_str), &kills, WINDOW);
    }
}

/// Sends a few messages at a time until told to stop, and notes what has arrived.
async fn send(producer: impl Sink, mut random: StdRng, ledger: Arc<Ledger>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let count = random.random_range(1..15);
        let message = |_| Message::json("stock.changed", &serde_json::json!({ "qty": 1 })).unwrap();
        let messages: Vec<Message> =
            (0..count).map(message).map(|it| it.key(random.random_range(0..20))).collect();
        let outcomes = producer.deliver(&messages).await;
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Delivered), "{outcomes:?}");
        messages.iter().for_each(|message| ledger.note(&message.id));
        tokio::time::sleep(Duration::from_millis(random.random_range(0..60))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_from_rabbitmq_statements_take_effect_once_and_an_endpoint_sees_again_only_what_was_in_flight() {
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let vhost = rabbitmq.vhost().await.unwrap();
    let bind = "bind = [{ exchange = \"stock\", keys = [\"#\"] }]\nretry = [\"100ms\", \"200ms\"]";
    let sources = format!(
        "[sources.statements]\non = \"rabbit\"\nqueue = \"statements\"\n{bind}\n\
         [sources.calls]\non = \"rabbit\"\nqueue = \"calls\"\n{bind}\n"
    );
    let connections = format!("rabbit = \"{}\"", vhost.url());
    let Some(scene) = Scene::new(&connections, &sources).await else { return };
    let producer = Exchange::new(vhost.url(), ExchangeConfig::new("stock")).unwrap();
    scene.kill(Kills::new("RabbitMQ to statements and an endpoint", 150), producer).await;
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread")]
async fn d3_from_kafka_statements_take_effect_once_and_an_endpoint_sees_again_only_what_was_in_flight() {
    use outbox::kafka::{Topic, TopicConfig};

    let Some(kafka) = testbed::kafka().await.filter(|kafka| !kafka.is_mock()) else { return };
    let topic = kafka.topic(3).await.unwrap();
    let source = |name: &str| {
        format!(
            "[sources.{name}]\non = \"kafka\"\ntopic = \"{topic}\"\ngroup = \"{name}-{topic}\"\nsession_timeout = \"1s\"\n"
        )
    };
    let sources = format!("{}{}", source("statements"), source("calls"));
    let connections = format!("kafka = \"{}\"", kafka.url());
    let Some(scene) = Scene::new(&connections, &sources).await else { return };
    let producer = Topic::new(&kafka.url(), TopicConfig::new(topic.parse().unwrap())).unwrap();
    scene.kill(Kills::new("Kafka to statements and an endpoint", 60), producer).await;
}
