//! What a mapped table needs of a database: the small part that differs from one to the next.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;

use super::catalog::Layout;
use super::sql::{Cells, Except, Lane, Sql};
use crate::error::Result;

/// Whose a shard is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// Ours, as before.
    Ours,
    /// Ours since now: whatever is remembered of it is old.
    Fresh,
    /// Ours while claims of it are open, and then another relay's.
    Leaving,
    /// Another relay's.
    Theirs,
}

/// A database in which a mapped table lives.
#[async_trait]
pub(crate) trait Driver: Send + Sync + 'static {
    /// An open transaction; dropped, it is rolled back.
    type Tx: Send + 'static;

    /// Begins a transaction; with `hold` the server itself ends it after so much silence.
    async fn begin(&self, hold: Option<Duration>) -> Result<Self::Tx>;

    async fn fetch(&self, tx: &mut Self::Tx, sql: &Sql) -> Result<Vec<Cells>>;

    async fn execute(&self, tx: &mut Self::Tx, sql: &Sql) -> Result<u64>;

    async fn commit(&self, tx: Self::Tx) -> Result<()>;

    /// Ends a transaction without a trace; what it had locked is free afterwards.
    async fn roll_back(&self, tx: Self::Tx);

    /// Claims the next rows, in order: locks them, or stamps them if the mapping says so. A row that somebody else has
    /// locked is passed over; where the shard has an owner, none of its key may come after it.
    async fn claim(&self, tx: &mut Self::Tx, layout: &Layout, claiming: Claiming<'_>) -> Result<Vec<Cells>>;

    /// Tries to own a shard, without waiting; `idle` says that it has no open claim and may be given away.
    async fn own(&self, shard: u32, idle: bool) -> Result<Ownership>;

    /// Proves inside of a claim's transaction that the shard is still ours, and keeps the next owner waiting until
    /// the transaction ends.
    async fn enter(&self, tx: &mut Self::Tx, shard: u32) -> Result<bool>;

    /// Gives a shard back.
    async fn disown(&self, shard: u32);
}

/// What is to be claimed.
pub(crate) struct Claiming<'a> {
    pub(crate) limit: usize,
    pub(crate) lane: Lane,
    pub(crate) except: &'a Except,
    /// Whether nobody else claims from this shard.
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "PostgreSQL asks for the order only"))]
    pub(crate) owned: bool,
    /// Whether nothing of a key may come before an earlier one of it.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "MySQL asks for the owner only"))]
    pub(crate) ordered: bool,
    /// The rows that were handed out here and are not settled.
    pub(crate) open: &'a HashSet<String>,
}
