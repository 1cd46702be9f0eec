//! The differences between the databases.

use super::schema::ExpectedTable;
use super::{Answer, Mode, Statement, Target, Texts, Value};
use async_trait::async_trait;
use futures_util::stream::BoxStream;
use leasehold_core::{Error, Finding};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The least time in which a server answers the first statement on a connection.
const ANSWERS_WITHIN: Duration = Duration::from_millis(250);

/// A database system: how to connect to it, and its texts.
#[async_trait]
pub(crate) trait Dialect: fmt::Debug + Send + Sync {
    fn texts(&self) -> &'static Texts;

    fn target(&self) -> &Arc<Target>;

    /// A new connection, on which nothing was sent.
    async fn log_in(&self) -> sqlx::Result<Box<dyn RawConnection>>;

    /// Sets a new connection up, and answers what its server says it is; `None` if it does not say so, to these credentials.
    async fn set_up(&self, connection: &mut dyn RawConnection) -> sqlx::Result<Option<String>>;

    async fn connect(&self) -> sqlx::Result<Box<dyn RawConnection>> {
        let mut connection = self.log_in().await?;
        self.target().note_server(self.set_up(&mut *connection).await?);
        Ok(connection)
    }

    /// A connection in addition to one in hand. A pooler without a free session lets a client in, and then lets it wait: it is
    /// not waited for here, since others may wait for the one in hand.
    async fn connect_beside(&self) -> sqlx::Result<Box<dyn RawConnection>> {
        let start = Instant::now();
        let mut connection = self.log_in().await?;
        // A login takes a server more round trips than setting up.
        let within = ANSWERS_WITHIN.max(start.elapsed() * 2);
        let set_up = timeout(within, self.set_up(&mut *connection)).await;
        self.target().note_server(set_up.map_err(|_| sqlx::Error::PoolTimedOut)??);
        Ok(connection)
    }

    /// A connection more, if the server has one to spare. The caller closes it at once: no call waits while it is open.
    async fn connect_spare(&self) -> Option<Box<dyn RawConnection>> {
        let target = self.target();
        let connected = timeout(target.connect_timeout, self.connect_beside()).await;
        let spare = connected.ok().and_then(Result::ok);
        match spare {
            Some(_) => target.headroom.found_spare(),
            None => target.headroom.refused(),
        }
        spare
    }

    fn tables(&self) -> Vec<ExpectedTable> {
        let (target, texts) = (self.target(), self.texts());
        let table = |name, layout| ExpectedTable { name, layout };
        match target.mode {
            Mode::Lease | Mode::Optimistic => vec![table(target.table.clone(), &texts.lease_table)],
            Mode::ForUpdate => vec![
                table(target.table.clone(), &texts.holder_table),
                table(target.table.of_rows(), &texts.row_table),
            ],
        }
    }

    fn error_class(&self, error: &sqlx::Error) -> ErrorClass;

    /// Receives the messages of releases on a new connection; `None` if the database sends none.
    async fn listen(&self) -> Option<sqlx::Result<Releases>> {
        None
    }

    /// Begins a transaction that the server ends when nothing was sent in it for `idle`.
    fn begin(&self, idle: Duration) -> String;

    /// Each connection was found to be a session of its own. Until then nothing may be left in one: another client could meet it.
    fn sessions_are_own(&self) {}

    /// Answers `ON` or 1 on one of several servers that do not know of each other's grants; and the refusal of such a server.
    fn other_writers(&self) -> Option<(&'static str, Error)> {
        None
    }

    /// Settings that weaken the promises. `setting` looks one up in the answer to [`settings`](Texts::settings).
    fn findings(&self, setting: &dyn Fn(&str) -> String) -> Vec<Finding>;
}

#[async_trait]
pub(crate) trait RawConnection: fmt::Debug + Send {
    /// Runs a statement that was prepared, in one round trip after its first use.
    async fn ask(&mut self, statement: &Statement, values: &[Value]) -> sqlx::Result<Answer>;

    /// Runs statements without parameters, of which nothing is left in the session: the values of the first row, as text.
    async fn first_row(&mut self, question: &str) -> sqlx::Result<Vec<Option<String>>>;

    /// Runs statements without parameters, in one round trip.
    async fn tell(&mut self, text: &str) -> sqlx::Result<()> {
        self.first_row(text).await.map(drop)
    }

    async fn close(self: Box<Self>);
}

/// The name, as it is stored, of each lock that was released; `None` if the server still answers after a time without a name. A
/// message is a hint: any of them may be lost.
pub(crate) type Releases = BoxStream<'static, sqlx::Result<Option<Vec<u8>>>>;

/// What an error of a statement means for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// The connection is gone or cannot be trusted any more; the outcome of the statement is unknown.
    Broken,
    /// The server ended the connection; the outcome of the statement is unknown.
    Ended,
    Unreachable,
    /// The password may not be sent as the connection is.
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "a matter of MySQL's passwords"))]
    PasswordInTheClear,
    /// Two transactions waited for each other, and this one was rolled back.
    Deadlock,
    Locked,
    /// The statement took too long for the server, and was rolled back.
    TooSlow,
    Duplicate,
    /// These credentials do not open a session, or not as the connection is.
    NotLetIn,
    Denied,
    ReadOnly,
    /// The row is free, and no larger token is left for it.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "an error of PostgreSQL alone"))]
    TokensUsedUp,
    /// The server has no room: connections, memory, disk.
    Exhausted(&'static str),
    NoTable,
    /// The schema is not there, of the URL or of the `search_path`.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "known of PostgreSQL alone"))]
    NoSchema,
    /// A setting of the server, of a role or of a pooler is in the way: which, and what to do.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "known of PostgreSQL alone"))]
    Setting(&'static str, &'static str),
    /// The connection that was to be ended is not there.
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "an answer to KILL"))]
    NoConnection,
    /// The server or the driver does not go on, for a cause that its own message names best.
    Refused,
    Unreadable,
}

impl ErrorClass {
    /// The class of an error that does not come from the server.
    pub(crate) fn of_the_driver(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => Self::Broken,
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::ColumnIndexOutOfBounds { .. } => Self::Unreadable,
            // A pooler has let the client in, and has no session to lend.
            sqlx::Error::PoolTimedOut => Self::Exhausted("connections"),
            _ => Self::Refused,
        }
    }
}
