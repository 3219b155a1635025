//! Who owns which shard: advisory locks of one session, which end with it.
//!
//! Each shard has two locks. The first, held by the session, says whose it is; it may be a number that a person
//! chose. The second, the gate, is shared by the transactions of open claims: a new owner passes it alone once, so
//! that it begins only when nothing of the one before is open. Without the gate an owner whose session broke, but
//! whose claims are open still, would be overtaken within a key.
//!
//! A third, shared lock per table tells the relays how many they are and in how many lanes they split it.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{Connection, Executor, PgConnection, Row};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::driver::classify;
use crate::error::{Error, ErrorKind, Result};
use crate::postgres::connect;
use crate::table::driver::Ownership;

/// Where the numbers of our locks begin, in the space of a table's own number in the catalogue.
const LANES: i32 = 0x6f62_0000;
const GATES: i32 = 0x6f63_0000;
const MEMBERS: i32 = 0x6f64_0000;

/// How often the other relays are counted.
const COUNT: Duration = Duration::from_secs(1);

/// A session that does not answer for so long is given up.
const LIMIT: Duration = Duration::from_secs(15);

/// A server must notice within seconds that the host of an owner is gone.
const KEEPALIVE: &str =
    "set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3";

/// Evaluated in this order: the gate first, then whether the session still has the lock. It is known by a second lock with
/// a number that nobody else has: the number of a process may come again when a server is started anew.
const ENTER: &str = "
    select case when pg_try_advisory_xact_lock_shared($1, $2) then (
        select count(*) = 2 from pg_locks
        where locktype = 'advisory' and granted and pid = $3
          and database = (select oid from pg_database where datname = current_database())
          and (classid, objid, objsubid) in (
              ($4::bigint::oid, $5::bigint::oid, $6), ($7::bigint::oid, $8::bigint::oid, 1::int2)
          )
    ) else false end";

const MEMBERS_OF: &str = "
    select count(distinct pid) filter (where objid = $2::bigint::oid) as same,
           max(objid::bigint) filter (where objid <> $2::bigint::oid) as other
    from pg_locks
    where locktype = 'advisory' and granted and classid = $1::bigint::oid and objsubid = 2
      and objid between $3::bigint::oid and ($3::bigint + 65535)::oid
      and database = (select oid from pg_database where datname = current_database())";

/// A shard in the catalogue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) oid: u32,
    pub(super) lane: u32,
}

impl Place {
    fn class(self) -> i32 {
        self.oid.cast_signed()
    }

    fn number(self, of: i32) -> i32 {
        of + i32::try_from(self.lane).unwrap_or(0)
    }
}

/// A lock as `pg_locks` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Lock {
    /// One number of 64 bits.
    Chosen(i64),
    /// Two numbers of 32 bits.
    Ours(i32, i32),
}

impl Lock {
    fn shown(self) -> (i64, i64, i16) {
        match self {
            Self::Chosen(number) => {
                let bits = number.cast_unsigned();
                (i64::from((bits >> 32) as u32), i64::from(bits as u32), 1)
            }
            Self::Ours(class, number) => {
                (i64::from(class.cast_unsigned()), i64::from(number.cast_unsigned()), 2)
            }
        }
    }
}

pub(super) struct Holder {
    options: PgConnectOptions,
    chosen: Option<i64>,
    places: Vec<Place>,
    lanes: u32,
    session: Mutex<Option<Session>>,
}

struct Session {
    conn: PgConnection,
    pid: i32,
    /// A lock that only this session has.
    own: Lock,
    locks: HashSet<Lock>,
    entered: HashSet<u32>,
    allowed: usize,
    counted: Option<Instant>,
}

impl Holder {
    pub(super) fn new(
        options: &PgConnectOptions,
        owner: &str,
        chosen: Option<i64>,
        places: Vec<Place>,
        lanes: u32,
    ) -> Self {
        // A name in pg_stat_activity has 63 bytes.
        let name: String = format!("outboxd {owner}").chars().filter(char::is_ascii).take(63).collect();
        let options = options.clone().application_name(&name);
        Self { options, chosen, places, lanes, session: Mutex::new(None) }
    }

    fn lock(&self, shard: u32) -> Lock {
        let place = self.places[shard as usize];
        self.chosen.map_or_else(|| Lock::Ours(place.class(), place.number(LANES)), Lock::Chosen)
    }

