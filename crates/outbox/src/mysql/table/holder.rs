//! Who owns which shard: user locks (`GET_LOCK`) of one session, which end with it.
//!
//! Each shard has a lock that says whose it is; it may be a number that a person chose. Besides it there is a gate: a
//! row of locks, of which every transaction of a claim takes one until it ends. A new owner begins only when all of
//! them are free, so that nothing of the one before is open; without the gate an owner whose session broke, but whose
//! claims are open still, would be overtaken within a key. Whoever claims takes its place in the gate first and then
//! looks whose the shard is; whoever takes over takes the shard first and then looks at the gate. One of the two sees
//! the other.
//!
//! Further locks tell the relays how many they are, and in how many lanes each splits the table. They are those of one
//! server: nodes of a cluster do not know each other's.

use std::collections::HashSet;
use std::sync::{Arc, Mutex as Guarded, PoisonError};
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlRow};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::lock::{self, Place};
use crate::error::{Error, ErrorKind, Result};
use crate::mysql::connect;
use crate::mysql::error::classify;
use crate::table::driver::Ownership;

/// Places in the gate of a shard: more than there can be claims open at a time, two for each of the deepest pipe.
const GATE: usize = 128;

/// Relays that can share a table.
const MEMBERS: usize = 64;

/// Bits of a number of lanes.
const LANES_BITS: usize = 9;

/// How often the other relays are counted.
const COUNT: Duration = Duration::from_secs(1);

/// A session that does not answer for so long is given up.
const LIMIT: Duration = Duration::from_secs(15);

/// A shard: a table, and which lane of it.
#[derive(Debug, Clone)]
pub(super) struct ShardPlace {
    pub(super) place: Place,
    pub(super) lane: u32,
}

pub(super) struct Holder {
    options: MySqlConnectOptions,
    owner: String,
    chosen: Option<i64>,
    shards: Vec<ShardPlace>,
    lanes: u32,
    lease: Duration,
    /// Shared with the task that keeps it alive.
    session: Arc<Mutex<Option<Session>>>,
    /// Which places of each gate are ours.
    gates: Arc<Guarded<Vec<u128>>>,
}

struct Session {
    conn: MySqlConnection,
    /// A lock that this session alone has ever had.
    name: String,
    locks: HashSet<String>,
    entered: HashSet<u32>,
    allowed: usize,
    counted: Option<Instant>,
}

/// A place in a gate, until the transaction is over.
pub(super) struct Entered {
    gates: Arc<Guarded<Vec<u128>>>,
    shard: usize,
    slot: usize,
    name: String,
}

impl Entered {
    /// What leaves the gate, to be said right after the end of the transaction.
    pub(super) fn leave(&self) -> String {
        format!("; do release_lock('{}')", self.name)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)[self.shard] &= !(1 << self.slot);
    }
}

impl Holder {
    pub(super) fn new(
        options: &MySqlConnectOptions,
        owner: &str,
        chosen: Option<i64>,
        shards: Vec<ShardPlace>,
        lanes: u32,
        lease: Duration,
    ) -> Self {
        let gates = Arc::new(Guarded::new(vec![0; shards.len()]));
        let (options, owner) = (options.clone(), owner.to_owned());
        Self { options, owner, chosen, shards, lanes, lease, session: Arc::default(), gates }
    }

    fn lock(&self, shard: u32) -> String {
        let ShardPlace { place, lane } = &self.shards[shard as usize];
        self.chosen.map_or_else(|| place.lane(*lane), lock::chosen)
    }

    pub(super) async fn own(&self, shard: u32, idle: bool) -> Result<Ownership> {
        let mut session = self.session.lock().await;
        let tried = timeout(LIMIT, self.try_own(&mut session, shard, idle)).await;
        let silent = || Err(Error::new(ErrorKind::Timeout, "MySQL does not tell whether a lock is ours"));
        let result = tried.unwrap_or_else(|_| silent());
        if result.is_err() {
            // Whatever it held ends with it, and is taken anew.
            *session = None;
        }
        result
    }

