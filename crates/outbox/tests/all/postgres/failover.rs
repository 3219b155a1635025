//! A standby takes over while a relay runs: transactions that were not replicated are gone, and their ids are used
//! again for others.

use std::collections::HashSet;
use std::time::Duration;

use outbox::memory::Recorder;
use outbox::postgres::Outbox;
use outbox::{Message, Pipe};
use sqlx::Row;
use testbed::{Postgres, Proxy};
use tokio_util::sync::CancellationToken;

async fn write(outbox: &Outbox, count: usize) {
    for number in 0..count {
        let mut tx = outbox.pool().begin().await.unwrap();
        outbox.enqueue(&mut tx, Message::new("t", number.to_string()).key(number % 10)).await.unwrap();
        tx.commit().await.unwrap();
    }
}

async fn ids(outbox: &Outbox) -> HashSet<String> {
    let rows = sqlx::query("select id::text from outbox.messages").fetch_all(outbox.pool()).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn until_received(sink: &Recorder, wanted: &HashSet<String>) {
    let all = async {
        loop {
            let came: HashSet<String> =
                sink.received().iter().map(|message| message.id.to_string()).collect();
            if wanted.is_subset(&came) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let told = "something that the new server has was passed over";
    tokio::time::timeout(Duration::from_secs(30), all).await.expect(told);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_after_a_failover_nothing_that_the_new_server_has_is_passed_over() {
    let Some(mut primary) = testbed::available(Postgres::start().await) else { return };
    let database = primary.database().await.unwrap();
    let direct = Outbox::connect(database.url()).await.unwrap();
    direct.migrate().await.unwrap();
    let replication = Proxy::to(("127.0.0.1", primary.port())).await.unwrap();
    let standby = Postgres::standby_of(replication.port()).await.unwrap();

    // The relay knows one address, which will lead to the other server.
    let address = Proxy::to(("127.0.0.1", primary.port())).await.unwrap();
    let relayed = Outbox::connect(&address.reroute(database.url()).unwrap()).await.unwrap();
    let (sink, stop) = (Recorder::new(), CancellationToken::new());
    let cursor = relayed.cursor("c").lease(Duration::from_secs(2));
    let pipe = tokio::spawn(Pipe::new(cursor, sink.clone()).run(stop.clone()));
    write(&direct, 50).await;
    until_received(&sink, &ids(&direct).await).await;
    let behind = Outbox::connect(&standby.url(database.name())).await.unwrap();
    let replicated = async {
        while ids(&behind).await != ids(&direct).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), replicated).await.expect("the standby does not follow");

    // From here on nothing is replicated; the relay reads on, and what it knows in memory is of the old server alone.
    replication.block();
    write(&direct, 50).await;
    until_received(&sink, &ids(&direct).await).await;
    primary.kill().await.unwrap();
    standby.promote().await.unwrap();
    address.lead_to(("127.0.0.1", standby.port())).unwrap();
    address.cut();

    // The new server gives out the ids of the lost transactions again.
    let promoted = Outbox::connect(&standby.url(database.name())).await.unwrap();
    write(&promoted, 30).await;
    until_received(&sink, &ids(&promoted).await).await;
    stop.cancel();
    pipe.await.unwrap().unwrap();
}
