//! A row of MariaDB that a transaction keeps locked for as long as the lock is held, and what people get wrong in it.

use super::{NOW, connect, granted, hex, in_time, owner_of, run};
use crate::calls::{Calls, lock_of};
use crate::plain::busy;
use crate::subject::Address;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Claim, CrashBound, DistributedLock, HoldKind, LossCause, Outcome, OwnerId, Promises, Release,
    Renewal, Result, Semantics,
};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, Row};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The mistake of the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mistake {
    Nothing,
    /// #42: no transaction was begun, so the one around the statement ends with it, and the lock as well.
    InAutocommit,
    /// #43: the row is looked for under its lock, and inserted in the same transaction if it is missing. A row that is
    /// missing cannot be locked: all who look pass, and then stand in each other's way at the insert.
    MissingRow,
    /// #49: "lock wait timeout exceeded" is taken for the end of the transaction; it is that of the statement only.
    TimeOutTakenForRollback,
    /// #51: the heartbeat asks for any connection, and gets a new one when the one that holds is gone.
    HeartbeatThroughThePool,
}

/// A lock with this mistake, and with the core's guard and keeper.
pub(crate) fn lock(mistake: Mistake, address: &Address) -> Arc<dyn DistributedLock> {
    let (idle, held) = (Mutex::default(), Mutex::default());
    lock_of(HeldRows { mistake, address: address.clone(), idle, held })
}

struct HeldRows {
    mistake: Mistake,
    address: Address,
    idle: Mutex<Vec<MySqlConnection>>,
    held: Mutex<HashMap<OwnerId, (MySqlConnection, i64)>>,
}

impl HeldRows {
    /// A connection that lives, as pools give them.
    async fn take(&self) -> sqlx::Result<MySqlConnection> {
        while let Some(mut idle) = self.idle.lock().await.pop() {
            if idle.ping().await.is_ok() {
                return Ok(idle);
            }
        }
        let mut new = connect(&self.address).await?;
        // A statement that must wait fails at once, here and by NOWAIT.
        run(&mut new, "SET SESSION innodb_lock_wait_timeout = 0").await?;
        if self.mistake == Mistake::MissingRow {
            let settings = "innodb_lock_wait_timeout = 2, autocommit = 0, tx_isolation = 'READ-COMMITTED'";
            run(&mut new, &format!("SET SESSION {settings}")).await?;
        }
        Ok(new)
    }

    async fn acquire(&self, claim: &Claim) -> sqlx::Result<Attempt> {
        let mut connection = self.take().await?;
        let token = match self.mistake {
            Mistake::MissingRow => self.insert_if_missing(&mut connection, claim).await?,
            _ => self.lock_existing_row(&mut connection, claim).await?,
        };
        Ok(match token {
            Some(token) => {
                self.held.lock().await.insert(claim.owner(), (connection, token));
                granted(token)
            }
            None => {
                self.idle.lock().await.push(connection);
                busy()
            }
        })
    }

    /// The row is there before its lock is asked for.
    async fn lock_existing_row(
        &self,
        connection: &mut MySqlConnection,
        claim: &Claim,
    ) -> sqlx::Result<Option<i64>> {
        if self.lock_row(connection, claim, "").await?.is_none() {
            let name = hex(claim.name().as_str().as_bytes());
            // If another client has inserted the row and holds it, the row is there.
            unless_locked(run(connection, &format!("INSERT IGNORE INTO held VALUES ({name})")).await)?;
        }
        if self.mistake != Mistake::InAutocommit {
            run(connection, "BEGIN").await?;
        }
        let note = format!("INSERT IGNORE INTO attempts VALUES ({})", hex(&owner_of(claim)));
        run(connection, &note).await?;
        let token = unless_locked(self.lock_row(connection, claim, "FOR UPDATE NOWAIT").await)?.flatten();
        if token.is_none() && self.mistake != Mistake::TimeOutTakenForRollback {
            run(connection, "ROLLBACK").await?;
        }
        Ok(token)
    }

    async fn insert_if_missing(
        &self,
        connection: &mut MySqlConnection,
        claim: &Claim,
    ) -> sqlx::Result<Option<i64>> {
        match unless_locked(self.lock_row(connection, claim, "FOR UPDATE NOWAIT").await)? {
            Some(Some(token)) => return Ok(Some(token)),
            Some(None) => {}
            None => return run(connection, "ROLLBACK").await.map(|_| None),
        }
        let name = hex(claim.name().as_str().as_bytes());
        run(connection, &format!("INSERT INTO held VALUES ({name})")).await?;
        self.lock_row(connection, claim, "").await
    }

    /// The server's time, which does for a token, if there is such a row.
    async fn lock_row(
        &self,
        connection: &mut MySqlConnection,
        claim: &Claim,
        how: &str,
    ) -> sqlx::Result<Option<i64>> {
        let name = hex(claim.name().as_str().as_bytes());
        let statement = format!("SELECT {NOW} FROM held WHERE name = {name} {how}");
        let row = connection.fetch_optional(AssertSqlSafe(statement)).await?;
        row.map(|row| row.try_get_unchecked(0)).transpose()
    }

    async fn heartbeat(&self, claim: &Claim) -> sqlx::Result<Renewal> {
        if self.mistake == Mistake::HeartbeatThroughThePool {
            let mut any = self.take().await?;
            run(&mut any, "DO 1").await?;
            self.idle.lock().await.push(any);
            return Ok(Renewal::Renewed);
        }
        let mut held = self.held.lock().await;
        let alive = match held.get_mut(&claim.owner()) {
            Some((connection, _)) => run(connection, "DO 1").await.is_ok(),
            None => false,
        };
        Ok(if alive { Renewal::Renewed } else { Renewal::Lost(LossCause::Gone) })
    }

    async fn end(&self, claim: &Claim) -> sqlx::Result<Release> {
        let Some((mut connection, _)) = self.held.lock().await.remove(&claim.owner()) else {
            return Ok(Release::NotHeld);
        };
        // Not undone where the row was inserted in this very transaction.
        run(&mut connection, "COMMIT").await?;
        self.idle.lock().await.push(connection);
        Ok(Release::Released)
    }
}

/// `None` if a lock of somebody else's was in the way.
fn unless_locked<T>(answer: sqlx::Result<T>) -> sqlx::Result<Option<T>> {
    const LOCK_WAIT_TIMEOUT: u16 = 1205;
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(sqlx::Error::Database(error))
            if error.downcast_ref::<sqlx::mysql::MySqlDatabaseError>().number() == LOCK_WAIT_TIMEOUT =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[async_trait]
impl Calls for HeldRows {
    fn semantics(&self) -> Semantics {
        let mut semantics = Semantics::lease("mariadb", "plain", Promises::new(|_| Outcome::MayBreak));
        semantics.hold = HoldKind::Connection;
        semantics.crash_bound = CrashBound::Connection;
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        if let Some((_, token)) = self.held.lock().await.get(&claim.owner()) {
            return Ok(granted(*token));
        }
        in_time(&self.address, self.acquire(claim)).await
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        in_time(&self.address, self.heartbeat(claim)).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        in_time(&self.address, self.end(claim)).await
    }
}
