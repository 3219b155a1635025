//! The protocol of the browser's developer tools: calls with answers, and events in between.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

const ANSWER: Duration = Duration::from_secs(60);

/// A connection to a browser.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    next: AtomicU64,
    out: mpsc::UnboundedSender<Message>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    asked: HashMap<u64, oneshot::Sender<Value>>,
    /// Of each session, in order.
    events: HashMap<String, Vec<Value>>,
}

impl Wire {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let (socket, _) = connect_async(url).await.with_context(|| format!("cannot connect to {url}"))?;
        let (mut sink, mut stream) = socket.split();
        let (out, mut sent) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared { next: AtomicU64::new(1), out, state: Mutex::default() });
        tokio::spawn(async move {
            while let Some(message) = sent.recv().await {
                if sink.send(message).await.is_err() {
                    return;
                }
            }
        });
        let heard = Arc::downgrade(&shared);
        tokio::spawn(async move {
            while let Some(Ok(message)) = stream.next().await {
                let Some(shared) = heard.upgrade() else { return };
                if let Some(value) = message.to_text().ok().and_then(|text| serde_json::from_str(text).ok()) {
                    shared.hear(value);
                }
            }
        });
        Ok(Self { shared })
    }

    /// Asks, in a session or of the browser itself, and waits for the answer.
    pub(super) async fn call(&self, session: Option<&str>, method: &str, params: Value) -> Result<Value> {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let mut request = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            request["sessionId"] = json!(session);
        }
        let (answer, answered) = oneshot::channel();
        self.shared.state().asked.insert(id, answer);
        self.shared.out.send(Message::text(request.to_string())).context("the browser is gone")?;
        let answer = tokio::time::timeout(ANSWER, answered).await;
        let mut answer =
            answer.with_context(|| format!("no answer to {method}"))?.context("the browser is gone")?;
        if let Some(error) = answer["error"]["message"].as_str() {
            bail!("{method}: {error}");
        }
        Ok(answer["result"].take())
    }

    /// What has happened in a session so far, as far as `chosen` picks it.
    pub(super) fn events<T>(&self, session: &str, chosen: impl Fn(&str, &Value) -> Option<T>) -> Vec<T> {
        let state = self.shared.state();
        let events = state.events.get(session).into_iter().flatten();
        events.filter_map(|event| chosen(event["method"].as_str()?, &event["params"])).collect()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self, value: Value) {
        let mut state = self.state();
        match value["id"].as_u64() {
            Some(id) => {
                if let Some(asked) = state.asked.remove(&id) {
                    // Who asked may have lost patience.
                    let _ = asked.send(value);
                }
            }
            None => {
                let session = value["sessionId"].as_str().unwrap_or_default().to_owned();
                state.events.entry(session).or_default().push(value);
            }
        }
    }
}
