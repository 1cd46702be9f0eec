use crate::server::{Batch, Dialect, Doing, Lane, Link, MOST, Mode, Server, Statement, Target, Value};
use async_trait::async_trait;
use leasehold_core::bench::{Counters, Yardstick};
use leasehold_core::{Error, ErrorKind, HolderInfo, LockName, Namespace, OwnerId, Result};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// As long as no measurement takes.
const LEASE_MICROS: i64 = 30_000_000;

/// The two statements of a lease on as many connections as a client of ours has, and nothing around them.
pub(super) struct Raw {
    server: Server,
    namespace: Namespace,
    dialect: Arc<dyn Dialect>,
    acquire: Statement,
    release: Statement,
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
        let counts = target.name != "postgres";
        let forget =
            |table: &crate::server::Table| Batch::new(include_str!("forget.sql"), &*dialect, &table.name);
        Self {
            acquire: statement(dialect.leases().acquire),
            release: statement(dialect.leases().release),
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

    async fn pair_on(&self, link: &mut dyn Link, name: &LockName) -> sqlx::Result<bool> {
        let (name, owner) = (self.stored(name), Value::bytes(self.owner.as_u128().to_be_bytes()));
        let claim = [name.clone(), owner.clone(), Value::int(LEASE_MICROS), Value::text(&self.holder)];
        let granted = link.ask(&self.acquire, &claim).await?;
        let released = link.ask(&self.release, &[Value::int(0), name, owner]).await?;
        let was_granted = !granted.rows.is_empty() || granted.last_id > 0;
        Ok(was_granted && (released.changed > 0 || !released.rows.is_empty()))
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
    fn has_raw(&self) -> bool {
        self.has_leases
    }

    async fn raw_pair(&self, name: &LockName) -> Result<()> {
        let closed = |_| Error::new(ErrorKind::Closed, "the store was closed");
        let _permit = self.free.acquire().await.map_err(closed)?;
        let mut link = match self.take_idle() {
            Some(link) => link,
            None => self.dialect.connect().await.map_err(|error| failed(&error))?,
        };
        let done = self.pair_on(&mut *link, name).await.map_err(|error| failed(&error))?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(link);
        if done { Ok(()) } else { Err(Error::new(ErrorKind::Busy, "a name for measuring is in use")) }
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

fn failed(error: &sqlx::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("a statement for measuring failed: {error}"))
        .with_help("leave --raw out to measure without it")
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("server", &self.server).finish_non_exhaustive()
    }
}
