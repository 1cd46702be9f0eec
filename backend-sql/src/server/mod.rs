//! What the database servers have in common: where they are, connections, one statement with a deadline, and what its
//! failure means.
//!
//! | looking for | it is in |
//! |---|---|
//! | what a URL may say | `target/` |
//! | connections, and who may have the last one | `pool.rs` |
//! | whether a pooler is in between | `sessions.rs` |
//! | how `.sql` files become statements | `statement.rs` |
//! | what an error means for who asked | `failure.rs`, and for TLS `tls.rs` |
//! | whether a table is ours | `schema.rs` |
//! | what MySQL and PostgreSQL say differently | `dialect.rs`, and their folders beside this one |
//!
//! The driver cancels nothing on the server, knows no time limit of a statement, and does not set `TCP_NODELAY`. So a call
//! ends by our own deadline, after which its connection is closed and never used again; each session also has the
//! server's own time limits; and statements are few, fixed and never closed, because it is a message without an answer,
//! such as the closing of a statement, that makes the next one wait for the peer's delayed acknowledgement.

mod bell;
mod dialect;
#[cfg(all(test, feature = "postgres"))]
pub(crate) mod double;
mod failure;
mod pool;
mod schema;
mod semantics;
mod sessions;
mod statement;
mod target;
#[cfg(all(test, feature = "postgres"))]
mod tests;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use bell::{Bell, Ring};
pub(crate) use dialect::{Dialect, ForUpdate, Leases, Link, Meaning};
pub(crate) use failure::Doing;
pub(crate) use pool::{Connection, Lane};
pub(crate) use schema::{Found, Table};
pub(crate) use semantics::of_leases;
use sessions::Sessions;
pub(crate) use statement::{Answer, Batch, Kind, MOST, Statement, Value};
pub(crate) use target::{Encryption, Mode, TableName, Target};

use failure::{Failure, no_answer};
use leasehold_core::{Error, ErrorKind, Finding, Result};
use pool::Pool;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout, timeout_at};

/// A database on a server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    dialect: Arc<dyn Dialect>,
    target: Arc<Target>,
    pool: Arc<Pool>,
    /// The connections that are kept for as long as a lock is held.
    holding: Arc<Pool>,
    /// Set once the tables were found to be ours.
    checked: OnceCell<()>,
    /// What was found behind the connections.
    sessions: sessions::Look,
    tables: Vec<Table>,
}

/// How often a statement that was the victim of a deadlock is tried again, within its deadline. Two statements on one
/// row of one index cannot lock each other out; a third program's transaction can.
const DEADLOCKS: u32 = 8;

impl Server {
    /// The database at this target. `tables` are looked at before the first use.
    pub(crate) fn new(dialect: Arc<dyn Dialect>, target: Arc<Target>, tables: Vec<Table>) -> Self {
        let pool =
            |most, parameter| Arc::new(Pool::new(Arc::clone(&dialect), Arc::clone(&target), most, parameter));
        let (pool, holding) = (pool(target.connections, "connections"), pool(target.holds, "holds"));
        let (checked, sessions) = (OnceCell::new(), sessions::Look::default());
        Self { shared: Arc::new(Shared { dialect, target, pool, holding, checked, sessions, tables }) }
    }

    pub(crate) fn dialect(&self) -> &dyn Dialect {
        &*self.shared.dialect
    }

    pub(crate) fn target(&self) -> &Target {
        &self.shared.target
    }

