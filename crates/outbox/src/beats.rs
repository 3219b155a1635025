//! Which instances run which pipes, and how they are: the contract of [`Beats`].
//!
//! `postgres::beats`, `mysql::beats` and `sqlite::beats` keep them beside the other tables, so that every instance can tell
//! of all the others, and of one that is gone without a word.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;

use crate::error::Result;
use crate::schema::Type;
use crate::sheet::{Cell, Param, Row, Sheet, Sql, Value, now, text_at, time_of};
use crate::sql::Kind;

/// The signs of life of all instances.
///
/// - **B1** A beat of an instance and a pipe is written or renewed: there is one of each. Several are written all or none.
///   Who beats is no longer stopped.
/// - **B2** `list` gives all, by pipe and instance, each with its age on the clock of the database: a beat that was just
///   written has none, whatever the clock of its instance says.
/// - **B3** `stopped` marks every beat of an instance as the last one, and no other instance's.
/// - **B4** `forget` removes what is older, stopped or not, at most `step` of them, and tells how many.
#[async_trait]
pub trait Beats: Send + Sync {
    /// Writes that these pipes live, now.
    async fn beat(&self, beats: &[Beat]) -> Result<()>;

    /// The last beat of every pipe of every instance.
    async fn list(&self) -> Result<Vec<Seen>>;

    /// The instance has ended as it should.
    async fn stopped(&self, instance: &str) -> Result<()>;

    /// Removes one step (at most `step`) of what is older than that; tells how many.
    async fn forget(&self, older_than: Duration, step: u32) -> Result<u64>;
}

/// How a pipe was when its instance last told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Beat {
    /// Who runs it: a name that no other process has.
    pub instance: String,
    /// The pipe.
    pub pipe: String,
    /// The version of the program.
    pub version: String,
    /// When the instance was started, on its own clock.
    pub started_at: Timestamp,
    /// How the pipe is.
    pub state: State,
    /// Why it is not running: what the sink or the source said. Without secrets and without payload.
    pub cause: Option<String>,
    /// When a message was last settled, on the clock of the instance.
    pub last_message_at: Option<Timestamp>,
    /// Messages delivered since the start.
    pub delivered: u64,
    /// Attempts that failed since the start.
    pub failed: u64,
    /// Messages that are claimed and not settled yet.
    pub in_flight: u64,
}

/// How a pipe is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its source is not open yet.
    Starting,
    /// It carries what there is.
    Running,
    /// Its sink takes nothing for now.
    Waiting,
    /// It stands still because somebody wants it so.
    Paused,
    /// It has ended, and nobody carries its messages here.
    Stopped,
}

impl State {
    const ALL: [Self; 5] = [Self::Starting, Self::Running, Self::Waiting, Self::Paused, Self::Stopped];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
        }
    }

    /// What a later version may have written besides is none of these, and a pipe that beats runs.
    fn of(word: &str) -> Self {
        Self::ALL.into_iter().find(|state| state.as_str() == word).unwrap_or(Self::Running)
    }
}

/// A beat, as seen from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// What was told.
    #[serde(flatten)]
    pub beat: Beat,
    /// How long ago, on the clock of the database.
    pub age: Duration,
    /// Whether the instance has said that it was the last one.
    pub stopped: bool,
}

/// What a beat tells, in the order of the table.
const COLUMNS: [&str; 10] = [
    "instance",
    "pipe",
    "version",
    "started_at",
    "state",
    "cause",
    "last_message_at",
    "delivered",
    "failed",
    "in_flight",
];

/// What there is one record of.
const KEY: [&str; 2] = ["instance", "pipe"];

pub(crate) struct TableBeats<S> {
    store: S,
}

impl<S: Sheet> TableBeats<S> {
    pub(crate) fn new(store: S) -> Self {
        Self { store }
    }