    async fn try_own(&self, slot: &mut Option<Session>, shard: u32, idle: bool) -> Result<Ownership> {
        let session = match slot {
            Some(session) => session,
            None => slot.insert(self.connect().await?),
        };
        let lock = self.lock(shard);
        if self.chosen.is_none() && self.shards.len() > 1 {
            self.count(session).await?;
        }
        if session.locks.contains(&lock) && session.entered.contains(&shard) {
            if session.locks.len() <= session.allowed {
                return Ok(Ownership::Ours);
            }
            // Another relay has come, and this is more than our share.
            if !idle {
                return Ok(Ownership::Leaving);
            }
            session.release(shard, &lock).await?;
            return Ok(Ownership::Theirs);
        }
        if !session.locks.contains(&lock)
            && (session.locks.len() >= session.allowed || !session.take(&lock).await?)
        {
            return Ok(Ownership::Theirs);
        }
        let ShardPlace { place, lane } = &self.shards[shard as usize];
        let gate: Vec<String> = (0..GATE).map(|slot| place.gate(*lane, slot)).collect();
        if used(&mut session.conn, &gate).await?.is_empty() {
            session.entered.insert(shard);
            return Ok(Ownership::Fresh);
        }
        // The one before has claims open. With a lock of our own another may try meanwhile.
        if self.chosen.is_none() {
            session.release(shard, &lock).await?;
        }
        Ok(Ownership::Theirs)
    }

    async fn connect(&self) -> Result<Session> {
        let mut conn = connect::connection(&self.options).await?;
        let failed = |error| classify(error, "preparing the session that holds the locks");
        // A host that is gone says nothing more; then its locks must not stay.
        let silence = format!("set session wait_timeout = {}", super::seconds(self.lease));
        sqlx::raw_sql(AssertSqlSafe(silence)).execute(&mut conn).await.map_err(failed)?;
        let (first, second) = (connection_id(&mut conn).await?, connection_id(&mut conn).await?);
        if first != second {
            let what = "a proxy gives every statement another session, and a lock needs one that stays";
            return Err(Error::new(ErrorKind::Config, what).while_doing(
                "connect to the server itself, or set order = \"none\" with one lane and no lock",
            ));
        }
        let allowed = if self.chosen.is_some() { 1 } else { self.shards.len() };
        let name = lock::session(&self.owner);
        let mut session =
            Session { conn, name, locks: HashSet::new(), entered: HashSet::new(), allowed, counted: None };
        let name = session.name.clone();
        session.try_lock(&name).await?;
        if self.chosen.is_none() {
            for shard in self.shards.iter().filter(|shard| shard.lane == 0) {
                self.join(&mut session, &shard.place).await?;
            }
            self.count(&mut session).await?;
        }
        keep_alive(&self.session, name, self.lease / 3);
        Ok(session)
    }

    /// Says that this relay reads the table, and in how many lanes.
    async fn join(&self, session: &mut Session, place: &Place) -> Result<()> {
        for slot in 0..MEMBERS {
            if !session.try_lock(&place.member(slot)).await? {
                continue;
            }
            for bit in (0..LANES_BITS).filter(|bit| self.lanes >> bit & 1 == 1) {
                session.try_lock(&place.lanes_bit(slot, bit)).await?;
            }
            return self.check_lanes(session, place).await.map(drop);
        }
        let what = format!("{MEMBERS} relays read this table already");
        Err(Error::new(ErrorKind::Busy, what).while_doing("waiting for one of them to stop"))
    }

    /// How many relays read the table; an error if one of them splits it in another way.
    async fn check_lanes(&self, session: &mut Session, place: &Place) -> Result<usize> {
        let members: Vec<String> = (0..MEMBERS).map(|slot| place.member(slot)).collect();
        let members = used(&mut session.conn, &members).await?;
        let bit = |slot: usize| (0..LANES_BITS).map(move |bit| place.lanes_bit(slot, bit));
        let bits: Vec<String> = members.iter().flat_map(|slot| bit(*slot)).collect();
        let mut lanes = vec![0; members.len()];
        for set in used(&mut session.conn, &bits).await? {
            lanes[set / LANES_BITS] |= 1_u32 << (set % LANES_BITS);
        }
        // None at all: it has just come, or is just about to go.
        let other = lanes.iter().find(|lanes| **lanes != self.lanes && **lanes != 0);
        // Whoever came first goes on; whoever holds nothing yet has to wait.
        if let Some(theirs) = other
            && session.locks.is_empty()
        {
            let ours = self.lanes;
            let what = format!("another relay splits this table into {theirs} lanes, this one into {ours}");
            return Err(Error::new(ErrorKind::Busy, what)
                .while_doing("waiting for all relays to have the same lanes"));
        }
        Ok(lanes.iter().filter(|lanes| **lanes == self.lanes).count())
    }