    pub(super) async fn own(&self, shard: u32, idle: bool) -> Result<Ownership> {
        let mut session = self.session.lock().await;
        let tried = tokio::time::timeout(LIMIT, self.try_own(&mut session, shard, idle)).await;
        let silent =
            || Err(Error::new(ErrorKind::Timeout, "PostgreSQL does not tell whether a lock is ours"));
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
        if self.chosen.is_none() && self.places.len() > 1 {
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
            session.release(shard, lock).await?;
            return Ok(Ownership::Theirs);
        }
        if !session.locks.contains(&lock)
            && (session.locks.len() >= session.allowed || !session.take(lock).await?)
        {
            return Ok(Ownership::Theirs);
        }
        let place = self.places[shard as usize];
        if session.pass_gate(place).await? {
            session.entered.insert(shard);
            return Ok(Ownership::Fresh);
        }
        // The one before has claims open. With a lock of our own another may try meanwhile.
        if self.chosen.is_none() {
            session.release(shard, lock).await?;
        }
        Ok(Ownership::Theirs)
    }

    async fn connect(&self) -> Result<Session> {
        let mut conn = connect::connection(&self.options).await?;
        let failed = |error| classify(error, "preparing the session that holds the locks");
        // Refused for sockets of the file system, which need no keepalive.
        let _ = conn.execute(KEEPALIVE).await;
        if connect::is_pooled(&self.options, &mut conn).await? {
            let what = "a pooler gives every transaction another session, and an advisory lock needs one that stays: \
                        connect to PostgreSQL itself, or set order = \"none\" with one lane, one table and no lock";
            return Err(Error::new(ErrorKind::Config, what));
        }
        let pid = connect::pid(&mut conn).await.map_err(failed)?;
        let number: i64 = rand::random();
        let own = Lock::Chosen(number);
        sqlx::query("select pg_advisory_lock($1)")
            .bind(number)
            .persistent(false)
            .execute(&mut conn)
            .await
            .map_err(failed)?;
        let allowed = if self.chosen.is_some() { 1 } else { self.places.len() };
        let mut session = Session {
            conn,
            pid,
            own,
            locks: HashSet::new(),
            entered: HashSet::new(),
            allowed,
            counted: None,
        };
        if self.chosen.is_none() {
            let oids: HashSet<i32> = self.places.iter().map(|place| place.class()).collect();
            for oid in oids {
                let member = MEMBERS + i32::try_from(self.lanes).unwrap_or(0);
                sqlx::query("select pg_advisory_lock_shared($1, $2)")
                    .bind(oid)
                    .bind(member)
                    .persistent(false)
                    .execute(&mut session.conn)
                    .await
                    .map_err(failed)?;
            }
            self.count(&mut session).await?;
        }
        Ok(session)
    }

    /// How many relays share the tables, and so how many shards are our share.
    async fn count(&self, session: &mut Session) -> Result<()> {
        if session.counted.is_some_and(|at| at.elapsed() < COUNT) {
            return Ok(());
        }
        let (class, member) = (self.places[0].class(), MEMBERS + i32::try_from(self.lanes).unwrap_or(0));
        let row = sqlx::query(MEMBERS_OF)
            .bind(i64::from(class.cast_unsigned()))
            .bind(i64::from(member))
            .bind(i64::from(MEMBERS))
            .persistent(false)
            .fetch_one(&mut session.conn)
            .await
            .map_err(|error| classify(error, "counting the relays"))?;
        let (same, other): (i64, Option<i64>) = (row.get("same"), row.get("other"));
        session.counted = Some(Instant::now());
        // Whoever came first goes on; whoever holds nothing yet has to wait.
        if let Some(other) = other
            && session.locks.is_empty()
        {
            let (theirs, ours) = (other - i64::from(MEMBERS), self.lanes);
            let what = format!("another relay splits this table into {theirs} lanes, this one into {ours}");
            return Err(Error::new(ErrorKind::Busy, what)
                .while_doing("waiting for all relays to have the same lanes"));
        }
        session.allowed = self.places.len().div_ceil(usize::try_from(same).unwrap_or(1).max(1));
        Ok(())
    }

