use crate::server::{
    Batch, Dialect, Doing, Lane, Link, MOST, Mode, ReleaseListener, Server, Statement, Target, Value,
};
use async_trait::async_trait;
use leasehold_core::bench::{ByHand, Counters, Yardstick};
use leasehold_core::{Error, ErrorKind, FencingToken, HolderInfo, LockName, Namespace, OwnerId, Result};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex as AsyncMutex, Semaphore, SemaphorePermit};

/// A poll marks a row that is held for so long, and some time for the difference of the clocks.
const MARKED_AFTER: Duration = Duration::from_millis(30);

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
    /// Marks a row, so that its release sends a message.
    poll: Batch,
    sends_messages: bool,
    listener: AsyncMutex<Option<Box<dyn ReleaseListener>>>,
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
        let counts = target.name != "postgres";
        let forget =
            |table: &crate::server::Table| Batch::new(include_str!("forget.sql"), &*dialect, &table.name);
        Self {
            acquire: statement(leases.acquire),
            release: statement(leases.release),
            poll: Batch::new(leases.poll, &*dialect, &target.table),
            sends_messages: leases.sends_messages && has_leases,
            listener: AsyncMutex::default(),
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
        let values = [Value::int(0), self.stored(name), self.owner()];
        let released = link.ask(&self.release, &values).await?;
        Ok(released.changed > 0 || !released.rows.is_empty())
    }

    /// The time from a release to its message. The row is marked before, as it is while a task waits.
    async fn notice_on(
        &self,
        link: &mut dyn Link,
        listener: &mut dyn ReleaseListener,
        name: &LockName,
    ) -> sqlx::Result<Option<Duration>> {
        let granted = self.acquire_on(link, name).await?;
        tokio::time::sleep(MARKED_AFTER).await;
        link.ask(self.poll.of(1).0, &[self.stored(name)]).await?;
        let stored = self.namespace.stored(name.as_str()).into_bytes();
        let begin = Instant::now();
        let received = async {
            while listener.next().await? != stored {}
            Ok(begin.elapsed())
        };
        // The release of a name that is in use sends no message.
        let (released, received) = tokio::try_join!(self.release_on(link, name), received)?;
        Ok(Some(received).filter(|_| granted && released))
    }

    fn owner(&self) -> Value {
        Value::bytes(self.owner.to_bytes())
    }

    /// A connection for one statement, given back after it. A program that kept it from the acquisition to the release would need
    /// one for each held lock.
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
            ByHand::Notice => self.sends_messages,
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
        let mut listener = self.listener.lock().await;
        if listener.is_none() {
            let connected = self.dialect.listen().await.transpose();
            *listener = connected.map_err(|error| failed(&error))?;
        }
        let Some(listener) = listener.as_deref_mut() else {
            return Err(Error::new(ErrorKind::Unsupported, "this database sends no messages of releases"));
        };
        let mut link = self.link().await?;
        let received = self.notice_on(&mut *link, listener, name).await.map_err(|error| failed(&error))?;
        self.give_back(link);
        received.ok_or_else(in_use)
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