    fn table() -> &'static str {
        if S::KIND == Kind::Postgres { "outbox.beats" } else { "outbox_beats" }
    }

    fn cell(name: &str) -> Cell {
        let short = if S::KIND == Kind::MySql { Some(255) } else { None };
        let kind = match name {
            "started_at" | "last_message_at" | "beat_at" | "stopped_at" => Type::Time { zoned: true },
            "delivered" | "failed" | "in_flight" => Type::Integer,
            "cause" => Type::Text(None),
            _ => Type::Text(short),
        };
        let cell = Cell::ours(S::KIND, name, kind);
        // A count may be larger than the numbers of other tables.
        if cell.kind == Type::Integer { Cell { type_name: "int8".to_owned(), ..cell } } else { cell }
    }

    /// The age of a beat in milliseconds.
    fn age() -> &'static str {
        match S::KIND {
            Kind::Postgres => "floor(extract(epoch from clock_timestamp() - beat_at) * 1000)::bigint",
            Kind::MySql => "timestampdiff(microsecond, beat_at, utc_timestamp(6)) div 1000",
            Kind::Sqlite => "cast(round((julianday('now') - julianday(beat_at)) * 86400000) as integer)",
        }
    }

    fn put(beat: &Beat) -> Result<Sql> {
        let count = |count: u64| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
        let values = [
            Value::text(Some(&beat.instance)),
            Value::text(Some(&beat.pipe)),
            Value::sentence(Some(&beat.version)),
            Value::Time(beat.started_at),
            Value::text(Some(beat.state.as_str())),
            Value::sentence(beat.cause.as_deref()),
            beat.last_message_at.map_or(Value::Null, Value::Time),
            count(beat.delivered),
            count(beat.failed),
            count(beat.in_flight),
        ];
        let names = COLUMNS.join(", ");
        let mut sql = Sql::new(S::KIND, format!("insert into {} ({names}, beat_at) values (", Self::table()));
        for (name, value) in COLUMNS.iter().zip(values) {
            sql = sql.put(&Self::cell(name), &value)?.push(", ");
        }
        Ok(sql.push(&format!("{}) {}", now(S::KIND), Self::renewal())))
    }

    /// What a beat does to the one before it.
    fn renewal() -> String {
        let told = COLUMNS.iter().filter(|name| !KEY.contains(name)).chain(&["beat_at"]);
        let (head, new) = match S::KIND {
            Kind::MySql => ("on duplicate key update".to_owned(), ("values(", ")")),
            _ => (format!("on conflict ({}) do update set", KEY.join(", ")), ("excluded.", "")),
        };
        let renewed: Vec<String> = told.map(|name| format!("{name} = {}{name}{}", new.0, new.1)).collect();
        format!("{head} {}, stopped_at = null", renewed.join(", "))
    }

    fn all() -> Sql {
        let cells = COLUMNS.iter().chain(&["stopped_at"]).map(|name| Self::cell(name).read(S::KIND));
        let age = Cell { name: format!("({})", Self::age()), ..Self::cell("delivered") }.read(S::KIND);
        let reads: Vec<String> = cells.chain([age]).collect();
        Sql::new(
            S::KIND,
            format!("select {} from {} order by pipe, instance", reads.join(", "), Self::table()),
        )
    }

    /// Those that are old are looked for in one order, so that two who forget do not wait for each other in a circle.
    fn removal(older_than: Duration, step: u32) -> Sql {
        let millis = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
        let (table, key) = (Self::table(), KEY.join(", "));
        let head = match S::KIND {
            Kind::MySql => format!("delete from {table}"),
            _ => format!("delete from {table} where ({key}) in (select {key} from {table}"),
        };
        let tail = match S::KIND {
            Kind::Postgres => " for update skip locked)",
            Kind::Sqlite => ")",
            Kind::MySql => "",
        };
        Sql::new(S::KIND, format!("{head} where {} > ", Self::age()))
            .bind(Param::Int(Some(millis)))
            .push(&format!(" order by {key} limit "))
            .bind(Param::Int(Some(step.into())))
            .push(tail)
    }
}

fn seen(row: &Row) -> Seen {
    let text = |at| text_at(row, at);
    let count = |at| text(at).and_then(|count: String| count.parse().ok()).unwrap_or(0);
    let beat = Beat {
        instance: text(0).unwrap_or_default(),
        pipe: text(1).unwrap_or_default(),
        version: text(2).unwrap_or_default(),
        started_at: time_of(text(3)).unwrap_or(Timestamp::UNIX_EPOCH),
        state: State::of(&text(4).unwrap_or_default()),
        cause: text(5),
        last_message_at: time_of(text(6)),
        delivered: count(7),
        failed: count(8),
        in_flight: count(9),
    };
    // Less than nothing, where the clock of the database was put back: just now, then.
    Seen { beat, stopped: text(10).is_some(), age: Duration::from_millis(count(11)) }
}

#[async_trait]
impl<S: Sheet> Beats for TableBeats<S> {
    async fn beat(&self, beats: &[Beat]) -> Result<()> {
        let mut tx = self.store.begin().await?;
        for beat in beats {
            self.store.execute(&mut tx, Self::put(beat)?).await?;
        }
        self.store.commit(tx).await
    }

    async fn list(&self) -> Result<Vec<Seen>> {
        let rows = self.store.look(Self::all()).await?;
        Ok(rows.iter().map(seen).collect())
    }

    async fn stopped(&self, instance: &str) -> Result<()> {
        let mut tx = self.store.begin().await?;
        let sql = format!("update {} set stopped_at = {} where instance = ", Self::table(), now(S::KIND));
        let sql = Sql::new(S::KIND, sql).put(&Self::cell("instance"), &Value::text(Some(instance)))?;
        self.store.execute(&mut tx, sql).await?;
        self.store.commit(tx).await
    }

    async fn forget(&self, older_than: Duration, step: u32) -> Result<u64> {
        let mut tx = self.store.begin().await?;
        let removed = self.store.execute(&mut tx, Self::removal(older_than, step)).await?;
        self.store.commit(tx).await?;
        Ok(removed)
    }
}