    pub(super) async fn enter(&self, conn: &mut PgConnection, shard: u32) -> Result<bool> {
        let (pid, own) = match &*self.session.lock().await {
            Some(session) if session.entered.contains(&shard) => (session.pid, session.own),
            _ => return Ok(false),
        };
        let (own_class, own_object, _) = own.shown();
        let place = self.places[shard as usize];
        let (class, object, sub) = self.lock(shard).shown();
        let entered = sqlx::query(ENTER)
            .bind(place.class())
            .bind(place.number(GATES))
            .bind(pid)
            .bind(class)
            .bind(object)
            .bind(sub)
            .bind(own_class)
            .bind(own_object)
            .persistent(false)
            .fetch_one(conn)
            .await;
        Ok(entered.map_err(|error| classify(error, "looking whether the lock is still ours"))?.get(0))
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
        if session.locks.contains(&lock) {
            let released = tokio::time::timeout(LIMIT, session.release(shard, lock)).await;
            if !matches!(released, Ok(Ok(()))) {
                *slot = None;
                return;
            }
        }
        if session.locks.is_empty()
            && let Some(session) = slot.take()
        {
            let _ = tokio::time::timeout(LIMIT, session.conn.close()).await;
        }
    }
}

/// Who owns each table, by the name of its session; several names if its lanes are shared.
pub(super) async fn owners(pool: &PgPool, chosen: Option<i64>, oids: &[u32]) -> Result<Vec<Option<String>>> {
    const OWNERS: &str = "
        select string_agg(distinct regexp_replace(a.application_name, '^outboxd ', ''), ', ')
        from pg_locks l left join pg_stat_activity a on a.pid = l.pid
        where l.locktype = 'advisory' and l.granted and l.classid = $1::bigint::oid and l.objsubid = $2
          and l.objid between $3::bigint::oid and $4::bigint::oid
          and l.database = (select oid from pg_database where datname = current_database())";
    let failed = |error| classify(error, "looking who holds the locks");
    let mut tx = pool.begin().await.map_err(failed)?;
    let mut owners = Vec::new();
    for oid in oids {
        let (class, first, last, sub) = match chosen {
            Some(number) => {
                let (class, object, sub) = Lock::Chosen(number).shown();
                (class, object, object, sub)
            }
            None => (i64::from(*oid), i64::from(LANES), i64::from(LANES) + 0xffff, 2),
        };
        let query = sqlx::query(OWNERS).bind(class).bind(sub).bind(first).bind(last).persistent(false);
        owners.push(query.fetch_one(&mut *tx).await.map_err(failed)?.get(0));
    }
    tx.rollback().await.map_err(failed)?;
    Ok(owners)
}

impl Session {
    async fn take(&mut self, lock: Lock) -> Result<bool> {
        let query = match lock {
            Lock::Chosen(number) => sqlx::query("select pg_try_advisory_lock($1)").bind(number),
            Lock::Ours(class, number) => {
                sqlx::query("select pg_try_advisory_lock($1, $2)").bind(class).bind(number)
            }
        };
        let taken = query.persistent(false).fetch_one(&mut self.conn).await;
        let taken: bool = taken.map_err(|error| classify(error, "trying to take a lock"))?.get(0);
        if taken {
            self.locks.insert(lock);
        }
        Ok(taken)
    }

    async fn release(&mut self, shard: u32, lock: Lock) -> Result<()> {
        self.entered.remove(&shard);
        self.locks.remove(&lock);
        let query = match lock {
            Lock::Chosen(number) => sqlx::query("select pg_advisory_unlock($1)").bind(number),
            Lock::Ours(class, number) => {
                sqlx::query("select pg_advisory_unlock($1, $2)").bind(class).bind(number)
            }
        };
        query
            .persistent(false)
            .execute(&mut self.conn)
            .await
            .map_err(|error| classify(error, "giving a lock back"))?;
        Ok(())
    }

    /// Whether nobody's claim is open; the lock of the gate ends with the statement.
    async fn pass_gate(&mut self, place: Place) -> Result<bool> {
        let passed = sqlx::query("select pg_try_advisory_xact_lock($1, $2)")
            .bind(place.class())
            .bind(place.number(GATES))
            .persistent(false)
            .fetch_one(&mut self.conn)
            .await;
        Ok(passed.map_err(|error| classify(error, "waiting for open claims to end"))?.get(0))
    }
}
