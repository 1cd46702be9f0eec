//! The differences between the databases.

use super::schema::Layout;
use super::{Answer, Statement, Target, Value};
use crate::names::TableName;
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
    async fn log_in(&self) -> sqlx::Result<Box<dyn Link>>;

    /// The statements that set up a new connection.
    fn session(&self) -> String;

    /// A new connection, set up for us.
    async fn connect(&self) -> sqlx::Result<Box<dyn Link>> {
        let mut link = self.log_in().await?;
        link.tell(&self.session()).await?;
        Ok(link)
    }

    /// A connection in addition to one in hand. A pooler without a free session lets a client in, and then lets it wait: it is
    /// not waited for here, since others may wait for the one in hand.
    async fn connect_beside(&self) -> sqlx::Result<Box<dyn Link>> {
        let start = Instant::now();
        let mut link = self.log_in().await?;
        // A login takes a server several round trips, and an answer takes it one.
        let within = ANSWERS_WITHIN.max(start.elapsed() * 2);
        match timeout(within, link.tell(&self.session())).await {
            Ok(set_up) => set_up.map(|()| link),
            Err(_) => Err(sqlx::Error::PoolTimedOut),
        }
    }

    /// The class of a driver's error.
    fn error_class(&self, error: &sqlx::Error) -> ErrorClass;

    /// Receives the messages of releases on a new connection; `None` if the database sends none.
    async fn listen(&self) -> Option<sqlx::Result<Releases>> {
        None
    }

    /// Begins a transaction that the server ends when nothing was sent in it for `idle`.
    fn begin(&self, idle: Duration) -> String;

    /// Each connection was found to be a session of its own. Until then nothing may be left in a session that another client
    /// could meet there.
    fn sessions_are_own(&self) {}

    /// A statement that answers `ON` or 1 if the server is one of several that do not know of each other's grants, and the
    /// refusal of such a server.
    fn other_writers(&self) -> Option<(&'static str, Error)> {
        None
    }

    /// Settings that weaken the promises. `setting` looks one up in the answer to [`settings`](Texts::settings).
    fn findings(&self, setting: &dyn Fn(&str) -> String) -> Vec<Finding>;
}

/// The texts of a database. Each statement is in a file of its own.
#[derive(Debug)]
pub(crate) struct Texts {
    /// The server's clock in microseconds since 1970, as an expression: UTC whatever the session's time zone, and not
    /// frozen while a statement waits for a lock.
    pub(crate) now: &'static str,
    /// The character around the name of a table.
    pub(crate) quote: char,
    /// True if parameters are written `$1`; otherwise they are written `?`.
    pub(crate) numbers_parameters: bool,
    /// Answers what is wrong with a table, such as an engine without transactions; no row if it is not there.
    pub(crate) table: &'static str,
    /// Answers the name, the kind and the part in the primary key of each column of a table.
    pub(crate) columns: &'static str,
    /// Answers settings and their values.
    pub(crate) settings: &'static str,
    /// Answers the server's number of a session; `None` where a pooler may answer in the server's place.
    pub(crate) session_number: Option<&'static str>,
    pub(crate) leases: Leases,
    pub(crate) for_update: ForUpdate,
}

impl Texts {
    /// The name of a table as it stands in a statement.
    pub(crate) fn quoted(&self, table: &TableName) -> String {
        let quote = self.quote;
        format!("{quote}{table}{quote}")
    }
}

/// The statements of leases in which the databases differ. Each file says what it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leases {
    pub(crate) layout: Layout,
    pub(crate) acquire: &'static str,
    pub(crate) release: &'static str,
    pub(crate) end_grant: &'static str,
    pub(crate) make_row: &'static str,
    pub(crate) poll: &'static str,
    pub(crate) replace: &'static str,
    /// True if the release of a row that was polled sends a message.
    pub(crate) sends_messages: bool,
}

/// The statements by which transactions hold locks. Each file says what it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForUpdate {
    /// The table of the holders.
    pub(crate) holders: Layout,
    /// The table of the rows that are locked.
    pub(crate) rows: Layout,
    pub(crate) make_row: &'static str,
    /// With `{lock}` for the kind of lock, and `{nowait}` for the word that lets it fail at once.
    pub(crate) lock: &'static str,
    /// The kind of lock of a reader.
    pub(crate) for_share: &'static str,
    pub(crate) enter: &'static str,
    pub(crate) enter_shared: &'static str,
    pub(crate) mark: &'static str,
    pub(crate) remove_sharer: &'static str,
    pub(crate) in_transaction: &'static str,
    pub(crate) end_connection: &'static str,
    pub(crate) keep_alive: &'static str,
    /// True if a server that was replaced by another keeps its connections, and their locks count no more. So a hold is asked
    /// whether its lock counts before it is said to have been given back.
    pub(crate) keep_alive_before_end: bool,
    /// `None` where `end_connection` itself tells whether the connection is still the one that was meant.
    pub(crate) is_of_this_run: Option<&'static str>,
}

/// One connection.
#[async_trait]
pub(crate) trait Link: fmt::Debug + Send {
    /// Runs a statement that was prepared, in one round trip after its first use.
    async fn ask(&mut self, statement: &Statement, values: &[Value]) -> sqlx::Result<Answer>;

    /// Runs statements without parameters, in one round trip.
    async fn tell(&mut self, text: &str) -> sqlx::Result<()>;

    /// Says goodbye.
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
    /// No server answers, or it accepts no connection.
    Unreachable,
    /// The server could not show that it is the server, or will not encrypt.
    Unproven,
    /// The password may not be sent as the connection is.
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "a matter of MySQL's passwords"))]
    PasswordInTheClear,
    /// The server talks by TLS, and this connection does not.
    TlsOnly,
    /// Two transactions waited for each other, and this one was rolled back.
    Deadlock,
    /// Another transaction has the row locked.
    Locked,
    /// The statement took too long for the server, and was rolled back.
    TooSlow,
    /// There is such a row already.
    Duplicate,
    /// These credentials do not open a session.
    NotLetIn,
    /// These credentials do not do for this.
    Denied,
    /// The server takes no writes.
    ReadOnly,
    /// The server's log has statements in it, and this one must not be among them.
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "a log of MySQL's"))]
    LogOfStatements,
    /// The server has no room: connections, memory, disk.
    Exhausted(&'static str),
    /// The table is not there.
    NoTable,
    /// A statement was prepared in another session than the one it was sent to.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "poolers of PostgreSQL do that"))]
    Pooled,
    /// The database is not there.
    NoDatabase,
    /// The connection that was to be ended is not there.
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "an answer to KILL"))]
    NoConnection,
    /// The server does not know the statement, or anything else.
    Refused,
    /// The answer is not what a table of ours answers.
    Unreadable,
}

impl ErrorClass {
    /// The class of an error that does not come from the server.
    pub(crate) fn of_the_driver(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Tls(_) | sqlx::Error::Configuration(_) => Self::Unproven,
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
