//! A handler as a sink, on the inbox in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use outbox::conformance::sink::SinkFixture;
use outbox::memory::{Inbox, Tx};
use outbox::{Failure, Handler, Inbox as _, Lent, Message, Outcome, Sink, code};

fn named(payload: &str) -> Message {
    Message::new("test.handled", payload.to_owned())
}

fn rejected_code(outcome: &Outcome) -> &str {
    let Outcome::Rejected(rejection) = outcome else { panic!("{outcome:?}") };
    assert!(!rejection.permanent, "{rejection:?}");
    &rejection.cause.code
}

/// A handler that writes the payload, then does what the payload says.
fn obedient(inbox: &Inbox) -> impl Sink {
    let inbox = Arc::new(inbox.clone());
    Handler::new(inbox, "c", |mut tx: Lent<Tx>, message: Message| async move {
        tx.push(String::from_utf8_lossy(&message.payload).into_owned());
        match &*message.payload {
            b"hangs" => std::future::pending().await,
            b"keeps" => {
                tokio::spawn(async move {
                    let _tx = tx;
                    std::future::pending::<()>().await;
                });
            }
            _ => {}
        }
        Ok::<(), Failure>(())
    })
}

#[tokio::test(start_paused = true)]
async fn k6_a_handler_that_hangs_is_given_up_and_harms_no_other() {
    let inbox = Inbox::new();
    let sink = obedient(&inbox);
    let began = tokio::time::Instant::now();
    let outcomes = sink.deliver(&[named("a"), named("hangs"), named("b")]).await;
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Delivered, &Outcome::Delivered));
    assert_eq!(rejected_code(&outcomes[1]), code::TIMEOUT);
    assert_eq!(began.elapsed().as_secs(), 60);
    assert_eq!(rejected_code(&sink.deliver(&[named("hangs")]).await[0]), code::TIMEOUT);
    assert_eq!(inbox.effects().await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn k6_a_handler_that_keeps_the_transaction_is_given_up() {
    let outcomes = obedient(&Inbox::new()).deliver(&[named("keeps")]).await;
    assert_eq!(rejected_code(&outcomes[0]), code::HANDLER);
    // Here there is one transaction at a time, so with that one kept there is no other.
    let outcomes = obedient(&Inbox::new()).deliver(&[named("a"), named("keeps"), named("b")]).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unavailable(_))), "{outcomes:?}");
}

#[tokio::test]
async fn a_function_that_panics_before_its_future_is_rejected_alone() {
    let inbox = Arc::new(Inbox::new());
    let sink = Handler::new(inbox, "c", |_tx, message: Message| {
        assert_ne!(&*message.payload, b"panics", "told to");
        std::future::ready(Ok::<(), Failure>(()))
    });
    let outcomes = sink.deliver(&[named("a"), named("panics")]).await;
    assert_eq!(outcomes[0], Outcome::Delivered);
    assert_eq!(rejected_code(&outcomes[1]), code::PANIC);
}

#[tokio::test]
async fn d3_two_copies_in_one_batch_are_handled_once() {
    let inbox = Inbox::new();
    let sink = obedient(&inbox);
    let (a, b) = (named("a"), named("b"));
    let outcomes = sink.deliver(&[a.clone(), b.clone(), a.clone(), b, a]).await;
    assert_eq!(outcomes, vec![Outcome::Delivered; 5]);
    assert_eq!(inbox.effects().await, ["a", "b"]);
}

