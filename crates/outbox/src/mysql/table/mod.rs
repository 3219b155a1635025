//! A table that exists already, in MariaDB or MySQL.

mod catalog;
mod driver;
mod examine;
mod holder;
mod index;
mod lock;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::mysql::MySqlConnectOptions;

use super::connect;
use crate::admin::{Activity, Admin, CursorStatus, Entry, Filter, Repair, ReplayFrom, Story};
use crate::error::Result;
use crate::message::MessageId;
use crate::source::Source;
use crate::store::Store;
use crate::table::desk::Desk;
use crate::table::keep::TableStore;
use crate::table::source::{Shard, TableSource};
use crate::table::sql::Lane;
use crate::table::{Layout, Mapping, Reading};
pub(super) use catalog::look_at;
use driver::MyDriver;
use holder::{Holder, ShardPlace};
use lock::Place;

/// A mapped table, or several of one shape.
///
/// Times are UTC: a `DATETIME` that the application fills with its local time is off by that zone.
///
/// The id needs an index, for rows are locked by it. One with the columns of the pending condition and then those
/// of the order keeps a claim fast when the table is large.
#[derive(Clone)]
pub struct Table {
    options: MySqlConnectOptions,
    driver: Arc<MyDriver>,
    mapping: Arc<Mapping>,
    tables: Vec<(Arc<Layout>, Place)>,
    pipe: String,
}

impl Table {
    /// Connects, and checks the mapping against the tables that are there; everything that does not fit is told at
    /// once.
    pub async fn connect(url: &str, mapping: Mapping) -> Result<Self> {
        let options = connect::options(url)?;
        connect::try_once(&options).await?;
        let pool = connect::pool(&options, 4);
        let mapping = Arc::new(mapping);
        let tables = catalog::find(&pool, &mapping).await?;
        let driver = Arc::new(MyDriver::new(pool, None));
        Ok(Self { options, driver, mapping, tables, pipe: "relay".to_owned() })
    }

    /// Names the pipe that reads it, for whoever looks at it; a table has one.
    #[must_use]
    pub fn pipe(mut self, name: impl Into<String>) -> Self {
        self.pipe = name.into();
        self
    }

    /// The mapping.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The tables, each checked.
    pub fn layouts(&self) -> impl Iterator<Item = &Arc<Layout>> {
        self.tables.iter().map(|(layout, _)| layout)
    }

    /// Where a [`Publisher`](crate::Publisher) keeps what it cannot send: it inserts by the mapping, and the pipe that
    /// reads the table delivers. `holds` says whether a dead message holds its key, as [`Reading::holds`] does.
    ///
    /// There must be one table, that can be written to by its mapping alone: whatever is in the way is told. Rows are
    /// ordered by a number that the database gives, or by a time, which is then that of the keeping. An index on the key,
    /// or on what the pending condition asks for, keeps the question cheap whether a key has something kept. A payload in
    /// a column of JSON comes out as the database writes it.
    pub fn store(&self, holds: bool) -> Result<Arc<dyn Store>> {
        let tables: Vec<_> = self.layouts().collect();
        Ok(Arc::new(TableStore::new(Arc::clone(&self.driver), &tables, holds)?))
    }

    /// A source for every table and lane, each to be read by a pipe of its own.
    ///
    /// Under key order, with several of them, or with a lock in the mapping, each has one owner at a time, by a user
    /// lock (`GET_LOCK`) of a session; otherwise any number of relays share the rows by what is locked or stamped.
    /// User locks are those of one server: in a cluster with several that write, all relays must use the same one.
    pub fn sources(&self, reading: &Reading) -> Vec<Arc<dyn Source>> {
        let lanes = reading.lanes.max(1);
        let mut shards = Vec::new();
        let mut places = Vec::new();
        for (layout, place) in &self.tables {
            for number in 0..lanes {
                let lane = Lane { number, of: lanes };
                shards.push(Shard { number: shards.len() as u32, layout: layout.clone(), lane });
                places.push(ShardPlace { place: place.clone(), lane: number });
            }
        }
        let ordered = reading.ordered && self.mapping.key.is_some();
        let owned = ordered || shards.len() > 1 || self.mapping.lock.is_some();
        let holder = owned.then(|| {
            Holder::new(&self.options, &reading.owner, self.mapping.lock, places, lanes, reading.lease)
        });
        let connections = shards.len() as u32 * (reading.depth + 1) + 1;
        let driver = Arc::new(MyDriver::new(connect::pool(&self.options, connections), holder));
        let source = |shard| {
            Arc::new(TableSource::new(driver.clone(), shard, reading.clone(), owned)) as Arc<dyn Source>
        };
        shards.into_iter().map(source).collect()
    }

    fn desk(&self) -> Desk<'_, MyDriver> {
        Desk { driver: &self.driver, tables: self.layouts().collect(), pipe: &self.pipe }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({})", self.mapping.tables)
    }
}

#[async_trait]
impl Admin for Table {
    async fn status(&self) -> Result<Vec<CursorStatus>> {
        let places: Vec<Place> = self.tables.iter().map(|(_, place)| place.clone()).collect();
        let owners = holder::owners(self.driver.pool(), self.mapping.lock, &places).await?;
        self.desk().status(owners).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Entry>> {
        self.desk().list(filter).await
    }

    async fn show(&self, id: &MessageId) -> Result<Option<Story>> {
        self.desk().show(id).await
    }

    async fn repair(&self, filter: &Filter, repair: Repair, dry_run: bool) -> Result<u64> {
        self.desk().repair(filter, repair, dry_run).await
    }

    async fn replay(&self, _cursor: &str, _from: &ReplayFrom, _dry_run: bool) -> Result<u64> {
        self.desk().replay()
    }

    async fn purge(&self, age: Duration, step: u32, dry_run: bool) -> Result<u64> {
        self.desk().purge(age, step, dry_run).await
    }

    async fn activity(&self) -> Result<Option<Activity>> {
        self.desk().activity().await
    }
}

/// Whole seconds, at least one, as the server counts silence.
fn seconds(time: Duration) -> u64 {
    time.as_millis().div_ceil(1000).clamp(1, 2_000_000) as u64
}
