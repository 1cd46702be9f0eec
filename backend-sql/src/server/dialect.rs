//! The differences between the databases.

use super::{Answer, Found, Statement, Table, TableName, Value};
use async_trait::async_trait;
use leasehold_core::{Error, FencingToken, Finding};
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The least time in which a server answers the first that is said on a connection.
const ANSWERS_WITHIN: Duration = Duration::from_millis(250);

/// A database system: how it is connected to, and how it speaks.
#[async_trait]
pub(crate) trait Dialect: fmt::Debug + Send + Sync {
    /// A new connection, on which nothing was said.
    async fn log_in(&self) -> sqlx::Result<Box<dyn Link>>;

    /// What sets up a new connection for us.
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
        // To let somebody in takes a server several round trips, and to answer takes it one.
        let within = ANSWERS_WITHIN.max(start.elapsed() * 2);
        match timeout(within, link.tell(&self.session())).await {
            Ok(set_up) => set_up.map(|()| link),
            Err(_) => Err(sqlx::Error::PoolTimedOut),
        }
    }

    /// What its error means.
    fn meaning(&self, error: &sqlx::Error) -> Meaning;

    /// The server's clock in microseconds since 1970, as an expression: UTC whatever the session's time zone, and not
    /// frozen while a statement waits for a lock.
    fn now(&self) -> &'static str;

    /// The parameter of this number, from 1 on, in a statement.
    fn parameter(&self, number: usize) -> String;

    /// True if a parameter may stand at several places in a statement and is sent once.
    fn parameters_have_numbers(&self) -> bool;

    /// A name as it stands in a statement.
    fn quoted(&self, table: &TableName) -> String;

    /// The statements of leases in which the databases differ.
    fn leases(&self) -> Leases;

    /// A new connection on which the messages of releases are received; `None` if the database sends none.
    async fn listen(&self) -> Option<sqlx::Result<Box<dyn ReleaseListener>>>;

    /// The table of leases: one row per name that says who holds it.
    fn lease_table(&self, name: TableName) -> Table;

    /// How locks are held by transactions.
    fn for_update(&self) -> ForUpdate;

    /// The tables of locks that are held by transactions: who holds them, and the rows that are locked.
    fn for_update_tables(&self, holders: TableName, rows: TableName) -> [Table; 2];

    /// What begins a transaction that the server ends when nothing was said in it for `idle`.
    fn begin(&self, idle: Duration) -> String;

    /// What ends the connection of this number, if it is ours; where the server can tell, only during the transaction
    /// that was under way when this token was given: the connection may hold another lock by now.
    fn end_connection(&self, number: i64, token: FencingToken) -> String;

    /// What is there under this name; `None` if nothing, or nothing that we may see.
    async fn look_at(&self, link: &mut dyn Link, table: &TableName) -> sqlx::Result<Option<Found>>;

    /// A statement that answers the server's number of a session; `None` where what is in between may answer in the server's
    /// place.
    fn session_number(&self) -> Option<&'static str>;

    /// Each connection was found to be a session of its own. Until then nothing may be left in a session that another client
    /// could meet there.
    fn sessions_are_own(&self) {}

    /// Why no lock may be granted by this server, if it is one of several that do not know of each other's grants.
    async fn refuses(&self, link: &mut dyn Link) -> sqlx::Result<Option<Error>> {
        let _ = link;
        Ok(None)
    }

    /// Looks for settings that weaken what is promised.
    async fn check(&self, link: &mut dyn Link) -> sqlx::Result<Vec<Finding>>;
}

/// The statements of leases, each in a file of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leases {
    /// Grants a row, and answers its token.
    pub(crate) acquire: &'static str,
    /// Ends the lease of an owner.
    pub(crate) release: &'static str,
    /// Ends one grant, whoever holds it.
    pub(crate) end_grant: &'static str,
    /// Makes a row that nobody holds.
    pub(crate) make_row: &'static str,
    /// Reads the rows of names that are waited for.
    pub(crate) poll: &'static str,
    /// Changes the readers of a row that is as it was read.
    pub(crate) replace: &'static str,
    /// True if the release of a row that was polled sends a message.
    pub(crate) sends_messages: bool,
}

/// The statements by which transactions hold locks, each in a file of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForUpdate {
    /// Makes the row of a name if there is none.
    pub(crate) make_row: &'static str,
    /// Locks the row, or fails at once.
    pub(crate) lock_now: &'static str,
    /// Locks the row, and waits for it for a while.
    pub(crate) lock: &'static str,
    /// Enters the holder, and answers a new token.
    pub(crate) enter: &'static str,
    /// Lets the server not take the transaction for idle, and answers 1 if its locks still count.
    pub(crate) beat: &'static str,
    /// True if a server that was replaced by another keeps its connections, and their locks count no more. So a hold is asked
    /// whether its lock counts before it is said to have been given back.
    pub(crate) beat_before_the_end: bool,
    /// Whether an entry was made since the server has started; where nothing else tells whose connection it names.
    pub(crate) is_of_this_run: Option<&'static str>,
}

/// One connection.
#[async_trait]
pub(crate) trait Link: Send {
    /// Runs a statement that was prepared, in one round trip after its first use.
    async fn ask(&mut self, statement: &Statement, values: &[Value]) -> sqlx::Result<Answer>;

    /// Runs statements without parameters, in one round trip.
    async fn tell(&mut self, text: &str) -> sqlx::Result<()>;

    /// Says goodbye.
    async fn close(self: Box<Self>);
}

/// Receives the messages of releases. A message is a hint: any of them may be lost.
#[async_trait]
pub(crate) trait ReleaseListener: Send {
    /// The name, as it is stored, of the next lock that was released. Safe to drop at any time.
    async fn next(&mut self) -> sqlx::Result<Vec<u8>>;

    /// Tests whether the server answers.
    async fn ping(&mut self) -> sqlx::Result<()>;
}

/// What an error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The connection is gone or cannot be trusted any more, and nobody knows what became of the statement.
    Broken,
    /// The server ended the connection; what became of the statement is not known.
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
    NoConnection,
    /// The server does not know the statement, or anything else.
    Refused,
    /// The answer is not what a table of ours answers.
    Unreadable,
}

impl Meaning {
    /// True if the statement failed and the connection is as good as before.
    pub(crate) fn leaves_the_connection_well(self) -> bool {
        matches!(self, Self::Deadlock | Self::Locked | Self::TooSlow | Self::Duplicate)
    }
}
