use super::super::Handled;
use super::*;
use crate::memory::{self, Tx};
use crate::message::MessageId;

/// What does not answer any more once a handler hangs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mute {
    /// The connection that the handler had.
    Connection,
    /// The whole database.
    Database,
}

/// The inbox in memory, on a way that can fall silent.
struct Frail {
    inbox: memory::Inbox,
    mute: Mute,
    silent: Arc<AtomicBool>,
}

impl Frail {
    /// Whatever is asked on a new connection gets no answer when the whole database is silent.
    async fn connect(&self) {
        if self.mute == Mute::Database && self.silent.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Inbox for Frail {
    type Tx = Tx;
    async fn begin(&self) -> Result<Tx> {
        self.connect().await;
        self.inbox.begin().await
    }
    async fn record(&self, tx: &mut Tx, consumer: &str, ids: &[&MessageId]) -> Result<Vec<bool>> {
        self.inbox.record(tx, consumer, ids).await
    }
    async fn mark(&self, tx: &mut Tx) -> Result<()> {
        self.inbox.mark(tx).await
    }
    async fn undo(&self, tx: &mut Tx, consumer: &str, id: &MessageId) -> Result<()> {
        if self.silent.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        self.inbox.undo(tx, consumer, id).await
    }
    async fn commit(&self, tx: Tx) -> Result<()> {
        self.inbox.commit(tx).await
    }
    async fn known(&self, consumer: &str, ids: &[&MessageId]) -> Result<Vec<bool>> {
        self.connect().await;
        self.inbox.known(consumer, ids).await
    }
    async fn note(&self, consumer: &str, failures: &[Failed<'_>]) -> Result<()> {
        self.inbox.note(consumer, failures).await
    }
    async fn history(&self, id: &MessageId) -> Result<Vec<Handled>> {
        self.inbox.history(id).await
    }
    async fn prune(&self, consumer: &str, window: Duration, step: u32) -> Result<u64> {
        self.inbox.prune(consumer, window, step).await
    }
}

/// A handler that writes the payload, and hangs if that says so.
fn sink(mute: Mute) -> (memory::Inbox, impl Sink) {
    let (inbox, silent) = (memory::Inbox::new(), Arc::new(AtomicBool::new(false)));
    let frail = Frail { inbox: inbox.clone(), mute, silent: silent.clone() };
    let handler = Handler::new(Arc::new(frail), "c", move |mut tx: Lent<Tx>, message: Message| {
        let silent = silent.clone();
        async move {
            tx.push(String::from_utf8_lossy(&message.payload).into_owned());
            if &*message.payload == b"hangs" {
                silent.store(true, Ordering::Relaxed);
                std::future::pending::<()>().await;
            }
            Ok::<(), Failure>(())
        }
    });
    (inbox, handler)
}

fn named(payload: &str) -> Message {
    Message::new("test.handled", payload.to_owned())
}

fn is_given_up(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Rejected(rejection) if rejection.cause.code == code::TIMEOUT && !rejection.permanent)
}

#[tokio::test(start_paused = true)]
async fn k6_a_connection_that_hangs_with_its_handler_harms_no_other_message() {
    let (inbox, sink) = sink(Mute::Connection);
    let outcomes = sink.deliver(&[named("a"), named("hangs"), named("b")]).await;
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Delivered, &Outcome::Delivered));
    assert!(is_given_up(&outcomes[1]), "{outcomes:?}");
    assert_eq!(inbox.effects().await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn k4_a_handler_that_hangs_for_want_of_the_database_charges_nobody() {
    for payloads in [&["hangs"][..], &["a", "hangs", "b"]] {
        let (inbox, sink) = sink(Mute::Database);
        let messages: Vec<_> = payloads.iter().copied().map(named).collect();
        let outcomes = sink.deliver(&messages).await;
        assert_eq!(outcomes.len(), messages.len());
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unavailable(_))), "{outcomes:?}");
        assert!(inbox.effects().await.is_empty());
    }
}
