//! Deliveries that are grouped: one type each, several types side by side.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use outbox::memory::{Outbox, Recorder};
use outbox::{Group, Message, Outcome, Pipe, Sink};
use tokio::sync::{Semaphore, watch};

use crate::pipe::{rejected, start};

/// Lets no delivery of type `slow` through until told, and writes down of which types each delivery was.
struct Types {
    deliveries: Mutex<Vec<Vec<String>>>,
    hanging: watch::Sender<usize>,
    open: Semaphore,
    through: Recorder,
}

impl Types {
    fn new() -> Arc<Self> {
        let (deliveries, hanging) = (Mutex::default(), watch::Sender::new(0));
        Arc::new(Self { deliveries, hanging, open: Semaphore::new(0), through: Recorder::new() })
    }
}

#[async_trait]
impl Sink for Types {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let mut kinds: Vec<_> = messages.iter().map(|message| message.kind.clone()).collect();
        kinds.dedup();
        self.deliveries.lock().unwrap().push(kinds.clone());
        if kinds.contains(&"slow".to_owned()) {
            self.hanging.send_modify(|count| *count += messages.len());
            self.open.acquire().await.unwrap().forget();
            self.hanging.send_modify(|count| *count -= messages.len());
        }
        self.through.deliver(messages).await
    }
}

#[tokio::test(start_paused = true)]
async fn c9_groups_of_one_type_each_go_side_by_side_while_one_of_them_hangs() {
    let (outbox, sink) = (Outbox::new(), Types::new());
    let kinds = ["slow", "fast", "faster"];
    outbox.enqueue_all((0..30).map(|n| Message::new(kinds[n % 3], "")).collect()).unwrap();
    let pipe = start(Pipe::new(outbox.cursor("c"), sink.clone()).batch(30).concurrency(2).group(Group::Type));
    let through = sink.through.wait_for(20).await;
    assert!(through.iter().all(|message| message.kind != "slow"));
    assert_eq!(*sink.hanging.borrow(), 10, "in flight all the while");
    sink.open.add_permits(1);
    sink.through.wait_for(30).await;
    pipe.stop().await;
    let mut deliveries = std::mem::take(&mut *sink.deliveries.lock().unwrap());
    deliveries.sort();
    assert_eq!(deliveries, [["fast"], ["faster"], ["slow"]], "one delivery per type, and none mixes them");
}

#[tokio::test(start_paused = true)]
async fn c9_a_key_keeps_its_order_across_types_also_when_something_fails() {
    let (outbox, sink) = (Outbox::new(), Types::new());
    sink.open.add_permits(Semaphore::MAX_PERMITS / 2);
    let failed = Mutex::new(0);
    sink.through.judge_by(move |message| {
        let mut failed = failed.lock().unwrap();
        let fails = &*message.payload == b"k3:17" && *failed < 3;
        *failed += u32::from(fails);
        if fails { rejected() } else { Outcome::Delivered }
    });
    let kinds = ["slow", "fast", "faster"];
    for number in 0..40 {
        let of_key = |key: usize| {
            Message::new(kinds[(number + key) % 3], format!("k{key}:{number}")).key(format!("k{key}"))
        };
        outbox.enqueue_all((0..7).map(of_key).collect()).unwrap();
    }
    let pipe = start(Pipe::new(outbox.cursor("c"), sink.clone()).batch(25).group(Group::Type));
    let came = sink.through.wait_for(280).await;
    let mut next: HashMap<&str, usize> = HashMap::new();
    for message in &came {
        let key = message.key.as_deref().unwrap();
        let number = next.entry(key).or_default();
        assert_eq!(&*message.payload, format!("{key}:{number}").as_bytes());
        *number += 1;
    }
    pipe.stop().await;
    assert!(sink.deliveries.lock().unwrap().iter().all(|kinds| kinds.len() == 1), "none mixes types");
}
