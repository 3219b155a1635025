//! A database that falls silent: nothing is waited for without end, and afterwards nothing is lost.

use std::time::{Duration, Instant};

use outbox::policy::Verdict;
use outbox::postgres::Table;
use outbox::table::{Draft, Reading};
use outbox::{ErrorKind, Message};
use testbed::Proxy;

use super::fixture::{Tables, checked, draft, insert, stamped};

/// Ten seconds is the least limit of a call; a new look at a settle that was cut off may take another one.
const PATIENCE: Duration = Duration::from_secs(35);

async fn silence(mapping: fn(&str) -> Draft) {
    let Some(tables) = Tables::new(mapping).await else { return };
    let mut connection = tables.pool.acquire().await.unwrap();
    for payload in ["1", "2"] {
        insert(&mut connection, "Outbox_c", &Message::new("t", payload).key("k")).await;
    }
    let server = testbed::postgres().await.expect("it was there a moment ago");
    let proxy = Proxy::to(("127.0.0.1", server.port())).await.unwrap();
    let url = proxy.reroute(tables.database.url()).unwrap();
    let table = Table::connect(&url, checked(&mapping("c"))).await.unwrap();
    let reading = Reading { lease: Duration::from_secs(1), ..Reading::default() };
    let source = table.sources(&reading).remove(0);
    let claim = source.claim(1).await.unwrap();

    proxy.block();
    let begun = Instant::now();
    let (settled, claimed) = tokio::time::timeout(PATIENCE, async {
        tokio::join!(source.settle(&claim, &[Verdict::Done]), source.claim(1))
    })
    .await
    .expect("both calls end");
    for error in [settled.unwrap_err(), claimed.unwrap_err()] {
        assert!(error.is_temporary(), "{} after {:?}", error.chain(), begun.elapsed());
    }

    // The network is back; what was under way is gone, and the pipe begins afresh.
    proxy.unblock();
    proxy.cut();
    let came = tokio::time::timeout(PATIENCE, async {
        loop {
            match source.claim(10).await {
                Ok(claim) if !claim.messages.is_empty() => return claim,
                Ok(_) => source.wait(Duration::from_millis(100)).await,
                Err(error) if error.kind() == ErrorKind::Lost || error.is_temporary() => {
                    let _ = source.close().await;
                }
                Err(error) => panic!("{}", error.chain()),
            }
        }
    });
    let came = came.await.expect("rows come again");
    let last = came.messages.last().expect("there are some");
    assert_eq!(last.payload.as_ref(), b"2", "1 comes again before 2, or is done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_database_is_not_waited_for_without_end() {
    let stamped = |name: &str| Draft { stamp_timeout: Some(Duration::from_secs(2)), ..stamped(name) };
    tokio::join!(silence(draft), silence(stamped));
}