    /// Runs one statement, in a transaction of its own.
    ///
    /// A statement on a connection that was idle and turns out to be dead is sent again on a new one: everything that is
    /// sent this way may be repeated, as the contract of backends wants it. Not so with [`Doing::Ending`], which after a
    /// success that was not heard of would find nothing to end.
    pub(crate) async fn ask(
        &self,
        lane: Lane,
        doing: Doing,
        statement: &Statement,
        values: &[Value],
    ) -> Result<Answer> {
        let mut connection = self.connection(lane).await?;
        // Not before there is a connection: what is sent is waited for.
        let deadline = Instant::now() + self.shared.target.timeout;
        let (mut repeated, mut deadlocks) = (false, 0);
        loop {
            let failed = match timeout_at(deadline, connection.link().ask(statement, values)).await {
                Ok(Ok(answer)) => {
                    connection.give_back();
                    return Ok(answer);
                }
                Ok(Err(error)) => error,
                Err(_) => {
                    connection.found_dead();
                    return Err(no_answer(doing, &self.shared.target));
                }
            };
            let pause = jitter(deadlocks + 1);
            match self.shared.dialect.meaning(&failed) {
                Meaning::Deadlock if deadlocks < DEADLOCKS && Instant::now() + pause < deadline => {
                    deadlocks += 1;
                    tokio::time::sleep(pause).await;
                }
                Meaning::Broken | Meaning::Ended
                    if connection.was_idle() && !repeated && doing != Doing::Ending =>
                {
                    repeated = true;
                    connection.found_dead();
                    connection = self.connection_to_repeat(lane, doing, deadline).await?;
                }
                // Somebody else has just made the row that was to be made, and may even have locked it: so it is there.
                Meaning::Duplicate | Meaning::Locked if doing == Doing::Making => {
                    connection.give_back();
                    return Ok(Answer::default());
                }
                Meaning::Broken | Meaning::Ended => {
                    connection.found_dead();
                    return Err(self.failure(failed, doing));
                }
                meaning => {
                    if meaning.leaves_the_connection_well() {
                        connection.give_back();
                    }
                    return Err(self.failure(failed, doing));
                }
            }
        }
    }

    /// Another connection, for what was sent on one that broke and may have been carried out.
    async fn connection_to_repeat(&self, lane: Lane, doing: Doing, deadline: Instant) -> Result<Connection> {
        match timeout_at(deadline, self.connection(lane)).await {
            // Whatever is in the way now, nothing is known of what was sent before.
            Ok(Err(error)) if failure::unknown_if(doing) == ErrorKind::Indeterminate => {
                Err(error.with_kind(ErrorKind::Indeterminate))
            }
            Ok(connection) => connection,
            Err(_) => Err(no_answer(doing, &self.shared.target)),
        }
    }

    /// Runs a statement without parameters, to end something; which may have ended by itself.
    pub(crate) async fn tell(&self, text: &str) -> Result<()> {
        let mut connection = self.connection(Lane::Asking).await?;
        match timeout(self.shared.target.timeout, connection.link().tell(text)).await {
            Ok(Ok(())) => {
                connection.give_back();
                Ok(())
            }
            Ok(Err(error)) if self.meaning(&error) == Meaning::NoConnection => {
                connection.give_back();
                Ok(())
            }
            Ok(Err(error)) => {
                if matches!(self.meaning(&error), Meaning::Broken | Meaning::Ended) {
                    connection.found_dead();
                }
                Err(self.failure(error, Doing::Ending))
            }
            Err(_) => {
                connection.found_dead();
                Err(no_answer(Doing::Ending, &self.shared.target))
            }
        }
    }

    /// True once the tables were found to be ours.
    pub(crate) fn is_checked(&self) -> bool {
        self.shared.checked.get().is_some()
    }

    /// A connection, on which the tables have been looked at.
    pub(crate) async fn connection(&self, lane: Lane) -> Result<Connection> {
        let mut connection = self.shared.pool.take(lane).await?;
        if self.shared.checked.get().is_none() {
            self.check_tables(&mut connection).await?;
            (connection, _) = self.check_sessions(connection).await?;
            self.check_server(&mut connection).await?;
            let _ = self.shared.checked.set(());
        } else if lane == Lane::Asking && self.shared.sessions.is_due() {
            (connection, _) = self.check_sessions(connection).await?;
        }
        Ok(connection)
    }

    /// A connection on which nothing has been looked at: to make the tables, and to look around.
    pub(crate) async fn unchecked_connection(&self) -> Result<Connection> {
        self.shared.pool.take(Lane::Asking).await
    }

    /// A connection to be kept for as long as a lock is held.
    pub(crate) async fn connection_to_hold(&self) -> Result<Connection> {
        self.shared.holding.take(Lane::Keeping).await
    }

    /// True if there is one without waiting, as it looks.
    pub(crate) fn has_connection_to_hold(&self) -> bool {
        self.shared.holding.has_room()
    }

    pub(crate) fn meaning(&self, error: &sqlx::Error) -> Meaning {
        self.shared.dialect.meaning(error)
    }

    pub(crate) fn no_answer(&self, doing: Doing) -> Error {
        no_answer(doing, &self.shared.target)
    }

