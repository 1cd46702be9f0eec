//! #54: a transaction of SQLite that reads before it writes, begun as SQLite does by default: when it comes to write, and
//! somebody has written since it has read, it is refused at once, however long it is willing to wait.

use super::{granted, in_time, owner_of};
use crate::calls::{Calls, lock_of};
use crate::plain::busy;
use crate::subject::Address;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Claim, DistributedLock, LossCause, Outcome, Promises, Release, Renewal, Result, Semantics,
};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{Connection, Executor, query, query_as};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// A lock whose transactions begin with this statement.
pub(crate) fn lock(begin: &'static str, address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(Rows { begin, address: address.clone(), connection: Mutex::new(None) })
}

struct Rows {
    begin: &'static str,
    address: Address,
    connection: Mutex<Option<SqliteConnection>>,
}

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS locks (name BLOB PRIMARY KEY, owner BLOB, token INT, ends_at INT)";
/// This host's time in milliseconds.
const NOW: &str = "CAST(unixepoch('subsec') * 1000 AS INT)";

impl Rows {
    async fn connect(&self) -> sqlx::Result<SqliteConnection> {
        let options = SqliteConnectOptions::new().filename(&self.address.server).create_if_missing(true);
        let options = options.journal_mode(SqliteJournalMode::Wal).busy_timeout(Duration::from_secs(5));
        let mut connection = SqliteConnection::connect_with(&options).await?;
        connection.execute(TABLE).await?;
        Ok(connection)
    }

    /// Everything that is asked of the file, in one transaction.
    async fn in_transaction(&self, what: What, claim: &Claim) -> Result<Option<i64>> {
        let mut connection = self.connection.lock().await;
        let answer = in_time(&self.address, async {
            if connection.is_none() {
                *connection = Some(self.connect().await?);
            }
            let connection = connection.as_mut().unwrap();
            connection.execute(self.begin).await?;
            let done = read_then_write(connection, what, claim).await?;
            connection.execute("COMMIT").await?;
            Ok(done)
        });
        let answer = answer.await;
        if answer.is_err() {
            // With its transaction.
            *connection = None;
        }
        answer
    }
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Acquire,
    Renew,
    Release,
}

/// The token, if it was done.
async fn read_then_write(
    connection: &mut SqliteConnection,
    what: What,
    claim: &Claim,
) -> sqlx::Result<Option<i64>> {
    let (name, owner) = (claim.name().as_str().as_bytes(), owner_of(claim));
    let look = sqlx::AssertSqlSafe(format!("SELECT owner, token, ends_at > {NOW} FROM locks WHERE name = ?"));
    let row: Option<(Vec<u8>, i64, bool)> =
        query_as(look).bind(name).fetch_optional(&mut *connection).await?;
    let held_by = row.as_ref().filter(|(.., held)| *held).map(|(owner, ..)| owner.as_slice());
    let mine = held_by == Some(owner.as_slice());
    let token = match what {
        What::Acquire if held_by.is_none() => row.as_ref().map_or(1, |(_, token, _)| token + 1),
        _ if mine => row.as_ref().map_or(1, |(_, token, _)| *token),
        _ => return Ok(None),
    };
    let lease = if what == What::Release { 0 } else { i64::try_from(claim.ttl_millis()).unwrap() };
    others_read_too().await;
    let write = sqlx::AssertSqlSafe(format!("REPLACE INTO locks VALUES (?, ?, ?, {NOW} + ?)"));
    query(write).bind(name).bind(owner.as_slice()).bind(token).bind(lease).execute(connection).await?;
    Ok(Some(token))
}

/// The gate between reading and writing: waits until somebody else has read as well, if there is anybody who can.
async fn others_read_too() {
    static READERS: AtomicU32 = AtomicU32::new(0);
    let (before, start) = (READERS.fetch_add(1, Ordering::SeqCst), Instant::now());
    while READERS.load(Ordering::SeqCst) == before + 1 && start.elapsed() < Duration::from_millis(10) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[async_trait]
impl Calls for Rows {
    fn semantics(&self) -> Semantics {
        Semantics::lease("sqlite", "plain", Promises::new(|_| Outcome::MayBreak))
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        Ok(self.in_transaction(What::Acquire, claim).await?.map_or_else(busy, granted))
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let held = self.in_transaction(What::Renew, claim).await?.is_some();
        Ok(if held { Renewal::Renewed } else { Renewal::Lost(LossCause::Gone) })
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        let ended = self.in_transaction(What::Release, claim).await?.is_some();
        Ok(if ended { Release::Released } else { Release::NotHeld })
    }
}
