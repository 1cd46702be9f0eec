//! A lease in a row of MariaDB, and what people get wrong in it.

use super::{NOW, connected, granted, hex, in_time, owner_of};
use crate::calls::{Calls, lock_of};
use crate::plain::busy;
use crate::subject::Address;
use async_trait::async_trait;
use leasehold_core::{
    Attempt, Claim, DistributedLock, LossCause, Outcome, Promises, Release, Renewal, Result, Semantics,
};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Executor, Row as _};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::Mutex;

/// The mistake of the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mistake {
    Nothing,
    /// #40: the row is the lock, and nobody but its holder deletes it.
    WithoutLease,
    /// #41: looks whether the row is free, and then takes it.
    LooksThenTakes,
    /// #44: *now* is the time on the clock of the client.
    ClientsClock,
    /// #45: *now* is the time of day in the time zone of the session.
    SessionsTimeZone,
    /// #46: names are text, and the collation finds different ones equal.
    NamesThatCollate,
    /// #47: the column is shorter than the names, and `IGNORE` ignores that as well.
    NamesCutShort,
    /// #52: a release deletes the row, and the count of tokens with it.
    ReleaseDeletes,
}

/// A lock with this mistake, and with the core's guard and keeper.
pub(crate) fn lock(mistake: Mistake, address: &Address) -> Arc<dyn DistributedLock> {
    lock_of(Rows { mistake, address: address.clone(), connection: Mutex::new(None) })
}

struct Rows {
    mistake: Mistake,
    address: Address,
    connection: Mutex<Option<MySqlConnection>>,
}

const TAKE: &str = "INSERT INTO {table} (name, owner, token, ends_at) VALUES ({name}, {owner}, 1, {end})
    ON DUPLICATE KEY UPDATE
        token   = IF(ends_at <= {now}, token + 1, token),
        owner   = IF(ends_at <= {now}, VALUES(owner), owner),
        ends_at = IF(owner = VALUES(owner), VALUES(ends_at), ends_at)";
const LOOK: &str = "SELECT owner, token, ends_at <= {now} FROM {table} WHERE name = {name}";
const INSERT: &str =
    "INSERT IGNORE INTO {table} (name, owner, token, ends_at) VALUES ({name}, {owner}, 1, {end})";
const OVERWRITE: &str =
    "UPDATE {table} SET owner = {owner}, token = token + 1, ends_at = {end} WHERE name = {name}";
const RENEW: &str = "UPDATE {table} SET ends_at = {end} WHERE owner = {owner} AND ends_at > {now}";
const END: &str = "UPDATE {table} SET ends_at = {past} WHERE owner = {owner} AND ends_at > {now}";
const DELETE: &str = "DELETE FROM {table} WHERE owner = {owner}";

impl Rows {
    async fn take(&self, claim: &Claim) -> Result<Attempt> {
        self.change(TAKE, claim).await?;
        let mine = owner_of(claim);
        let row = self.look(claim).await?.filter(|row| row.owner == mine);
        Ok(row.map_or_else(busy, |row| granted(row.token)))
    }

    async fn look_then_take(&self, claim: &Claim) -> Result<Attempt> {
        match self.look(claim).await? {
            Some(row) if row.is_over => {
                self.change(OVERWRITE, claim).await?;
                Ok(granted(row.token + 1))
            }
            Some(_) => Ok(busy()),
            None => self.insert(claim).await,
        }
    }

    async fn insert(&self, claim: &Claim) -> Result<Attempt> {
        let inserted = self.change(INSERT, claim).await? == 1;
        Ok(if inserted { granted(1) } else { busy() })
    }

    /// How many rows there were to change.
    async fn change(&self, statement: &str, claim: &Claim) -> Result<u64> {
        let statement = self.statement(statement, claim);
        let mut connection = self.connection.lock().await;
        let answer = in_time(&self.address, async {
            let connection = connected(&mut connection, &self.address).await?;
            Ok(connection.execute(AssertSqlSafe(statement)).await?.rows_affected())
        });
        let answer = answer.await;
        if answer.is_err() {
            *connection = None;
        }
        answer
    }

    async fn look(&self, claim: &Claim) -> Result<Option<Row>> {
        let statement = self.statement(LOOK, claim);
        let mut connection = self.connection.lock().await;
        let answer = in_time(&self.address, async {
            let connection = connected(&mut connection, &self.address).await?;
            let Some(row) = connection.fetch_optional(AssertSqlSafe(statement)).await? else {
                return Ok(None);
            };
            let is_over = row.try_get_unchecked::<i64, _>(2)? == 1;
            Ok(Some(Row { owner: row.try_get_unchecked(0)?, token: row.try_get_unchecked(1)?, is_over }))
        });
        let answer = answer.await;
        if answer.is_err() {
            *connection = None;
        }
        answer
    }

    fn statement(&self, statement: &str, claim: &Claim) -> String {
        let table = match self.mistake {
            Mistake::NamesThatCollate => "by_text",
            Mistake::NamesCutShort => "by_short_name",
            Mistake::SessionsTimeZone => "by_local_time",
            _ => "by_name",
        };
        let [now, end, past] = self.times(claim.ttl().as_micros());
        let statement = statement.replace("{table}", table).replace("{owner}", &hex(&owner_of(claim)));
        let statement = statement.replace("{name}", &self.name(claim)).replace("{now}", &now);
        statement.replace("{end}", &end).replace("{past}", &past)
    }

    fn name(&self, claim: &Claim) -> String {
        let name = hex(claim.name().as_str().as_bytes());
        if self.mistake == Mistake::NamesThatCollate { format!("_utf8mb4 {name}") } else { name }
    }

    /// What this lock takes for now, for the end of a lease that begins now, and for long ago.
    fn times(&self, lease: u128) -> [String; 3] {
        match self.mistake {
            Mistake::ClientsClock => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
                [now.to_string(), (now + lease).to_string(), "0".to_owned()]
            }
            Mistake::SessionsTimeZone => {
                let end = format!("NOW(6) + INTERVAL {lease} MICROSECOND");
                ["NOW(6)".to_owned(), end, "'2000-01-01'".to_owned()]
            }
            _ => [NOW.to_owned(), format!("{NOW} + {lease}"), "0".to_owned()],
        }
    }
}

struct Row {
    owner: Vec<u8>,
    token: i64,
    is_over: bool,
}

#[async_trait]
impl Calls for Rows {
    fn semantics(&self) -> Semantics {
        Semantics::lease("mariadb", "plain", Promises::new(|_| Outcome::MayBreak))
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        match self.mistake {
            Mistake::WithoutLease | Mistake::NamesCutShort => self.insert(claim).await,
            Mistake::LooksThenTakes => self.look_then_take(claim).await,
            _ => self.take(claim).await,
        }
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let held = self.change(RENEW, claim).await? == 1;
        Ok(if held { Renewal::Renewed } else { Renewal::Lost(LossCause::Gone) })
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        let end = match self.mistake {
            Mistake::WithoutLease | Mistake::NamesCutShort | Mistake::ReleaseDeletes => DELETE,
            _ => END,
        };
        let ended = self.change(end, claim).await? == 1;
        Ok(if ended { Release::Released } else { Release::NotHeld })
    }
}
