//! What the databases say differently.

use super::{Answer, Bell, Statement, TableName, Value};
use async_trait::async_trait;
use leasehold_core::{Error, ErrorKind, Finding, Result};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A database system: how it is connected to, and how it speaks.
#[async_trait]
pub(crate) trait Dialect: fmt::Debug + Send + Sync {
    /// A new connection, set up for us.
    async fn connect(&self) -> sqlx::Result<Box<dyn Link>>;

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

    /// What tells waiters that a lease was given up, if the database can.
    fn bell(&self) -> Option<Arc<dyn Bell>>;

    /// The table of leases: one row per name that says who holds it.
    fn lease_table(&self, name: TableName) -> Table;

    /// How locks are held by transactions.
    fn for_update(&self) -> ForUpdate;

    /// The tables of locks that are held by transactions: who holds them, and the rows that are locked.
    fn for_update_tables(&self, holders: TableName, rows: TableName) -> [Table; 2];

    /// What begins a transaction that the server ends when nothing was said in it for `idle`.
    fn begin(&self, idle: Duration) -> String;

    /// What ends the connection of this number, if it is ours.
    fn end_connection(&self, number: i64) -> String;

    /// What is there under this name; `None` if nothing, or nothing that we may see.
    async fn look_at(&self, link: &mut dyn Link, table: &TableName) -> sqlx::Result<Option<Found>>;

    /// Two statements, of different texts and one meaning, that answer the server's number of a session; `None` where
    /// what is in between may answer in the server's place.
    fn session_number(&self) -> Option<[&'static str; 2]>;

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
    /// Looks at the rows of names that are waited for.
    pub(crate) watch: &'static str,
    /// Says that somebody waits; where there is a bell.
    pub(crate) want: Option<&'static str>,
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

/// What an error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The connection is gone or cannot be trusted any more, and nobody knows what became of the statement.
    Broken,
    /// The server ended the connection; what became of the statement is not known.
    Ended,
    /// Nobody answers, or nobody is let in.
    Unreachable,
    /// The server could not show that it is the server, or will not encrypt.
    Unproven,
    /// The password may not be sent as the connection is.
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "a matter of MySQL's passwords"))]
    PasswordInTheClear,
    /// The server talks by TLS, and this connection does not.
    #[cfg_attr(
        not(feature = "mysql"),
        expect(dead_code, reason = "PostgreSQL says no more than that it refuses")
    )]
    TlsOnly,
    /// Two waited for each other, and this one was rolled back.
    Deadlock,
    /// Somebody else has the row locked.
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
    /// The server has no room: connections, memory, disk.
    Exhausted(&'static str),
    /// The table is not there.
    NoTable,
    /// A statement was prepared in another session than the one it was sent to.
    Pooled,
    /// The database is not there.
    NoDatabase,
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

/// A table as it must be.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: TableName,
    /// The statement that makes it.
    pub(crate) schema: &'static str,
    /// What [`look_at`](Dialect::look_at) is to find then.
    pub(crate) columns: &'static [(&'static str, &'static str)],
}

/// What is there under a name.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// What is wrong with the thing itself, such as an engine without transactions.
    pub(crate) fault: Option<String>,
    pub(crate) columns: Vec<Column>,
    /// The names of the columns of its primary key, in their order.
    pub(crate) primary_key: Vec<String>,
}

/// A column, in the database's own words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
}

impl Table {
    /// Compares it with what is there. The first difference is the error.
    pub(crate) fn compare(&self, found: Option<&Found>) -> Result<()> {
        let Some(found) = found else {
            return Err(missing_table(&self.name));
        };
        if let Some(fault) = &found.fault {
            return Err(self.differs(fault));
        }
        if found.primary_key != ["name"] {
            let key = found.primary_key.join(", ");
            return Err(self.differs(&format_args!("its primary key is ({key}) and should be (name)")));
        }
        for (name, kind) in self.columns {
            match found.columns.iter().find(|column| column.name == *name) {
                None => return Err(self.differs(&format_args!("it has no column {name}"))),
                Some(column) if column.kind != *kind => {
                    let difference =
                        format_args!("its column {name} is {} and should be {kind}", column.kind);
                    return Err(self.differs(&difference));
                }
                Some(_) => {}
            }
        }
        let known = |column: &&Column| self.columns.iter().any(|(name, _)| *name == column.name);
        match found.columns.iter().find(|column| !known(column)) {
            Some(column) => Err(self.differs(&format_args!("it has a column too many, {}", column.name))),
            None => Ok(()),
        }
    }

    fn differs(&self, difference: &dyn fmt::Display) -> Error {
        Error::new(ErrorKind::Misconfigured, format!("the table {} is not ours: {difference}", self.name))
            .with_help("name another one with table=NAME; this one was left as it is")
    }
}

/// What a table that is not there, or must not be seen, is to who asks.
pub(super) fn missing_table(table: &TableName) -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        format!("there is no table {table}, or these credentials may not use it"),
    )
    .with_help(
        "make it with `leasehold init`, or have the statements of `leasehold init --print` run for you",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[(&str, &str)] = &[("name", "bytea not null"), ("token", "bigint not null")];

    fn found(columns: &[(&str, &str)]) -> Found {
        let column = |(name, kind): &(&str, &str)| Column { name: (*name).into(), kind: (*kind).into() };
        Found {
            columns: columns.iter().map(column).collect(),
            primary_key: vec!["name".to_owned()],
            fault: None,
        }
    }

    fn difference(found: &Found) -> String {
        let table = Table { name: TableName::default(), schema: "", columns: COLUMNS };
        table.compare(Some(found)).map_or_else(|error| error.to_string(), |()| "none".to_owned())
    }

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(difference(&found(COLUMNS)), "none");
        let short = found(&[("name", "character varying(64) not null"), ("token", "bigint not null")]);
        assert!(
            difference(&short)
                .ends_with("its column name is character varying(64) not null and should be bytea not null")
        );
        assert!(difference(&found(&COLUMNS[..1])).ends_with("it has no column token"));
        let more = found(&[COLUMNS[0], COLUMNS[1], ("more", "text")]);
        assert!(difference(&more).ends_with("it has a column too many, more"));
        let mut keyless = found(COLUMNS);
        keyless.primary_key.clear();
        assert!(difference(&keyless).contains("its primary key is ()"));
        let mut engine = found(COLUMNS);
        engine.fault = Some("its engine is MyISAM".to_owned());
        assert!(difference(&engine).ends_with("its engine is MyISAM"));
    }

    #[test]
    fn what_is_not_there_says_how_to_make_it() {
        let table = Table { name: TableName::default(), schema: "", columns: COLUMNS };
        let error = table.compare(None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.help().is_some_and(|help| help.contains("leasehold init")));
    }
}