    /// Makes the tables that are missing, and looks at those that are there.
    pub(crate) async fn init(&self, script: &str) -> Result<()> {
        let mut connection = self.unchecked_connection().await?;
        let mut asked = timeout(self.shared.target.timeout, connection.link().tell(script)).await;
        // Somebody else was making them, which IF NOT EXISTS sees only when it is done. By now it is.
        if let Ok(Err(error)) = &asked
            && self.meaning(error) == Meaning::Duplicate
        {
            asked = timeout(self.shared.target.timeout, connection.link().tell(script)).await;
        }
        match asked {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(failure::while_making(self.failure(error, Doing::Keeping))),
            Err(_) => return Err(no_answer(Doing::Keeping, &self.shared.target)),
        }
        self.check_tables(&mut connection).await?;
        connection.give_back();
        Ok(())
    }

    /// The statements that make the tables.
    pub(crate) fn schema(&self) -> String {
        let make = |table: &Table| table.schema.replace("{table}", &self.shared.dialect.quoted(&table.name));
        self.shared.tables.iter().map(make).collect::<Vec<_>>().join("\n")
    }

    /// Looks at the tables, and at the settings of the server.
    pub(crate) async fn check(&self) -> Result<Vec<Finding>> {
        let mut connection = self.unchecked_connection().await?;
        self.check_tables(&mut connection).await?;
        let (mut connection, sessions) = self.check_sessions(connection).await?;
        let check = self.shared.dialect.check(connection.link());
        let mut findings = match timeout(self.shared.target.timeout, check).await {
            Ok(findings) => findings.map_err(|error| self.failure(error, Doing::Looking))?,
            Err(_) => return Err(no_answer(Doing::Looking, &self.shared.target)),
        };
        connection.give_back();
        findings.extend(sessions.and_then(sessions::finding));
        Ok(findings)
    }

    /// Looks for a pooler, if it is not known yet whether there is one.
    ///
    /// By a task of its own: one looks for all, and a caller may keep the future and not poll it.
    async fn check_sessions(&self, mut connection: Connection) -> Result<(Connection, Option<Sessions>)> {
        let found = match self.shared.sessions.found() {
            Some(found) => Some(found),
            None => {
                let server = self.clone();
                let look = tokio::spawn(async move {
                    let found = server.shared.sessions.behind(&server, connection.link()).await;
                    (connection, found)
                });
                // As long as one look takes: others may be before this one.
                let within = self.target().connect_timeout + self.target().timeout;
                let looked = timeout(within, look).await.map_err(|_| self.no_answer(Doing::Looking))?;
                let (looked_by, found) = looked.map_err(not_looked)?;
                connection = looked_by;
                found?
            }
        };
        found.map_or(Ok(()), |found| sessions::check_mode(found, self.target()))?;
        Ok((connection, found))
    }

    /// Looks whether the server decides alone.
    async fn check_server(&self, connection: &mut Connection) -> Result<()> {
        let look = self.shared.dialect.refuses(connection.link());
        let refused = match timeout(self.shared.target.timeout, look).await {
            Ok(refused) => refused.map_err(|error| self.failure(error, Doing::Looking))?,
            Err(_) => return Err(no_answer(Doing::Looking, &self.shared.target)),
        };
        refused.map_or(Ok(()), Err)
    }

    async fn check_tables(&self, connection: &mut Connection) -> Result<()> {
        for table in &self.shared.tables {
            let look = self.shared.dialect.look_at(connection.link(), &table.name);
            let found = match timeout(self.shared.target.timeout, look).await {
                Ok(found) => found.map_err(|error| self.failure(error, Doing::Looking))?,
                Err(_) => return Err(no_answer(Doing::Looking, &self.shared.target)),
            };
            table.compare(found.as_ref())?;
        }
        Ok(())
    }

    /// The error for who asked for a statement.
    pub(crate) fn failure(&self, error: sqlx::Error, doing: Doing) -> Error {
        let meaning = self.shared.dialect.meaning(&error);
        Failure { meaning, doing, target: &self.shared.target }.of(error)
    }

    /// An answer that is none of ours.
    pub(crate) fn unreadable(&self) -> Error {
        let target = &self.shared.target;
        Error::new(
            ErrorKind::Misconfigured,
            format!("a row of {} does not read as one of ours", target.table),
        )
        .with_help("look at who else writes to the table")
    }

    pub(crate) async fn close(&self) {
        tokio::join!(self.shared.pool.close(), self.shared.holding.close());
    }
}

/// The runtime is at its end.
fn not_looked(error: JoinError) -> Error {
    Error::new(ErrorKind::Unavailable, "whether a pooler is in between was not found out").with_source(error)
}

/// So that two that were in each other's way are not so again at once.
fn jitter(tries: u32) -> Duration {
    let random = std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), tries);
    Duration::from_micros(random % 2_000) * tries
}
