//! A mapped table as a [`Store`]: a publisher inserts into it, and the pipe that reads it delivers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::catalog::Layout;
use super::driver::Driver;
use super::source::text;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Limits, Message};
use crate::store::Store;

/// The finest time that every column keeps which we let rows be ordered by. Two messages of a key are kept further
/// apart than that, so the time tells their order.
const TICK: Duration = Duration::from_millis(1);

/// One table, and whether a dead message in it holds its key.
pub(crate) struct TableStore<D: Driver> {
    driver: Arc<D>,
    layout: Arc<Layout>,
    holds: bool,
    limits: Limits,
}

impl<D: Driver> TableStore<D> {
    /// The store on a table that can be written to by its mapping alone; everything that is in the way is told.
    pub(crate) fn new(driver: Arc<D>, tables: &[&Arc<Layout>], holds: bool) -> Result<Self> {
        let [layout] = tables else {
            let what = "a publisher keeps its messages in one table, and the mapping names several";
            return Err(Error::new(ErrorKind::Mapping, what));
        };
        let obstacles = layout.obstacles();
        if !obstacles.is_empty() {
            let what =
                format!("a publisher cannot write to table '{}': {}", layout.table, obstacles.join("; "));
            return Err(Error::new(ErrorKind::Mapping, what));
        }
        Ok(Self { driver, layout: Arc::clone(layout), holds, limits: Limits::default() })
    }

    async fn insert(&self, tx: &mut D::Tx, messages: &[&Message]) -> Result<()> {
        for (at, wave) in waves(messages).into_iter().enumerate() {
            if at > 0 {
                self.tick().await;
            }
            self.driver.execute(tx, &self.layout.insert(&wave)).await?;
        }
        let ids: Vec<String> = messages.iter().map(|message| message.id.to_string()).collect();
        let pending = self.driver.fetch(tx, &self.layout.pending_of(&ids)).await?.len();
        if pending == ids.len() {
            return Ok(());
        }
        let what = format!(
            "rows that are inserted into table '{}' are not pending by its mapping; \
             give the columns of `pending` defaults that make them so",
            self.layout.table
        );
        Err(Error::new(ErrorKind::Mapping, what))
    }

    async fn tick(&self) {
        if self.layout.is_ordered_by_time() {
            tokio::time::sleep(TICK).await;
        }
    }
}

/// Messages that can be written in one statement: of each key one.
fn waves<'m>(messages: &[&'m Message]) -> Vec<Vec<&'m Message>> {
    let (mut waves, mut keys) = (vec![Vec::new()], HashSet::new());
    for message in messages {
        if let Some(key) = &message.key
            && !keys.insert(key)
        {
            keys = HashSet::from([key]);
            waves.push(Vec::new());
        }
        if let Some(wave) = waves.last_mut() {
            wave.push(*message);
        }
    }
    waves
}

#[async_trait]
impl<D: Driver> Store for TableStore<D> {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn admit(&self, message: Message) -> Result<Message> {
        self.limits.check(&message)?;
        self.layout.admit(message)
    }

    async fn keep(&self, messages: &[Message]) -> Result<()> {
        messages.iter().try_for_each(|message| self.limits.check(message))?;
        let doing =
            |error: Error| error.while_doing(format!("keeping messages in table '{}'", self.layout.table));
        let mut tx = self.driver.begin(None).await.map_err(doing)?;
        let ids: Vec<String> = messages.iter().map(|message| message.id.to_string()).collect();
        let known = self.driver.fetch(&mut tx, &self.layout.known(&ids)).await.map_err(doing)?;
        let known: HashSet<String> = known.iter().filter_map(|cells| text(cells, 0)).collect();
        let new: Vec<&Message> =
            messages.iter().filter(|message| !known.contains(message.id.as_str())).collect();
        if !new.is_empty() {
            self.insert(&mut tx, &new).await.map_err(doing)?;
        }
        self.driver.commit(tx).await.map_err(doing)?;
        self.tick().await;
        Ok(())
    }

    async fn has_kept(&self, keys: &[&str]) -> Result<HashSet<String>> {
        let doing =
            |error: Error| error.while_doing(format!("asking what is kept in table '{}'", self.layout.table));
        let Some(sql) = self.layout.has_kept(keys, self.holds) else { return Ok(HashSet::new()) };
        let mut tx = self.driver.begin(None).await.map_err(doing)?;
        let rows = self.driver.fetch(&mut tx, &sql).await.map_err(doing)?;
        self.driver.commit(tx).await.map_err(doing)?;
        Ok(rows.iter().filter_map(|cells| text(cells, 0)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_key_one_is_written_at_a_time() {
        let messages: Vec<Message> = ["a", "b", "", "a", "", "b", "b"]
            .into_iter()
            .map(|key| if key.is_empty() { Message::new("t", "") } else { Message::new("t", "").key(key) })
            .collect();
        let waves = waves(&messages.iter().collect::<Vec<_>>());
        assert_eq!(waves.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1]);
    }
}