#[tokio::test]
async fn k4_a_handler_that_misses_something_says_so_and_charges_nobody() {
    let inbox = Inbox::new();
    let sink = Handler::new(Arc::new(inbox.clone()), "c", |mut tx: Lent<Tx>, message: Message| async move {
        tx.push(String::from_utf8_lossy(&message.payload).into_owned());
        if &*message.payload == b"b" {
            Err(Failure::unavailable("no printer").code("PRINTER"))
        } else {
            Ok(())
        }
    });
    for count in [2, 3] {
        let messages: Vec<_> = ["b", "a", "c"].into_iter().map(named).take(count).collect();
        for outcome in sink.deliver(&messages).await {
            assert!(
                matches!(outcome, Outcome::Unavailable(cause) if cause.to_string() == "PRINTER: no printer")
            );
        }
    }
    assert!(inbox.effects().await.is_empty());
    assert!(inbox.history(&named("b").id).await.unwrap().is_empty(), "no attempt was spent");
}

/// The messages that were handled are known by the ids that are committed.
struct Handled {
    inbox: Inbox,
    sink: Arc<dyn Sink>,
    given: Arc<Mutex<HashMap<String, Message>>>,
    /// While it is here nobody else gets a transaction.
    blocker: tokio::sync::Mutex<Option<Tx>>,
}

impl Handled {
    fn new() -> Self {
        let (inbox, given) = (Inbox::new(), Arc::new(Mutex::new(HashMap::new())));
        let seen = given.clone();
        let function = move |mut tx: Lent<Tx>, message: Message| {
            let seen = seen.clone();
            async move {
                tx.push(message.id.to_string());
                if message.kind == "poison" {
                    return Err(Failure::dead("poison"));
                }
                seen.lock().unwrap().insert(message.id.to_string(), message);
                Ok(())
            }
        };
        let sink = Handler::new(Arc::new(inbox.clone()), "c", function).timeout(Duration::from_millis(200));
        Self { inbox, sink: Arc::new(sink), given, blocker: tokio::sync::Mutex::default() }
    }
}

