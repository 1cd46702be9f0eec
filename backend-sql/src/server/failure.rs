//! What a failed statement means for its caller.

use super::schema::missing_table;
use super::{ErrorClass, Target};
use leasehold_core::{Error, ErrorKind};
use std::fmt;

/// The kind of a statement. A failure leaves open whether a write was applied, never whether a read was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementKind {
    Read,
    /// A write that may be repeated: a grant, a renewal.
    Write,
    /// Makes a row, unless it exists.
    MakeRow,
    /// Ends something, and may not be repeated.
    End,
}

pub(super) fn failure(
    error: sqlx::Error,
    class: ErrorClass,
    statement: StatementKind,
    target: &Target,
) -> Error {
    #[cfg(feature = "tls")]
    if let Some(explained) = super::tls::explain(&error, target) {
        return explained.with_source(error);
    }
    let error = Cause::from(error);
    let (address, table) = (target.address(), &target.table);
    let (kind, message, help) = match class {
        ErrorClass::Broken => (
            unknown_if(statement),
            format!("the connection to {address} broke while an answer was awaited"),
            "look at the network and at the server's log",
        ),
        ErrorClass::Ended => (
            unknown_if(statement),
            format!("{address} ended the connection"),
            "look at who restarts the server, or kills connections in it",
        ),
        ErrorClass::Unreachable => (
            ErrorKind::Unavailable,
            format!("cannot connect to {address}"),
            "look whether the server runs there and takes connections",
        ),
        // The driver's words are left out: they name a feature that this library does not have.
        ErrorClass::PasswordInTheClear => {
            let message = format!("{address} takes this user's password over TLS alone, and there is none");
            let help =
                "write sslmode=verify-full, with sslrootcert=/path/to/ca.pem if the authority is your own";
            return Error::new(ErrorKind::Misconfigured, message).with_help(help);
        }
        ErrorClass::Deadlock | ErrorClass::Locked => (
            ErrorKind::Unavailable,
            format!("another transaction has a row of {table} locked"),
            "find who keeps a transaction open that touches the table: nobody but this library should",
        ),
        ErrorClass::TooSlow => (
            ErrorKind::Unavailable,
            format!("{address} ended a statement that took longer than {:?}", target.timeout),
            "find out what the server is busy with; or lengthen timeout",
        ),
        // Servers do not say whether it was the password, or TLS or a certificate that they wanted to see.
        ErrorClass::NotLetIn => (
            ErrorKind::Denied,
            format!("{address} refuses these credentials"),
            "look at user and password; if the server lets them in by TLS alone, write sslmode=verify-full; \
             if it wants a client certificate, name one: sslcert=/path/to/cert.pem, sslkey=/path/to/key.pem",
        ),
        ErrorClass::Denied => (
            ErrorKind::Denied,
            format!("{address} lets these credentials in, and they may not use {table}"),
            "grant them SELECT, INSERT and UPDATE on the table, and what else the cause names; no policy or trigger may refuse a row",
        ),
        // `{one_if_writable}` was out of range: the cause would quote the statement.
        ErrorClass::ReadOnly if error.0.contains("out of range") => return read_only(target),
        ErrorClass::ReadOnly => return read_only(target).with_source(error),
        ErrorClass::Exhausted(what) => (
            ErrorKind::Unavailable,
            format!("{address} has no {what} left"),
            "give it more, or use less of it; connections=N says how many connections this client may have",
        ),
        ErrorClass::TokensUsedUp => return Error::tokens_used_up(),
        ErrorClass::NoTable => return missing_table(table, &target.url).with_source(error),
        ErrorClass::NoSchema => {
            let none = "the search_path of these credentials leads to no schema".to_owned();
            let what = table.schema().map_or(none, |schema| format!("there is no schema {schema:?}"));
            let help = "make it: CREATE SCHEMA NAME; or name another one: schema=NAME in the URL, or, for the role, \
                ALTER ROLE … SET search_path = NAME";
            (ErrorKind::Misconfigured, format!("{what}, at {address}"), help)
        }
        ErrorClass::Setting(what, help) => (ErrorKind::Misconfigured, format!("{what}, at {address}"), help),
        ErrorClass::Refused | ErrorClass::Duplicate | ErrorClass::NoConnection => (
            ErrorKind::Misconfigured,
            format!("a connection to {address}, or a statement on it, was refused"),
            "look at the cause, and at what stands between here and the server; is it a MySQL from 8.0, a MariaDB from 10.6, \
             a PostgreSQL from 12 on?",
        ),
        ErrorClass::Unreadable => (
            ErrorKind::Misconfigured,
            format!("a row of {table} does not read as one of ours"),
            "look at who else writes to the table, and at what is between here and the server",
        ),
    };
    Error::new(kind, message).with_source(error).with_help(help)
}

/// The driver's error as the cause of ours, without the part of the statement that MySQL quotes, and without the line of
/// PostgreSQL's own source that the driver appends.
#[derive(Debug)]
pub(super) struct Cause(String);

impl From<sqlx::Error> for Cause {
    fn from(error: sqlx::Error) -> Self {
        let text = error.to_string();
        let text = text.split(" near '").next().unwrap_or_default().lines().next().unwrap_or_default();
        let is_number = |line: &str| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
        let without_line = text.rsplit_once(" at line ").filter(|(_, line)| is_number(line));
        Self(without_line.map_or(text, |(before, _)| before).to_owned())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Cause {}

/// Purging needs a right that locking does not.
pub(crate) fn name_the_right(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Denied => error.with_help(
            "purging needs a right that locking does not: GRANT DELETE on the table, to these credentials or to others",
        ),
        _ => error,
    }
}

pub(crate) fn read_only(target: &Target) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{} takes no writes", target.address())).with_help(
        "name the primary, not a replica; or switch its read-only mode off: read_only of MySQL and MariaDB, \
             default_transaction_read_only of PostgreSQL, of its database or of the role",
    )
}

pub(super) fn unknown_if(kind: StatementKind) -> ErrorKind {
    match kind {
        StatementKind::Read => ErrorKind::Unavailable,
        StatementKind::Write | StatementKind::MakeRow | StatementKind::End => ErrorKind::Indeterminate,
    }
}
