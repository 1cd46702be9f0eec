use crate::server::{
    Batch, Bell, Dialect, Doing, Lane, Link, MOST, Mode, Ring, Server, Statement, Target, Value,
};
use async_trait::async_trait;
use leasehold_core::bench::{ByHand, Counters, Yardstick};
use leasehold_core::{Error, ErrorKind, FencingToken, HolderInfo, LockName, Namespace, OwnerId, Result};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// As long as no measurement takes.
const LEASE_MICROS: i64 = 30_000_000;

/// The two statements of a lease, on as many connections as a client of ours has, each taken for one statement; and nothing
/// around them.
pub(super) struct Raw {
    server: Server,
    namespace: Namespace,
    dialect: Arc<dyn Dialect>,
    acquire: Statement,
    release: Statement,
    /// What says that somebody waits, and the bell that tells the waiter.
    notice: Option<(Statement, Arc<dyn Bell>)>,
    told: Arc<Told>,
    version: Statement,
    counters: Option<Statement>,
    forget: Vec<Batch>,
    has_leases: bool,
    owner: OwnerId,
    holder: String,
    idle: Mutex<Vec<Box<dyn Link>>>,
    free: Semaphore,
}

impl Raw {
    pub(super) fn new(dialect: Arc<dyn Dialect>, target: Arc<Target>, namespace: &Namespace) -> Self {
        let has_leases = target.mode != Mode::ForUpdate;
        let tables = if has_leases {
            vec![dialect.lease_table(target.table.clone())]
        } else {
            crate::for_update::HeldRow::tables(&*dialect, &target)
        };
        let statement = |template| Statement::new(template, &*dialect, &target.table);
        let leases = dialect.leases();
        let notice = leases.want.map(&statement).zip(dialect.bell()).filter(|_| has_leases);
        let counts = target.name != "postgres";
        let forget =
            |table: &crate::server::Table| Batch::new(include_str!("forget.sql"), &*dialect, &table.name);
        Self {
            acquire: statement(leases.acquire),
            release: statement(leases.release),
            notice,
            told: Arc::default(),
            version: statement(include_str!("version.sql")),
            counters: counts.then(|| statement(include_str!("counters.sql"))),
            forget: tables.iter().map(forget).collect(),
            has_leases,
            namespace: namespace.clone(),
            owner: OwnerId::random().unwrap_or_else(|_| OwnerId::from_u128(1)),
            holder: HolderInfo::this_process().to_json(),
            idle: Mutex::default(),
            free: Semaphore::new(target.connections),
            server: Server::new(Arc::clone(&dialect), target, tables),
            dialect,
        }
    }

    async fn acquire_on(&self, link: &mut dyn Link, name: &LockName) -> sqlx::Result<bool> {
        let lease = Value::int(LEASE_MICROS);
        let claim = [self.stored(name), self.owner(), lease, Value::text(&self.holder)];
        let answer = link.ask(&self.acquire, &claim).await?;
        // PostgreSQL answers with a row, MySQL with the token as its last id.
        Ok(!answer.rows.is_empty() || (1..=FencingToken::MAX_COUNTED).contains(&answer.last_id))
    }

    async fn release_on(&self, link: &mut dyn Link, name: &LockName) -> sqlx::Result<bool> {
        let values = [Value::int(0), self.stored(name), self.owner(), Value::int(1)];
        let released = link.ask(&self.release, &values).await?;
        Ok(released.changed > 0 || !released.rows.is_empty())
    }

    /// The lock is wanted before the clock runs, as it is where somebody has waited for a while.
    async fn notice_on(
        &self,
        link: &mut dyn Link,
        want: &Statement,
        name: &LockName,
    ) -> sqlx::Result<Option<Duration>> {
        let granted = self.acquire_on(link, name).await?;
        link.ask(want, &[self.stored(name)]).await?;
        let stored = self.namespace.stored(name.as_str()).into_bytes();
        *self.told.name.lock().unwrap_or_else(PoisonError::into_inner) = stored;
        let begin = Instant::now();
        let heard = async {
            self.told.it.notified().await;
            Ok(begin.elapsed())
        };
        // Of a name that is in use nobody is told.
        let (released, heard) = tokio::try_join!(self.release_on(link, name), heard)?;
        Ok(Some(heard).filter(|_| granted && released))
    }

    fn owner(&self) -> Value {
        Value::bytes(self.owner.to_bytes())
    }

    /// A connection for one statement, given back after it. Who keeps one from the acquisition to the release needs one for
    /// every lock that is held: two statements on one connection are no pair that a program can do work in.
    async fn lent(&self) -> Result<(SemaphorePermit<'_>, Box<dyn Link>)> {
        let closed = |_| Error::new(ErrorKind::Closed, "the store was closed");
        let permit = self.free.acquire().await.map_err(closed)?;
        Ok((permit, self.link().await?))
    }

