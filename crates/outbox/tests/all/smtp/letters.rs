//! What a letter looks like when it arrives.

use outbox::{Message, Outcome, Sink};

use super::{config, header, mailer, only, order, readable, somebody, template, words};

#[tokio::test]
async fn d9_a_letter_is_made_of_the_message_and_its_id_stays_over_retries() {
    let Some(smtp) = testbed::smtp().await else { return };
    let (to, cc) = (somebody(), somebody());
    let mut config = config();
    config.cc = vec![template(&format!("Boss <{cc}>")), template("{payload.cc|}")];
    config.reply_to = Some(template("help@x.example"));
    config.html = Some(template("<p title=\"{payload.name}\">Dear <b>{payload.name}</b></p>"));
    config.subject = template("Order {payload.order}: {payload.name}");
    let body = serde_json::json!({"order": 7, "email": format!("Ana <{to}>"), "name": "<i>\"A&B\"</i>"});
    let message = Message::json("order.created", &body).unwrap().correlation("c-1");
    let sink = mailer(smtp, config);
    for _ in 0..2 {
        assert_eq!(sink.deliver(std::slice::from_ref(&message)).await, [Outcome::Delivered]);
    }
    let mails = smtp.mails(&to).unwrap();
    assert_eq!(mails.len(), 2);
    for mail in mails {
        assert_eq!(
            (mail.from.as_str(), mail.to.as_slice()),
            ("shop@x.example", &[to.clone(), cc.clone()][..])
        );
        for (name, value) in [
            ("Message-ID", format!("<{}@x.example>", message.id)),
            ("X-Event-Id", message.id.to_string()),
            ("X-Correlation-Id", "c-1".to_owned()),
            ("From", "Shop <shop@x.example>".to_owned()),
            ("Reply-To", "help@x.example".to_owned()),
            ("Subject", "Order 7: <i>\"A&B\"</i>".to_owned()),
            ("Auto-Submitted", "auto-generated".to_owned()),
        ] {
            assert_eq!(header(&mail, name), Some(value), "{name}");
        }
        assert!(mail.content.contains("multipart/alternative"), "{}", mail.content);
        assert!(mail.content.contains("Dear <i>\"A&B\"</i>"), "the text is as it is: {}", mail.content);
        let html = "<p title=\"&lt;i&gt;&quot;A&amp;B&quot;&lt;/i&gt;\">Dear <b>&lt;i&gt;&quot;A&amp;B&quot;&lt;/i&gt;</b></p>";
        assert!(readable(&mail).contains(html), "{}", mail.content);
    }
}

#[tokio::test]
async fn d9_no_value_can_end_the_letter_and_begin_another() {
    let Some(smtp) = testbed::smtp().await else { return };
    let (to, victim) = (somebody(), somebody());
    for end in ["\r\n.\r\n", "\n.\n", "\r.\r", "\n.\r\n", "\r\n.\n", "\r\n\x00.\r\n"] {
        let evil = format!("x{end}MAIL FROM:<evil@x.example>\r\nRCPT TO:<{victim}>\r\nDATA\r\nhi{end}");
        let body = serde_json::json!({"order": evil, "email": to, "name": evil});
        let message = Message::json("order.created", &body).unwrap().header("x-correlation-id", &evil);
        assert_eq!(mailer(smtp, config()).deliver(&[message]).await, [Outcome::Delivered], "{end:?}");
    }
    let mails = smtp.mails(&to).unwrap();
    assert_eq!((mails.len(), smtp.mails(&victim).unwrap().len()), (6, 0));
    for mail in mails {
        let (head, _) = mail.content.split_once("\r\n\r\n").unwrap();
        assert!(!head.lines().any(|line| line.starts_with("MAIL") || line.starts_with("RCPT")), "{head}");
    }
}

#[tokio::test]
async fn d9_every_character_arrives() {
    let Some(smtp) = testbed::smtp().await else { return };
    let to = somebody();
    let mut config = config();
    config.text = None;
    config.html = Some(template("<p>Liebe {payload.name} — {payload.long}</p>"));
    let body = serde_json::json!({"order": "Größe €", "email": to, "name": "Zoë", "long": "x".repeat(3_000)});
    assert_eq!(
        mailer(smtp, config).deliver(&[Message::json("a", &body).unwrap()]).await,
        [Outcome::Delivered]
    );
    let mail = only(smtp, &to);
    assert!(mail.content.is_ascii() && mail.content.contains("text/html; charset=utf-8"), "{}", mail.content);
    assert!(mail.content.lines().all(|line| line.len() <= 998), "no line is longer than SMTP allows");
    assert!(
        header(&mail, "Subject").unwrap().starts_with("=?utf-8?b?") || mail.content.contains("=?utf-8?b?")
    );
}

#[tokio::test]
async fn d9_what_no_letter_can_be_made_of_is_refused_and_the_others_go() {
    let Some(smtp) = testbed::smtp().await else { return };
    let to = somebody();
    let messages = [
        order(1, &to),
        Message::new("order.created", "s3cret, no JSON"),
        Message::new("order.created", ""),
        Message::json("order.created", &serde_json::json!({"order": 2})).unwrap(),
        order(3, "nobody"),
        order(4, &to),
    ];
    let outcomes = mailer(smtp, config()).deliver(&messages).await;
    assert_eq!(words(&outcomes), ["delivered", "UNFIT!", "UNFIT!", "UNFIT!", "UNFIT!", "delivered"]);
    let told = format!("{outcomes:?}");
    assert!(told.contains("no 'email' in its payload") && !told.contains("s3cret"), "{told}");
    assert_eq!(smtp.mails(&to).unwrap().len(), 2);
}
