//! #50: an advisory lock of PostgreSQL belongs to a session. Written by hand on a pool, to which a connection goes
//! back with the lock when an acquisition is dropped before it has heard of its success.

use super::{in_time, unknown};
use crate::subject::Address;
use async_trait::async_trait;
use leasehold_core::{
    AcquireOptions, DistributedLock, Error, ErrorKind, FencingToken, Hold, HoldStatus, LockAdmin, LockGuard,
    LockName, Loss, Outcome, Promises, Result, Semantics, Wait,
};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{AssertSqlSafe, Connection, query_scalar};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A lock that gives connections back with whatever they hold, or that lets them end.
pub(crate) fn lock(goes_back: bool, address: &Address) -> Arc<dyn DistributedLock> {
    lock_by("hashtextextended($1, 0)", goes_back, address)
}

/// #88: the number of the lock is this hash of its name.
pub(crate) fn hashed(hash: &'static str, address: &Address) -> Arc<dyn DistributedLock> {
    lock_by(hash, false, address)
}

fn lock_by(hash: &'static str, goes_back: bool, address: &Address) -> Arc<dyn DistributedLock> {
    let (host, port) = address.server.split_once(':').unwrap();
    let options = PgConnectOptions::new_without_pgpass().host(host).port(port.parse().unwrap());
    let options = options.username("postgres").database("postgres").ssl_mode(PgSslMode::Disable);
    Arc::new(Advisory {
        options,
        idle: Arc::default(),
        address: address.clone(),
        goes_back,
        hash,
        semantics: Semantics::lease("postgres", "plain", Promises::new(|_| Outcome::MayBreak)),
        defaults: AcquireOptions::new(),
    })
}

#[derive(Clone)]
struct Advisory {
    options: PgConnectOptions,
    idle: Idle,
    address: Address,
    /// Whether a connection whose reply was not waited for goes back as well.
    goes_back: bool,
    /// The number of a lock, of its name.
    hash: &'static str,
    semantics: Semantics,
    defaults: AcquireOptions,
}

type Idle = Arc<Mutex<Vec<PgConnection>>>;

/// A connection that goes back to the others when it is dropped, as those of pools do.
struct Pooled {
    connection: Option<PgConnection>,
    idle: Idle,
    goes_back: bool,
}

impl Pooled {
    fn connection(&mut self) -> &mut PgConnection {
        self.connection.as_mut().unwrap()
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        if self.goes_back {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(self.connection.take());
        }
    }
}

impl Advisory {
    async fn connection(&self) -> sqlx::Result<Pooled> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => PgConnection::connect_with(&self.options).await?,
        };
        Ok(Pooled { connection: Some(connection), idle: Arc::clone(&self.idle), goes_back: self.goes_back })
    }

    async fn try_lock(&self, name: &LockName) -> Result<Option<(Pooled, i64)>> {
        in_time(&self.address, async {
            let mut connection = self.connection().await?;
            let lock = format!(
                "SELECT CASE WHEN pg_try_advisory_lock({})
                 THEN CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint) END",
                self.hash
            );
            let token: Option<i64> = query_scalar(AssertSqlSafe(lock))
                .bind(name.as_str())
                .fetch_one(connection.connection())
                .await?;
            // Its reply is here.
            connection.goes_back = true;
            Ok(token.map(|token| (connection, token)))
        })
        .await
    }
}

#[async_trait]
impl DistributedLock for Advisory {
    fn semantics(&self) -> &Semantics {
        &self.semantics
    }

    fn defaults(&self) -> &AcquireOptions {
        &self.defaults
    }

    async fn acquire_named(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard> {
        let begun = Instant::now();
        loop {
            if let Some((connection, token)) = self.try_lock(name).await? {
                let token = FencingToken::new(token.unsigned_abs());
                let connection = Mutex::new(Some(connection));
                return Ok(LockGuard::new(Arc::new(Held {
                    name: name.clone(),
                    hash: self.hash,
                    token,
                    connection,
                })));
            }
            match options.wait() {
                Wait::No => return Err(Error::new(ErrorKind::Busy, "held")),
                Wait::UpTo(time) if begun.elapsed() >= time => {
                    return Err(Error::new(ErrorKind::TimedOut, "held"));
                }
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    fn handle(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.clone())
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        None
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

struct Held {
    name: LockName,
    hash: &'static str,
    token: FencingToken,
    connection: Mutex<Option<Pooled>>,
}

impl Held {
    fn take(&self) -> Option<Pooled> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Hold for Held {
    fn name(&self) -> &LockName {
        &self.name
    }

    fn token(&self) -> FencingToken {
        self.token
    }

    fn status(&self) -> HoldStatus {
        match &*self.connection.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(_) => HoldStatus::Held { remaining: Duration::from_secs(30), at_risk: false },
            None => HoldStatus::Released,
        }
    }

    fn ended(self: Arc<Self>) -> BoxFuture<Option<Loss>> {
        Box::pin(std::future::pending())
    }

    fn extend(self: Arc<Self>, _ttl: Duration) -> BoxFuture<Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn release(self: Arc<Self>) -> BoxFuture<Result<()>> {
        let connection = self.take();
        Box::pin(async move {
            let Some(mut connection) = connection else { return Ok(()) };
            let unlock = format!("SELECT pg_advisory_unlock({})", self.hash);
            let unlock = query_scalar(AssertSqlSafe(unlock));
            let unlocked = unlock.bind(self.name.as_str()).fetch_one(connection.connection()).await;
            let unlocked: bool = unlocked.map_err(|error| unknown(error.to_string()))?;
            if unlocked { Ok(()) } else { Err(unknown("it was not locked".to_owned())) }
        })
    }

    fn abandon(self: Arc<Self>) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(self.release());
        }
    }
}

impl fmt::Debug for Advisory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Advisory")
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}
