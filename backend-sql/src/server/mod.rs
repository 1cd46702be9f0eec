//! What the database servers have in common: where they are, connections, one statement with a deadline, and its failure.
//!
//! | looking for | it is in |
//! |---|---|
//! | what a URL may say | `target/` |
//! | connections, and who may have the last one | `pool.rs` |
//! | when an idle connection is kept | `headroom.rs` |
//! | one statement, and what is known of it afterwards | `execute.rs` |
//! | whether the tables are there, and the server decides alone | `preflight.rs` |
//! | whether a pooler is in between | `sessions.rs` |
//! | how `.sql` files become statements | `statement.rs`; values and answers: `value.rs` |
//! | what an error means for the caller | `failure.rs`, and for TLS `tls.rs` |
//! | whether a table is ours | `schema.rs` |
//! | what MySQL and PostgreSQL say differently | `dialect.rs`, `texts.rs`, and their folders beside this one |
//!
//! The driver cancels nothing on the server, knows no time limit of a statement, and does not set `TCP_NODELAY`. So a call
//! ends by our own deadline, after which its connection is closed and never used again; each session also has the
//! server's own time limits; and statements are few, fixed and never closed, because it is a message without an answer,
//! such as the closing of a statement, that makes the next one wait for the peer's delayed acknowledgement.

mod dialect;
mod execute;
mod failure;
mod headroom;
mod pool;
mod preflight;
mod schema;
mod sessions;
mod statement;
mod target;
#[cfg(all(test, feature = "postgres"))]
mod tests;
mod texts;
#[cfg(feature = "tls")]
mod tls;
mod value;

#[cfg(feature = "postgres")]
pub(crate) use dialect::Releases;
pub(crate) use dialect::{Dialect, ErrorClass, RawConnection};
pub(crate) use failure::{StatementKind, name_the_right, read_only};
pub(crate) use pool::{PoolClass, PooledConnection};
pub(crate) use schema::{ExpectedTable, Layout};
use sessions::Sessions;
pub(crate) use statement::{ListStatement, MAX_CLAIMS, Statement};
pub(crate) use target::{Mode, SslMode, Target};
#[cfg(all(test, feature = "postgres"))]
pub(crate) use tests::double;
pub(crate) use texts::Texts;
pub(crate) use value::{Answer, ColumnType, Value};

use leasehold_core::{Error, Result};
use pool::Pool;
use std::sync::Arc;
use tokio::sync::OnceCell;
use tokio::time::timeout;

#[derive(Clone, Debug)]
pub(crate) struct Server {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    dialect: Arc<dyn Dialect>,
    pool: Arc<Pool>,
    /// Set once the tables were found to be ours.
    checked: OnceCell<()>,
    session_check: sessions::SessionCheck,
    tables: Vec<ExpectedTable>,
}

impl Server {
    /// The database of this dialect. Its tables are looked at before the first use.
    pub(crate) fn new(dialect: Arc<dyn Dialect>) -> Self {
        let (tables, pool) = (dialect.tables(), Arc::new(Pool::new(Arc::clone(&dialect))));
        let (checked, session_check) = (OnceCell::new(), sessions::SessionCheck::default());
        Self { inner: Arc::new(Inner { dialect, pool, checked, session_check, tables }) }
    }

    pub(crate) fn dialect(&self) -> &dyn Dialect {
        &*self.inner.dialect
    }

    pub(crate) fn target(&self) -> &Target {
        self.dialect().target()
    }

    /// A connection, on which the tables have been looked at.
    pub(crate) async fn connection(&self, class: PoolClass) -> Result<PooledConnection> {
        let mut connection = self.inner.pool.take(class).await?;
        if self.inner.checked.get().is_none() {
            self.check_tables(&mut connection).await?;
            (connection, _) = self.check_sessions(connection).await?;
            self.check_server(&mut connection).await?;
            let _ = self.inner.checked.set(());
        } else if class == PoolClass::Attempt && self.inner.session_check.is_due() {
            (connection, _) = self.check_sessions(connection).await?;
        }
        Ok(connection)
    }

    /// A connection to be kept for as long as a lock is held. It is opened only beside one for statements: a lock that nobody
    /// can enter as held would keep others out for nothing.
    pub(crate) async fn connection_to_hold(&self) -> Result<PooledConnection> {
        let permits = self.inner.pool.permits(PoolClass::Hold).await?;
        let for_statements = self.connection(PoolClass::Attempt).await?;
        let connection = self.inner.pool.open(permits, PoolClass::Hold).await;
        for_statements.give_back();
        connection
    }

    /// True if there is one without waiting, as it looks.
    pub(crate) fn has_connection_to_hold(&self) -> bool {
        self.inner.pool.holds.available_permits() > 0
    }

    /// Waits for an answer as long as a statement may take.
    pub(crate) async fn in_time<T>(
        &self,
        kind: StatementKind,
        answer: impl Future<Output = sqlx::Result<T>>,
    ) -> Result<sqlx::Result<T>> {
        timeout(self.target().timeout, answer).await.map_err(|_| self.no_answer(kind))
    }

    /// The server said nothing in time. The connection is closed; the server may still finish the statement.
    pub(crate) fn no_answer(&self, kind: StatementKind) -> Error {
        let message =
            format!("{} did not answer within {:?}", self.target().address(), self.target().timeout);
        Error::new(failure::unknown_if(kind), message)
            .with_help("look at the server's load and at the network; or lengthen timeout")
    }

    pub(crate) fn failure(&self, error: sqlx::Error, kind: StatementKind) -> Error {
        let class = self.dialect().error_class(&error);
        failure::failure(error, class, kind, self.target())
    }

    /// Fails if the server takes no writes, and says so to no user who may write all the same: that a statement of such a user changed no
    /// row means nothing then.
    pub(crate) async fn must_take_writes(&self) -> Result<()> {
        if self.dialect().texts().refuses_all_writes { Ok(()) } else { self.check_writes().await }
    }

    /// Fails if the server takes no writes: a replica may be behind, and has no row locked.
    pub(crate) async fn check_writes(&self) -> Result<()> {
        let texts = self.dialect().texts();
        let question = Statement::new(texts.takes_writes, texts, &self.target().table);
        let answer = self.read(PoolClass::Renewal, &question, &[]).await?;
        if answer.is_one() { Ok(()) } else { Err(read_only(self.target())) }
    }

    /// An answer that is none of ours.
    pub(crate) fn unreadable(&self) -> Error {
        self.failure(sqlx::Error::Decode("another value was expected".into()), StatementKind::Read)
    }

    pub(crate) async fn close(&self) {
        self.inner.pool.close().await;
    }
}