    /// How many relays share the tables, and so how many shards are our share.
    async fn count(&self, session: &mut Session) -> Result<()> {
        if session.counted.is_some_and(|at| at.elapsed() < COUNT) {
            return Ok(());
        }
        let same = self.check_lanes(session, &self.shards[0].place).await?;
        session.counted = Some(Instant::now());
        session.allowed = self.shards.len().div_ceil(same.max(1));
        Ok(())
    }

    /// Takes a place in the gate for the transaction of this connection, and looks whether the shard is ours still.
    pub(super) async fn enter(
        &self,
        conn: &mut MySqlConnection,
        shard: u32,
    ) -> Result<(Option<Entered>, bool)> {
        let session = match &*self.session.lock().await {
            Some(session) if session.entered.contains(&shard) => session.name.clone(),
            _ => return Ok((None, false)),
        };
        let failed = |error| classify(error, "looking whether the lock is still ours");
        let ShardPlace { place, lane } = &self.shards[shard as usize];
        let lock = self.lock(shard);
        for slot in 0..GATE {
            let Some(entered) = self.place_in_gate(shard as usize, slot, place.gate(*lane, slot)) else {
                continue;
            };
            // Two statements in one message, so that the second looks when the first is done. By a number of a
            // session it could not look: a server that was started again gives the same numbers once more.
            let statements = format!(
                "select get_lock('{}', 0); select is_used_lock('{lock}') = is_used_lock('{session}')",
                entered.name
            );
            let rows =
                sqlx::raw_sql(AssertSqlSafe(statements)).fetch_all(&mut *conn).await.map_err(failed)?;
            let answers: Vec<bool> = rows.iter().map(is_true).collect();
            if answers.first() == Some(&true) {
                return Ok((Some(entered), answers.get(1) == Some(&true)));
            }
            // A connection of ours that is about to close has it still, or one of an owner before us.
        }
        Err(Error::new(ErrorKind::Busy, "too many claims are open"))
    }

    fn place_in_gate(&self, shard: usize, slot: usize, name: String) -> Option<Entered> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if gates[shard] >> slot & 1 == 1 {
            return None;
        }
        gates[shard] |= 1 << slot;
        Some(Entered { gates: self.gates.clone(), shard, slot, name })
    }

    pub(super) async fn disown(&self, shard: u32) {
        let mut slot = self.session.lock().await;
        let Some(session) = &mut *slot else { return };
        let lock = self.lock(shard);
        session.entered.remove(&shard);
        // A chosen lock is for all shards, and goes with the last.
        if self.chosen.is_some() && !session.entered.is_empty() {
            return;
        }
        if session.locks.contains(&lock)
            && !matches!(timeout(LIMIT, session.release(shard, &lock)).await, Ok(Ok(())))
        {
            *slot = None;
            return;
        }
        if session.locks.is_empty()
            && let Some(session) = slot.take()
        {
            let _ = timeout(LIMIT, session.conn.close()).await;
        }
    }
}

impl Session {
    /// Takes a lock if it is free.
    async fn try_lock(&mut self, lock: &str) -> Result<bool> {
        let statement = format!("select get_lock('{lock}', 0)");
        let rows = sqlx::raw_sql(AssertSqlSafe(statement)).fetch_all(&mut self.conn).await;
        let rows = rows.map_err(|error| classify(error, "trying to take a lock"))?;
        Ok(rows.first().is_some_and(is_true))
    }

    async fn take(&mut self, lock: &str) -> Result<bool> {
        let taken = self.try_lock(lock).await?;
        if taken {
            self.locks.insert(lock.to_owned());
        }
        Ok(taken)
    }

