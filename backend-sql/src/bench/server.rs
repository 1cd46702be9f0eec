use crate::server::{
    Answer, Batch, Dialect, MOST, Mode, PoolClass, Releases, Server, Statement, Table, Value,
};
use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use leasehold_core::bench::{ByHand, Counters, Yardstick};
use leasehold_core::{Error, ErrorKind, FencingToken, HolderInfo, LockName, Namespace, OwnerId, Result};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// A poll marks a row that is held for so long, and some time for the difference of the clocks.
const MARKED_AFTER: Duration = Duration::from_millis(30);

/// Longer than any measurement takes.
const LEASE_MICROS: i64 = 30_000_000;

/// The two statements of a lease on the connections of a client, without a retry, and nothing around them.
pub(super) struct Raw {
    server: Server,
    namespace: Namespace,
    acquire: Statement,
    release: Statement,
    listener: Mutex<Option<Releases>>,
    owner: OwnerId,
    holder: String,
}

impl Raw {
    pub(super) fn new(dialect: Arc<dyn Dialect>, namespace: &Namespace) -> Result<Self> {
        let tables = Table::of(&*dialect);
        let server = Server::new(dialect, tables);
        let (dialect, table) = (server.dialect(), &server.target().table);
        let leases = &dialect.texts().leases;
        Ok(Self {
            acquire: Statement::new(leases.acquire, dialect, table),
            release: Statement::new(leases.release, dialect, table),
            listener: Mutex::default(),
            namespace: namespace.clone(),
            owner: OwnerId::random()?,
            holder: HolderInfo::this_process().to_json(),
            server,
        })
    }

    /// Takes a connection for one statement. A program that kept it from the acquisition to the release would need one for
    /// each held lock.
    async fn ask(&self, statement: &Statement, values: &[Value]) -> Result<Answer> {
        let mut connection = self.server.connection(PoolClass::Renewal).await?;
        let answer = connection.link().ask(statement, values).await.map_err(|error| failed(&error))?;
        connection.give_back();
        Ok(answer)
    }

    async fn acquire(&self, name: &LockName) -> Result<()> {
        let (owner, lease) = (Value::bytes(self.owner.to_bytes()), Value::int(LEASE_MICROS));
        let claim = [self.stored(name), owner, lease, Value::text(&self.holder)];
        let answer = self.ask(&self.acquire, &claim).await?;
        // PostgreSQL answers with a row, MySQL with the token as its last id.
        match !answer.rows.is_empty() || (1..=FencingToken::MAX_COUNTED).contains(&answer.last_id) {
            true => Ok(()),
            false => Err(in_use()),
        }
    }

    async fn release(&self, name: &LockName) -> Result<()> {
        let values = [Value::int(0), self.stored(name), Value::bytes(self.owner.to_bytes())];
        let answer = self.ask(&self.release, &values).await?;
        if answer.changed > 0 || !answer.rows.is_empty() { Ok(()) } else { Err(in_use()) }
    }

    fn stored(&self, name: &LockName) -> Value {
        Value::bytes(self.namespace.stored(name.as_str()).into_bytes())
    }

    fn statement(&self, template: &str) -> Statement {
        Statement::new(template, self.server.dialect(), &self.server.target().table)
    }
}

#[async_trait]
impl Yardstick for Raw {
    async fn server(&self) -> Result<String> {
        let answer = self.ask(&self.statement(include_str!("version.sql")), &[]).await?;
        Ok(answer.first().and_then(Value::as_text).unwrap_or("of unknown version").to_owned())
    }

    /// A lock that is a transaction is no two statements.
    fn has(&self, measure: ByHand) -> bool {
        let has_leases = self.server.target().mode != Mode::ForUpdate;
        match measure {
            ByHand::Pair => has_leases,
            ByHand::TokenlessPair => false,
            ByHand::Notice => has_leases && self.server.dialect().texts().leases.sends_messages,
        }
    }

    async fn raw_pair(&self, name: &LockName) -> Result<()> {
        self.acquire(name).await?;
        self.release(name).await
    }

    /// The row is marked before, as it is while a task waits.
    async fn raw_notice(&self, name: &LockName) -> Result<Duration> {
        let mut listener = self.listener.lock().await;
        if listener.is_none() {
            let connected = self.server.dialect().listen().await.transpose();
            *listener = connected.map_err(|error| failed(&error))?;
        }
        let Some(listener) = listener.as_mut() else {
            return Err(Error::new(ErrorKind::Unsupported, "this database sends no messages of releases"));
        };
        self.acquire(name).await?;
        tokio::time::sleep(MARKED_AFTER).await;
        let poll = self.statement(self.server.dialect().texts().leases.poll);
        self.ask(&poll, &[self.stored(name)]).await?;
        let (begin, stored) = (Instant::now(), self.stored(name));
        let received = async {
            while stored.as_bytes()
                != listener.try_next().await.map_err(|error| failed(&error))?.flatten().as_deref()
            {
            }
            Ok(begin.elapsed())
        };
        let ((), received) = tokio::try_join!(self.release(name), received)?;
        Ok(received)
    }

    async fn counters(&self) -> Result<Option<Counters>> {
        if self.server.target().name == "postgres" {
            return Ok(None);
        }
        let answer = self.ask(&self.statement(include_str!("counters.sql")), &[]).await?;
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
        for table in Table::of(self.server.dialect()) {
            let forget = Batch::new(include_str!("forget.sql"), self.server.dialect(), &table.name);
            for some in names.chunks(MOST) {
                let (statement, size) = forget.of(some.len());
                let values: Vec<Value> =
                    some.iter().cycle().take(size).map(|name| self.stored(name)).collect();
                self.server.write(PoolClass::Renewal, statement, &values).await?;
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
