//! The inbox on MariaDB.

use std::sync::Arc;

use async_trait::async_trait;
use outbox::conformance::inbox::InboxFixture;
use outbox::mysql::{Inbox, migrate, migrations, script};
use outbox::{ErrorKind, Failure, Inbox as _, Message, MessageId, Outcome, Sink, code};
use sqlx::{MySql, Transaction};

use super::Fresh;

#[async_trait]
impl InboxFixture for Fresh {
    type Inbox = Inbox;
    fn inbox(&self) -> Arc<Inbox> {
        Arc::new(Fresh::inbox(self))
    }
    async fn write(tx: &mut Transaction<'static, MySql>, line: &str) {
        let insert = sqlx::query("insert into `lines` (line) values (?)").bind(line);
        insert.execute(&mut **tx).await.expect("written");
    }
    async fn lines(&self) -> Vec<String> {
        let query = sqlx::query_scalar("select line from `lines` order by n");
        query.fetch_all(&self.pool).await.expect("read")
    }
}

async fn fixture() -> Option<Fresh> {
    let fresh = Fresh::new().await?;
    fresh.run("create table `lines` (n int auto_increment primary key, line varchar(200))").await;
    Some(fresh)
}

mod suite {
    outbox::inbox_suite!(super::fixture());
}

fn named(payload: &str) -> Message {
    Message::new("test.handled", payload.to_owned())
}

/// Writes the payload as a line.
fn writer(fresh: &Fresh) -> impl Sink + use<> {
    fresh.inbox().handler("c", |mut tx, message: Message| async move {
        let line = String::from_utf8_lossy(&message.payload).into_owned();
        sqlx::query("insert into `lines` (line) values (?)").bind(line).execute(&mut *tx).await?;
        Ok::<(), Failure>(())
    })
}

#[tokio::test]
async fn d3_consumers_that_race_for_the_same_messages_handle_each_once() {
    let Some(fresh) = fixture().await else { return };
    let messages: Vec<_> = (0..300).map(|n| named(&n.to_string())).collect();
    let mut racers = tokio::task::JoinSet::new();
    for racer in 0..4 {
        let (sink, mut messages) = (writer(&fresh), messages.clone());
        messages.rotate_left(racer * 70);
        racers.spawn(async move {
            for batch in messages.chunks(30) {
                // Whoever was in the way of the other is told so, and comes again.
                while sink.deliver(batch).await != vec![Outcome::Delivered; batch.len()] {}
            }
        });
    }
    tokio::time::timeout(std::time::Duration::from_secs(60), racers.join_all()).await.expect("they end");
    let (lines, distinct) =
        (fresh.count("`lines`").await, fresh.count("(select distinct line from `lines`) as d").await);
    assert_eq!((lines, distinct, fresh.count("outbox_inbox").await), (300, 300, 300));
}

#[tokio::test]
async fn an_id_that_cannot_be_kept_is_refused_and_never_cut_off() {
    let Some(fresh) = fixture().await else { return };
    let sink = writer(&fresh);
    let long = "ä".repeat(255);
    for (id, part) in
        [(format!("{long}x"), "256 characters"), ("a ".to_owned(), "space"), ("a\0".to_owned(), "NUL")]
    {
        let outcomes = sink.deliver(&[named("fine"), named("bad").id(id)]).await;
        assert_eq!(outcomes[0], Outcome::Delivered);
        let Outcome::Rejected(rejection) = &outcomes[1] else { panic!("{outcomes:?}") };
        assert!(rejection.permanent && rejection.cause.code == code::UNFIT, "{rejection:?}");
        assert!(rejection.cause.detail.contains(part), "{rejection:?}");
    }
    // Ids that differ in case or accent only are different.
    let ids = [long.as_str(), "Id", "id", "ïd"].map(|id| named("fine").id(id));
    assert_eq!(sink.deliver(&ids).await, vec![Outcome::Delivered; 4]);
    assert_eq!((fresh.count("`lines`").await, fresh.count("outbox_inbox").await), (7, 7));
    assert_eq!(
        fresh.inbox().known("c", &[&MessageId::from("a "), &MessageId::from("Id")]).await.unwrap(),
        [false, true]
    );
}

#[tokio::test]
async fn k5_a_transaction_that_was_ended_by_a_handler_is_not_called_delivered() {
    let Some(fresh) = fixture().await else { return };
    let sink = fresh.inbox().handler("c", |mut tx, message: Message| async move {
        if &*message.payload == b"ends" {
            // As a deadlock does.
            sqlx::raw_sql("rollback").execute(&mut *tx).await?;
        }
        Ok::<(), Failure>(())
    });
    let outcomes = sink.deliver(&[named("a"), named("ends"), named("b")]).await;
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Delivered, &Outcome::Delivered));
    assert!(matches!(&outcomes[1], Outcome::Rejected(rejection) if rejection.cause.code == code::HANDLER));
    assert_eq!(fresh.count("outbox_inbox").await, 2);
}

#[tokio::test]
async fn k4_a_connection_that_breaks_in_a_handler_charges_nobody_in_a_batch_of_any_size() {
    let Some(fresh) = fixture().await else { return };
    let sink = fresh.inbox().handler("c", |mut tx, message: Message| async move {
        if &*message.payload == b"cut off" {
            sqlx::raw_sql("kill connection_id()").execute(&mut *tx).await?;
        }
        Ok::<(), Failure>(())
    });
    for payloads in [&["cut off"][..], &["a", "cut off", "b"]] {
        let messages: Vec<_> = payloads.iter().copied().map(named).collect();
        let outcomes = sink.deliver(&messages).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unavailable(_))), "{outcomes:?}");
    }
    assert_eq!(fresh.count("outbox_attempts").await, 0);
    assert_eq!(sink.deliver(&[named("a")]).await, [Outcome::Delivered]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrating_is_told_once_also_when_two_do_it_and_the_script_does_the_same() {
    let Some(fresh) = Fresh::empty().await else { return };
    let error = fresh.inbox().known("c", &[&MessageId::new()]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotMigrated, "{}", error.chain());
    let messages = [named("a"), named("b")];
    let outcomes = fresh.inbox().handler("c", |_tx, _message| async { Ok(()) }).deliver(&messages).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unavailable(_))), "{outcomes:?}");

    let (one, two) = tokio::join!(migrate(&fresh.pool), migrate(&fresh.pool));
    assert_eq!([one.unwrap(), two.unwrap()].concat().len(), migrations().len());
    let Some(by_hand) = Fresh::empty().await else { return };
    by_hand.run(&script()).await;
    assert_eq!(migrate(&by_hand.pool).await.unwrap(), [""; 0]);
    assert_eq!(by_hand.inbox().known("c", &[&MessageId::new()]).await.unwrap(), [false]);
}
