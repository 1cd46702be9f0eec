//! The errors of failed statements.

use super::options::Options;
use leasehold_core::{Error, ErrorKind};

/// The primary result codes of SQLite that have an error of their own here (<https://sqlite.org/rescode.html>). The driver enables
/// the extended ones; their low byte is the primary.
mod code {
    pub(super) const ERROR: i32 = 1;
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const NOMEM: i32 = 7;
    pub(super) const READONLY: i32 = 8;
    pub(super) const IOERR: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const PROTOCOL: i32 = 15;
    pub(super) const NOTADB: i32 = 26;
}

/// True if another connection has the file locked, or many that begin at the same time have won every race for it; this one is as good
/// as before.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(code::BUSY | code::LOCKED | code::PROTOCOL))
}

/// True if the statement does not fit the file any more, as after the table was dropped.
pub(super) fn is_misfit(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(code::ERROR)
}

impl Options {
    /// The error of a failed statement. `unknown` is its kind if the failure leaves open what was done.
    pub(super) fn failure(&self, error: sqlx::Error, unknown: ErrorKind) -> Error {
        let file = &self.path;
        let (kind, message, help) = match primary_code(&error) {
            Some(code::BUSY | code::LOCKED | code::PROTOCOL) => (
                ErrorKind::Unavailable,
                format!("another process had {file} locked for all of {:?}", self.busy_timeout),
                "find who keeps a transaction open in it, for instance with fuser; or lengthen busy_timeout",
            ),
            // SQLite meets it while it writes the change to the log: without its whole last frame the change is not in the log.
            Some(code::FULL) => {
                (ErrorKind::Unavailable, format!("the disk under {file} is full"), "make room on it")
            }
            Some(code::READONLY | code::CANTOPEN | code::NOMEM) => (
                ErrorKind::Unavailable,
                format!("SQLite cannot open or write {file}"),
                "look at the rights of the file, its side files and their directory, at room and inodes of the disk, and at the \
                 limits of the process",
            ),
            Some(code::NOTADB) => (
                ErrorKind::Misconfigured,
                format!("{file} is not a SQLite database"),
                "name another file; this one was left as it is",
            ),
            Some(code::CORRUPT) => (
                ErrorKind::Misconfigured,
                format!("{file} is damaged"),
                "stop all that use it, and move it away together with its -wal and -shm: a new one is made",
            ),
            // Once the last frame is in the log, a failed wait for the disk takes nothing back for sure: should all
            // processes end before the next write, the one that opens the file next finds the frame and believes it.
            Some(code::IOERR) => (
                unknown,
                format!("the disk under {file} failed"),
                "look at its room and inodes, at the limit of file sizes (ulimit -f), and at the kernel's log",
            ),
            Some(_) => (
                ErrorKind::Misconfigured,
                format!("SQLite refused a statement on {file}"),
                "look at what else is in the file",
            ),
            None if matches!(error, sqlx::Error::WorkerCrashed | sqlx::Error::Io(_)) => (
                unknown,
                "the thread that runs SQLite has ended, or was not started".to_owned(),
                "look at what it said on the standard error, and at the limits of the process",
            ),
            None => (
                ErrorKind::Misconfigured,
                format!("a row of {} in {file} does not read as one of ours", self.table),
                "look at who else writes to the table",
            ),
        };
        Error::new(kind, message).with_source(error).with_help(help)
    }
}

fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}

#[cfg(test)]
mod tests {
    use super::super::connection::Role;
    use super::*;
    use leasehold_store_url::StoreUrl;
    use std::borrow::Cow;
    use std::error::Error as StdError;
    use std::fmt;

    /// The driver's error for a code.
    #[derive(Debug)]
    struct Reported(i32);

    impl fmt::Display for Reported {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "code {}", self.0)
        }
    }

    impl StdError for Reported {}

    impl sqlx::error::DatabaseError for Reported {
        fn message(&self) -> &str {
            "reported"
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.to_string().into())
        }

        fn kind(&self) -> sqlx::error::ErrorKind {
            sqlx::error::ErrorKind::Other
        }

        fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
            self
        }
    }

    /// The kinds for a reader and for a writer.
    fn kinds(error: impl Fn() -> sqlx::Error) -> (ErrorKind, ErrorKind) {
        let url = StoreUrl::parse("sqlite:/x").unwrap();
        let options = Options::parse(&url).unwrap();
        let kind = |role: Role| options.failure(error(), role.unknown()).kind();
        (kind(Role::Reader), kind(Role::Writer))
    }

    fn reported(code: i32) -> sqlx::Error {
        sqlx::Error::Database(Box::new(Reported(code)))
    }

    #[test]
    fn each_code_has_its_kind_for_a_read_and_for_a_write() {
        use ErrorKind::{Indeterminate, Misconfigured, Unavailable};
        let cases = [
            (5, (Unavailable, Unavailable)),
            (517, (Unavailable, Unavailable)),
            (6, (Unavailable, Unavailable)),
            (7, (Unavailable, Unavailable)),
            (8, (Unavailable, Unavailable)),
            (1032, (Unavailable, Unavailable)),
            (13, (Unavailable, Unavailable)),
            (14, (Unavailable, Unavailable)),
            (15, (Unavailable, Unavailable)),
            (10, (Unavailable, Indeterminate)),
            (1034, (Unavailable, Indeterminate)),
            (1, (Misconfigured, Misconfigured)),
            (11, (Misconfigured, Misconfigured)),
            (26, (Misconfigured, Misconfigured)),
        ];
        for (code, expected) in cases {
            assert_eq!(kinds(|| reported(code)), expected, "code {code}");
        }
    }

    #[test]
    fn dead_driver_leaves_a_write_indeterminate() {
        let kinds = kinds(|| sqlx::Error::WorkerCrashed);
        assert_eq!(kinds, (ErrorKind::Unavailable, ErrorKind::Indeterminate));
    }

    #[test]
    fn only_a_locked_file_keeps_the_connection() {
        let busy = |code| is_busy(&reported(code));
        assert!(busy(5) && busy(6) && busy(15) && busy(261) && busy(517));
        assert!(!busy(10) && !busy(1) && !busy(13));
    }
}