#[async_trait]
impl SinkFixture for Handled {
    type Sink = Arc<dyn Sink>;
    fn sink(&self) -> &Self::Sink {
        &self.sink
    }
    async fn received(&self, count: usize) -> Vec<Message> {
        loop {
            let ids = self.inbox.effects().await;
            if ids.len() >= count {
                let given = self.given.lock().unwrap();
                return ids.iter().map(|id| given[id].clone()).collect();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    fn poison(&self) -> Option<Message> {
        Some(Message::new("poison", ""))
    }
    async fn go_down(&self) -> bool {
        *self.blocker.lock().await = Some(self.inbox.begin().await.unwrap());
        true
    }
    async fn come_up(&self) {
        self.blocker.lock().await.take();
    }
}

mod sink {
    outbox::sink_suite!(async { Some(super::Handled::new()) });
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;
    use crate::postgres::Log;

    /// A handler that writes a line, then does what the payload says.
    fn obedient(log: &Log) -> impl Sink + use<> {
        let handler = log.outbox.inbox().handler("c", |mut tx, message: Message| async move {
            let line = String::from_utf8_lossy(&message.payload).into_owned();
            sqlx::query("insert into lines values ($1)").bind(line).execute(&mut *tx).await?;
            match &*message.payload {
                b"swallows" => {
                    let _ = sqlx::query("select 1 / 0").execute(&mut *tx).await;
                }
                b"hangs" => {
                    sqlx::query("select pg_sleep(2)").execute(&mut *tx).await?;
                }
                _ => {}
            }
            Ok::<(), Failure>(())
        });
        handler.timeout(Duration::from_millis(500))
    }

    async fn lines(log: &Log) -> Vec<String> {
        let query = sqlx::query_scalar("select line from lines order by line");
        query.fetch_all(log.outbox.pool()).await.unwrap()
    }

    async fn assert_rejected_alone(place: usize, payload: &str, expected: &str) {
        let Some(log) = Log::new().await else { return };
        sqlx::query("create table lines (line text)").execute(log.outbox.pool()).await.unwrap();
        let sink = obedient(&log);
        let mut messages = vec![named("a"), named("b")];
        messages.insert(place, named(payload));
        let outcomes = sink.deliver(&messages).await;
        for (index, outcome) in outcomes.iter().enumerate() {
            if index == place {
                assert_eq!(rejected_code(outcome), expected);
            } else {
                assert_eq!(*outcome, Outcome::Delivered);
            }
        }
        assert_eq!(rejected_code(&sink.deliver(&[named(payload)]).await[0]), expected);
        assert_eq!(lines(&log).await, ["a", "b"]);
    }

    #[tokio::test]
    async fn k5_a_commit_that_is_a_rollback_is_not_called_delivered() {
        for place in [0, 2] {
            assert_rejected_alone(place, "swallows", code::HANDLER).await;
        }
    }

    #[tokio::test]
    async fn k6_a_statement_that_hangs_is_given_up_and_harms_no_other() {
        assert_rejected_alone(1, "hangs", code::TIMEOUT).await;
    }

    #[tokio::test]
    async fn k4_a_connection_that_breaks_in_a_handler_charges_nobody_in_a_batch_of_any_size() {
        let Some(log) = Log::new().await else { return };
        let sink = log.outbox.inbox().handler("c", |mut tx, message: Message| async move {
            let cut = sqlx::query("select pg_terminate_backend(pg_backend_pid())");
            match &*message.payload {
                b"cut off" => {
                    cut.execute(&mut *tx).await?;
                }
                b"cut off, and silent about it" => {
                    let _ = cut.execute(&mut *tx).await;
                }
                _ => {}
            }
            Ok::<(), Failure>(())
        });
        for payloads in [&["cut off"][..], &["a", "cut off", "b"]] {
            let messages: Vec<_> = payloads.iter().copied().map(named).collect();
            for (outcome, message) in sink.deliver(&messages).await.iter().zip(&messages) {
                assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
                let history = log.outbox.inbox().history(&message.id).await.unwrap();
                assert!(history.is_empty(), "no attempt was spent: {history:?}");
            }
        }
        assert_eq!(sink.deliver(&[named("a")]).await, [Outcome::Delivered]);
        // One that breaks every connection must not stop the others for ever.
        for payload in ["cut off", "cut off, and silent about it"] {
            let message = [named(payload)];
            for _ in 0..4 {
                let outcome = sink.deliver(&message).await;
                assert!(matches!(outcome[0], Outcome::Unavailable(_)), "{outcome:?}");
            }
            assert_eq!(rejected_code(&sink.deliver(&message).await[0]), code::HANDLER);
        }
    }

    #[tokio::test]
    async fn d4_a_message_whose_connection_broke_comes_again_with_no_attempt_spent() {
        use outbox::policy::{Backoff, Policy};
        let Some(log) = Log::new().await else { return };
        let mut tx = log.outbox.pool().begin().await.unwrap();
        log.outbox.enqueue(&mut tx, named("once")).await.unwrap();
        tx.commit().await.unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let attempts = seen.clone();
        let handler = log.outbox.inbox().handler("c", move |mut tx, message: Message| {
            let count = {
                let mut attempts = attempts.lock().unwrap();
                attempts.push(message.attempts);
                attempts.len()
            };
            async move {
                if count == 1 {
                    sqlx::query("select pg_terminate_backend(pg_backend_pid())").execute(&mut *tx).await?;
                }
                Ok::<(), Failure>(())
            }
        });
        let probe = Backoff { first: Duration::from_millis(50), most: Duration::from_millis(50) };
        let pipe = outbox::Pipe::new(log.outbox.cursor("c"), handler).batch(1);
        let pipe = pipe.policy(Policy { probe, ..Policy::default() }).idle(Duration::from_millis(50));
        let (stats, stop) = (pipe.stats(), tokio_util::sync::CancellationToken::new());
        let running = tokio::spawn(pipe.run(stop.clone()));
        let handled = async {
            while stats.delivered() == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), handled).await.expect("it comes again");
        stop.cancel();
        running.await.unwrap().unwrap();
        assert_eq!(*seen.lock().unwrap(), [0, 0]);
    }
}
