//! The reference backend against the suites.

use std::sync::Arc;

use async_trait::async_trait;
use outbox::conformance::inbox::InboxFixture;
use outbox::conformance::sink::SinkFixture;
use outbox::conformance::source::SourceFixture;
use outbox::conformance::store::StoreFixture;
use outbox::memory::{Cursor, Inbox, Outbox, Recorder, Tx};
use outbox::{Cause, Message, Outcome, Source, Store, code};

struct Log(Outbox);

#[async_trait]
impl SourceFixture for Log {
    type Source = Cursor;
    async fn enqueue(&self, messages: Vec<Message>) {
        self.0.enqueue_all(messages).expect("they are within the limits");
    }
    async fn roll_back(&self, _messages: Vec<Message>) {}
    fn source(&self, cursor: &str) -> Cursor {
        self.0.cursor(cursor)
    }
    async fn expire(&self, cursor: &str) {
        self.0.expire(cursor);
    }
}

impl StoreFixture for Log {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.0.store("c"))
    }
    fn source(&self) -> Arc<dyn Source> {
        Arc::new(self.0.cursor("c"))
    }
}

struct Handled(Inbox);

#[async_trait]
impl InboxFixture for Handled {
    type Inbox = Inbox;
    fn inbox(&self) -> Arc<Inbox> {
        Arc::new(self.0.clone())
    }
    async fn write(tx: &mut Tx, line: &str) {
        tx.push(line.to_owned());
    }
    async fn lines(&self) -> Vec<String> {
        self.0.effects().await
    }
}

struct Recorded(Recorder);

fn judge(message: &Message) -> Outcome {
    if message.kind == "poison" {
        Outcome::refused(Cause::new(code::UNFIT, "poison"))
    } else {
        Outcome::Delivered
    }
}

#[async_trait]
impl SinkFixture for Recorded {
    type Sink = Recorder;
    fn sink(&self) -> &Recorder {
        &self.0
    }
    async fn received(&self, count: usize) -> Vec<Message> {
        self.0.wait_for(count).await
    }
    fn poison(&self) -> Option<Message> {
        Some(Message::new("poison", ""))
    }
    async fn go_down(&self) -> bool {
        self.0.go_down();
        true
    }
    async fn come_up(&self) {
        self.0.judge_by(judge);
    }
}

mod source {
    outbox::source_suite!(async { Some(super::Log(super::Outbox::new())) });
}

mod store {
    outbox::store_suite!(async { Some(super::Log(super::Outbox::new())) });
}

mod inbox {
    outbox::inbox_suite!(async { Some(super::Handled(super::Inbox::new())) });
}

mod sink {
    outbox::sink_suite!(async {
        let recorder = super::Recorder::new();
        recorder.judge_by(super::judge);
        Some(super::Recorded(recorder))
    });
}
