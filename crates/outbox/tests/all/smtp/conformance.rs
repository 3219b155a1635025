//! The suite of every sink, but for K8: a letter says what its templates say.

use std::time::Duration;

use async_trait::async_trait;
use outbox::Message;
use outbox::conformance::sink::SinkFixture;
use outbox::smtp::Mailer;
use testbed::{Proxy, Smtp};

use super::{config, header, somebody, template};

/// A mailbox behind a network that can be disturbed.
struct Mailbox {
    smtp: &'static Smtp,
    proxy: Proxy,
    sink: Mailer,
    address: String,
}

impl Mailbox {
    async fn new() -> Option<Self> {
        let smtp = testbed::smtp().await?;
        let proxy = Proxy::to(("127.0.0.1", smtp.open_port())).await.unwrap();
        let address = somebody();
        let mut config = config();
        config.to = vec![template(&format!("{{header.to|{address}}}"))];
        config.subject = template("{key|none}");
        config.text = Some(template("{type}"));
        let sink = Mailer::new(&format!("smtp://{}", proxy.addr()), config).unwrap();
        Some(Self { smtp, proxy, sink, address })
    }
}

#[async_trait]
impl SinkFixture for Mailbox {
    type Sink = Mailer;

    fn sink(&self) -> &Mailer {
        &self.sink
    }

    async fn received(&self, count: usize) -> Vec<Message> {
        loop {
            let mails = self.smtp.mails(&self.address).unwrap();
            if mails.len() >= count {
                // The suite tells its messages by their payload; here the key stands for it.
                let message = |mail| {
                    Message::new("", header(mail, "Subject").unwrap()).id(header(mail, "X-Event-Id").unwrap())
                };
                return mails.iter().map(message).collect();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn poison(&self) -> Option<Message> {
        Some(Message::new("poison", "").header("to", "refused@x.example"))
    }

    async fn go_down(&self) -> bool {
        self.proxy.refuse();
        self.proxy.cut();
        true
    }

    async fn come_up(&self) {
        self.proxy.accept();
    }
}

mod gone {
    outbox::conformance_tests! { sink, super::Mailbox::new(),
        k1_one_outcome_per_message_in_order
        k2_delivered_means_that_the_other_side_has_it
        k3_a_rejected_message_does_not_harm_its_neighbours
        k4_unavailable_says_nothing_about_a_message
        k5_what_is_not_known_to_be_delivered_is_not_called_delivered
        k6_deliver_ends
        k7_after_an_outage_it_delivers_again
    }
}
