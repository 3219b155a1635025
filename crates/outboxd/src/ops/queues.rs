//! The queues and topics at brokers: how much lies where, and who reads it.

use futures_util::future::join_all;
use outbox::letters::Depth;
use serde::Serialize;
use utoipa::ToSchema;

use super::Office;
use super::told::Unseen;
use crate::backends;
use crate::plan::SourcePlan;
use crate::trouble::Trouble;

/// What the sources on brokers tell.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Queues {
    /// By name of the source.
    pub sources: Vec<AtBroker>,
}

/// A source on a broker.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct AtBroker {
    /// The name of the source.
    pub source: String,
    /// The name of its connection: two brokers may have queues of the same name.
    pub connection: String,
    /// The pipes that read it.
    pub pipes: Vec<String>,
    /// Its queues or topics; what is not there yet is not told.
    pub queues: Vec<Queue>,
    /// Why nothing is told, and what to do about it.
    pub trouble: Option<Unseen>,
}

/// A queue or topic.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// `work`, `retry` or `dead`.
    pub role: &'static str,
    /// Messages that nobody has dealt with.
    pub messages: u64,
    /// Consumers; none if the broker does not tell.
    pub consumers: Option<u32>,
}

impl From<Depth> for Queue {
    fn from(depth: Depth) -> Self {
        let role = depth.role.as_str();
        Self { name: depth.place, role, messages: depth.messages, consumers: depth.consumers }
    }
}

/// Looks at every source on a broker, all at once. One that does not answer does not hide the others.
pub async fn queues(office: &Office) -> Queues {
    let sources = office.plan.sources.values().filter(|source| source.is_on_broker());
    Queues { sources: join_all(sources.map(|source| at_broker(office, source))).await }
}

async fn at_broker(office: &Office, source: &SourcePlan) -> AtBroker {
    let doing = "cannot look at the queues";
    let asked = async {
        let Some(letters) = backends::letters(source) else { return Ok(Vec::new()) };
        let depths = async { letters?.depths().await };
        depths.await.map_err(|error| Trouble::at_source(doing, source, &error))
    };
    let (depths, trouble) = match office.look(doing, asked).await {
        Ok(depths) => (depths, None),
        Err(trouble) => (Vec::new(), Some(Unseen::from(&trouble))),
    };
    let mut queues: Vec<Queue> = depths.into_iter().map(Into::into).collect();
    let rank = |queue: &Queue| ["work", "retry", "dead"].iter().position(|role| *role == queue.role);
    queues.sort_by(|one, other| (rank(one), &one.name).cmp(&(rank(other), &other.name)));
    let pipes = office.plan.pipes_from(&source.name).map(|pipe| pipe.name.clone()).collect();
    let (name, connection) = (source.name.clone(), source.connection.name.clone());
    AtBroker { source: name, connection, pipes, queues, trouble }
}