    async fn release(&mut self, shard: u32, lock: &str) -> Result<()> {
        self.entered.remove(&shard);
        self.locks.remove(lock);
        let statement = format!("do release_lock('{lock}')");
        let released = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut self.conn).await;
        released.map(drop).map_err(|error| classify(error, "giving a lock back"))
    }
}

/// Lets the session say something now and then, so that the server does not take it for gone.
fn keep_alive(session: &Arc<Mutex<Option<Session>>>, name: String, every: Duration) {
    let session = Arc::downgrade(session);
    tokio::spawn(async move {
        loop {
            sleep(every).await;
            let Some(session) = session.upgrade() else { return };
            let mut slot = session.lock().await;
            match &mut *slot {
                Some(session) if session.name == name => {
                    if !matches!(timeout(connect::LIMIT, session.conn.ping()).await, Ok(Ok(()))) {
                        *slot = None;
                    }
                }
                _ => return,
            }
        }
    });
}

fn is_true(row: &MySqlRow) -> bool {
    row.try_get_unchecked::<Option<Vec<u8>>, _>(0).ok().flatten().is_some_and(|text| text == b"1")
}

async fn connection_id(conn: &mut MySqlConnection) -> Result<i64> {
    let id = sqlx::query_scalar("select cast(connection_id() as signed)").fetch_one(conn).await;
    id.map_err(|error| classify(error, "asking for the number of the session"))
}

/// Which of these locks somebody has, by their place in the list.
async fn used(conn: &mut MySqlConnection, locks: &[String]) -> Result<Vec<usize>> {
    if locks.is_empty() {
        return Ok(Vec::new());
    }
    let one = |(at, lock): (usize, &String)| format!("if(is_free_lock('{lock}'), null, {at})");
    let list: Vec<String> = locks.iter().enumerate().map(one).collect();
    let statement = AssertSqlSafe(format!("select concat_ws(' ', {})", list.join(", ")));
    let rows = sqlx::raw_sql(statement).fetch_all(conn).await;
    let rows = rows.map_err(|error| classify(error, "looking at the locks"))?;
    let text = rows.first().and_then(|row| row.try_get_unchecked::<Option<Vec<u8>>, _>(0).ok().flatten());
    let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
    Ok(text.split(' ').filter_map(|at| at.parse().ok()).collect())
}

/// Who owns each table, by user and host; several if its lanes are shared. A session of another user is a number for
/// whoever may not see the processes.
pub(super) async fn owners(
    pool: &MySqlPool,
    chosen: Option<i64>,
    places: &[Place],
) -> Result<Vec<Option<String>>> {
    let failed = |error| classify(error, "looking who holds the locks");
    let mut conn = pool.acquire().await.map_err(failed)?;
    let mut owners = Vec::new();
    for place in places {
        let locks = match chosen {
            Some(number) => vec![lock::chosen(number)],
            None => (0..1 << (LANES_BITS - 1)).map(|lane| place.lane(lane)).collect(),
        };
        let list: Vec<String> = locks.iter().map(|lock| format!("is_used_lock('{lock}')")).collect();
        let statement = format!("select concat_ws(',', {})", list.join(", "));
        let row = sqlx::raw_sql(AssertSqlSafe(statement)).fetch_one(&mut *conn).await.map_err(failed)?;
        let ids = row.try_get_unchecked::<Option<String>, _>(0).map_err(failed)?.unwrap_or_default();
        let mut names = Vec::new();
        for id in ids.split(',').collect::<std::collections::BTreeSet<_>>() {
            let Ok(number) = id.parse::<i64>() else { continue };
            let who = "select cast(concat(user, '@', host) as char) from information_schema.processlist where id = ?";
            let who = sqlx::query(who).bind(number).fetch_optional(&mut *conn).await.map_err(failed)?;
            let who = who.and_then(|row| row.try_get_unchecked::<Option<String>, _>(0).ok().flatten());
            names.push(who.unwrap_or_else(|| format!("session {number}")));
        }
        owners.push(Some(names.join(", ")).filter(|names| !names.is_empty()));
    }
    Ok(owners)
}
