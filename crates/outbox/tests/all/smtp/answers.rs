//! What the answers of a mail server mean, and its silence.

use std::time::Duration;

use outbox::smtp::Mailer;
use outbox::{ErrorKind, Outcome, Sink};
use testbed::{Smtp, available};
use tokio::net::TcpListener;

use super::{config, mailer, order, somebody, word, words};

#[tokio::test]
async fn d9_the_answer_decides_and_each_letter_has_its_own() {
    let Some(smtp) = testbed::smtp().await else { return };
    let domain = somebody().split_once('@').unwrap().1.to_owned();
    let names = ["ana", "refused", "greylisted", "unwanted", "bob", "full", "hangs-up", "eve"];
    let messages: Vec<_> = names.iter().map(|name| order(1, &format!("{name}@{domain}"))).collect();
    let mut config = config();
    // One after the other on one connection, so that what was told of one could spoil the next.
    config.connections = 1;
    let sink = mailer(smtp, config);
    let outcomes = sink.deliver(&messages).await;
    let expected = [
        "delivered",
        "SMTP_550!",
        "SMTP_451",
        "SMTP_554!",
        "delivered",
        "SMTP_452",
        "UNREACHABLE",
        "delivered",
    ];
    assert_eq!(words(&outcomes), expected, "{outcomes:?}");
    assert!(format!("{outcomes:?}").contains("no such mailbox"));
    // Greylisted means later.
    assert_eq!(sink.deliver(&messages[2..3]).await, [Outcome::Delivered]);
    for (name, count) in
        [("ana", 1), ("bob", 1), ("eve", 1), ("greylisted", 1), ("refused", 0), ("unwanted", 0)]
    {
        assert_eq!(smtp.mails(&format!("{name}@{domain}")).unwrap().len(), count, "{name}");
    }
}

#[tokio::test]
async fn d9_a_letter_goes_to_all_of_its_recipients_or_to_none() {
    let Some(smtp) = testbed::smtp().await else { return };
    let to = somebody();
    let mut config = config();
    config.cc = vec![super::template("refused@x.example")];
    assert_eq!(word(&mailer(smtp, config).deliver(&[order(1, &to)]).await[0]), "SMTP_550!");
    assert!(smtp.mails(&to).unwrap().is_empty());
}

#[tokio::test]
async fn d9_a_server_that_closes_is_unavailable() {
    let Some(smtp) = testbed::smtp().await else { return };
    let outcomes = mailer(smtp, config()).deliver(&[order(1, "closing@x.example")]).await;
    assert_eq!(words(&outcomes), ["~REFUSED"]);
}

#[tokio::test]
async fn d9_no_answer_to_a_letter_spends_an_attempt_and_spoils_no_other() {
    let Some(smtp) = testbed::smtp().await else { return };
    let to = somebody();
    let mut config = config();
    (config.timeout, config.connections) = (Duration::from_millis(700), 1);
    let sink = mailer(smtp, config);
    let messages = [order(1, &to), order(2, "silent@x.example"), order(3, &to)];
    assert_eq!(words(&sink.deliver(&messages).await), ["delivered", "TIMEOUT", "delivered"]);
    // The answer that came too late is that of a connection which nobody uses any more.
    assert_eq!(
        words(&sink.deliver(&[order(4, "refused@x.example"), order(5, &to)]).await),
        ["SMTP_550!", "delivered"]
    );
    assert_eq!(smtp.mails(&to).unwrap().len(), 3);
}

#[tokio::test]
async fn d9_nobody_there_is_an_outage_and_it_ends_by_itself() {
    let Some(mut smtp) = available(Smtp::start().await) else { return };
    let to = somebody();
    let sink = mailer(&smtp, config());
    assert!(sink.check().await.is_ok());
    assert_eq!(sink.deliver(&[order(1, &to)]).await, [Outcome::Delivered]);
    smtp.stop().await.unwrap();
    let outcomes = sink.deliver(&[order(2, &to), order(3, &to)]).await;
    assert_eq!(words(&outcomes), ["~UNREACHABLE", "~UNREACHABLE"]);
    assert_eq!(sink.check().await.unwrap_err().kind(), ErrorKind::Unreachable);
    smtp.start_again().await.unwrap();
    assert_eq!(sink.deliver(&[order(2, &to), order(3, &to)]).await, vec![Outcome::Delivered; 2]);
    // A connection that was kept has become stale, and is replaced without a word.
    smtp.stop().await.unwrap();
    smtp.start_again().await.unwrap();
    assert_eq!(sink.deliver(&[order(4, &to)]).await, [Outcome::Delivered]);
    assert_eq!(smtp.mails(&to).unwrap().len(), 4);
}

#[tokio::test]
async fn k6_a_server_that_never_greets_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = config();
    config.timeout = Duration::from_millis(200);
    let sink = Mailer::new(&format!("smtp://{}", listener.local_addr().unwrap()), config).unwrap();
    assert_eq!(
        words(&sink.deliver(&[order(1, "a@x.example"), order(2, "a@x.example")]).await),
        ["~TIMEOUT", "~TIMEOUT"]
    );
    assert_eq!(sink.check().await.unwrap_err().kind(), ErrorKind::Timeout);
}
