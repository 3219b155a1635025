//! The contracts as tests: one file per trait, one function per clause, for any backend.
//!
//! A backend writes a fixture and one line per suite:
//!
//! ```ignore
//! mod source { outbox::source_suite!(super::fixture()); }
//! ```
//!
//! where `fixture()` is an async function that gives `Some` fresh fixture, or `None` to skip. Each clause becomes
//! a `#[tokio::test]` of its own name.

#![allow(clippy::unwrap_used, reason = "these are tests, and a failure should say where")]
#![allow(missing_docs, reason = "the name of a clause is its sentence")]

pub mod admin;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub mod audit;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub mod beats;
pub mod broker;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub mod errors;
pub mod inbox;
pub mod letters;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub mod pauses;
pub mod sink;
pub mod source;
pub mod store;

use std::time::Duration;

use crate::error::Result;
use crate::message::Message;
use crate::policy::Verdict;
use crate::sink::{Cause, code};
use crate::source::{Claim, Source};

/// Longer than anything here should take; only ever reached by a failure.
const PATIENCE: Duration = Duration::from_secs(20);

/// Expands to one `#[tokio::test]` per clause; used by the suites below, not by backends.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($suite:ident, $fixture:expr, $($clause:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $clause() {
                if let Some(fixture) = $fixture.await {
                    $crate::conformance::$suite::$clause(&fixture).await;
                }
            }
        )*
    };
}

/// Claims until something comes.
async fn claim_some(source: &impl Source, limit: usize) -> Result<Claim> {
    let asked = async {
        loop {
            let claim = source.claim(limit).await?;
            if !claim.messages.is_empty() {
                return Ok(claim);
            }
            source.wait(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("nothing came")
}

/// Claims so many at once. A broker hands messages over one by one; those that came early are released meanwhile.
async fn claim_exactly(source: &impl Source, count: usize) -> Claim {
    let asked = async {
        loop {
            let claim = claim_some(source, count).await.unwrap();
            if claim.messages.len() == count {
                return claim;
            }
            settle_all(source, &claim, &Verdict::Released).await;
            source.wait(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("not all came")
}

/// Claims until so many are done, in order; what is held is put behind, as a pipe would.
async fn drain(source: &impl Source, count: usize) -> Vec<Message> {
    let mut came = Vec::new();
    while came.len() < count {
        let claim = claim_some(source, 100).await.unwrap();
        let held: Vec<bool> = (0..claim.messages.len()).map(|index| claim.is_held(index)).collect();
        let verdicts: Vec<_> =
            held.iter().map(|held| if *held { Verdict::Behind } else { Verdict::Done }).collect();
        source.settle(&claim, &verdicts).await.unwrap();
        came.extend(
            claim.messages.into_iter().zip(held).filter(|(_, held)| !held).map(|(message, _)| message),
        );
    }
    came
}

/// Asserts that nothing comes, over a few looks.
async fn assert_nothing(source: &impl Source, why: &str) {
    for _ in 0..5 {
        let claim = source.claim(100).await.unwrap();
        assert!(claim.messages.is_empty(), "{why}, but {:?} came", claim.messages);
        source.wait(Duration::from_millis(60)).await;
    }
}

async fn settle_all(source: &impl Source, claim: &Claim, verdict: &Verdict) {
    let verdicts = vec![verdict.clone(); claim.messages.len()];
    source.settle(claim, &verdicts).await.unwrap();
}

fn cause() -> Cause {
    Cause::new(code::HANDLER, "told to fail")
}

fn retry(after: Duration) -> Verdict {
    Verdict::Retry { after, attempts: 1, cause: cause() }
}

fn dead(holds: bool) -> Verdict {
    Verdict::Dead { attempts: 1, cause: cause(), holds }
}

/// A message that can be told from others: its payload is its name.
fn named(name: &str, key: &str) -> Message {
    let message = Message::new("suite.tested", name.to_owned());
    if key.is_empty() { message } else { message.key(key) }
}

fn names(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| String::from_utf8_lossy(&message.payload).into_owned()).collect()
}