    async fn link(&self) -> Result<Box<dyn Link>> {
        match self.take_idle() {
            Some(link) => Ok(link),
            None => self.dialect.connect().await.map_err(|error| failed(&error)),
        }
    }

    fn give_back(&self, link: Box<dyn Link>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(link);
    }

    fn stored(&self, name: &LockName) -> Value {
        Value::bytes(self.namespace.stored(name.as_str()).into_bytes())
    }

    fn take_idle(&self) -> Option<Box<dyn Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

#[async_trait]
impl Yardstick for Raw {
    async fn server(&self) -> Result<String> {
        let answer = self.server.ask(Lane::Asking, Doing::Looking, &self.version, &[]).await?;
        match answer.rows.into_iter().flatten().next() {
            Some(Value::Text(Some(version))) => Ok(version),
            _ => Ok("of unknown version".to_owned()),
        }
    }

    /// A lock that is a transaction is no two statements.
    fn has(&self, measure: ByHand) -> bool {
        match measure {
            ByHand::Pair => self.has_leases,
            ByHand::TokenlessPair => false,
            ByHand::Notice => self.notice.is_some(),
        }
    }

    async fn raw_pair(&self, name: &LockName) -> Result<()> {
        let (permit, mut link) = self.lent().await?;
        let granted = self.acquire_on(&mut *link, name).await.map_err(|error| failed(&error))?;
        self.give_back(link);
        drop(permit);
        let (_permit, mut link) = self.lent().await?;
        let released = self.release_on(&mut *link, name).await.map_err(|error| failed(&error))?;
        self.give_back(link);
        if granted && released { Ok(()) } else { Err(in_use()) }
    }

    async fn raw_notice(&self, name: &LockName) -> Result<Duration> {
        let Some((want, bell)) = &self.notice else {
            return Err(Error::new(ErrorKind::Unsupported, "this database tells nobody of a release"));
        };
        let mut link = self.link().await?;
        self.told.begin(bell).await;
        let heard = self.notice_on(&mut *link, want, name).await.map_err(|error| failed(&error))?;
        self.give_back(link);
        heard.ok_or_else(in_use)
    }

    async fn counters(&self) -> Result<Option<Counters>> {
        let Some(statement) = &self.counters else { return Ok(None) };
        let answer = self.server.ask(Lane::Asking, Doing::Looking, statement, &[]).await?;
        let mut counters = Counters::default();
        for row in &answer.rows {
            if let [Value::Text(Some(name)), Value::Text(Some(value))] = row.as_slice() {
                let value = value.parse::<u64>().unwrap_or(0);
                if name == "Questions" { counters.commands = value } else { counters.bytes += value }
            }
        }
        Ok(Some(counters))
    }

    async fn forget(&self, names: &[LockName]) -> Result<()> {
        for some in names.chunks(MOST) {
            for batch in &self.forget {
                let (statement, size) = batch.of(some.len());
                let places = some.iter().chain(std::iter::repeat(&some[0])).take(size);
                let values: Vec<Value> = places.map(|name| self.stored(name)).collect();
                self.server.ask(Lane::Keeping, Doing::Keeping, statement, &values).await?;
            }
        }
        Ok(())
    }
}

/// A waiter, on the connection of its bell.
#[derive(Debug, Default)]
struct Told {
    it: Notify,
    begun: AtomicBool,
    /// What it waits for, as it stands in the table.
    name: Mutex<Vec<u8>>,
}

impl Told {
    /// Returns when the database is heard: a bell rings for everybody then.
    async fn begin(self: &Arc<Self>, bell: &Arc<dyn Bell>) {
        let ring: Arc<dyn Ring> = Arc::<Self>::clone(self);
        bell.keep_hearing(Arc::downgrade(&ring));
        if !self.begun.swap(true, Ordering::Relaxed) {
            self.it.notified().await;
        }
    }
}

impl Ring for Told {
    fn ring(&self, name: &[u8]) {
        if *self.name.lock().unwrap_or_else(PoisonError::into_inner) == name {
            self.it.notify_one();
        }
    }

    fn ring_all(&self) {
        self.it.notify_one();
    }

    fn is_wanted(&self) -> bool {
        true
    }
}

fn in_use() -> Error {
    Error::new(ErrorKind::Busy, "a name for measuring is in use")
}

fn failed(error: &sqlx::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("a statement for measuring failed: {error}"))
        .with_help("leave --raw out to measure without it")
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("server", &self.server).finish_non_exhaustive()
    }
}
