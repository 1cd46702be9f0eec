//! The texts in which the databases differ.

use super::schema::Layout;
use crate::names::TableName;

/// The texts of a database. Each statement is in a file of its own, which says what it does.
#[derive(Debug)]
pub(crate) struct Texts {
    /// The server's clock in microseconds since 1970, as an expression: UTC whatever the session's time zone, and not
    /// frozen while a statement waits for a lock.
    pub(crate) now: &'static str,
    /// 1 on a server that takes writes. On another, to which an administrator may write all the same, an addition of it fails: it is
    /// then the largest number. Where the server itself refuses all writes, it is 1.
    pub(crate) one_if_writable: &'static str,
    /// Answers 1 if the server takes writes, else 0.
    pub(crate) takes_writes: &'static str,
    /// True if a server that takes no writes refuses those of every user, and then also a statement that would change no row.
    pub(crate) refuses_all_writes: bool,
    /// The character around the name of a table.
    pub(crate) quote: char,
    /// True if parameters are written `$1`; otherwise they are written `?`.
    pub(crate) numbers_parameters: bool,
    /// Answers what a table consists of; no row if it is not there.
    pub(crate) layout: &'static str,
    pub(crate) settings: &'static str,
    /// Gives a user the rights on a table that locking needs.
    pub(crate) grants: &'static str,
    /// Answers the server's number of a session; `None` where a pooler may answer in the server's place.
    pub(crate) session_number: Option<&'static str>,
    /// Answers what tells a server from a copy of it, until it is restarted; `None` if nothing does.
    pub(crate) started: Option<&'static str>,
    pub(crate) lease_table: Layout,
    pub(crate) acquire: &'static str,
    /// Lets an insertion pass over a row that is there; empty where its error does as well.
    pub(crate) unless_there: &'static str,
    pub(crate) poll: &'static str,
    /// Sends a message that names a row, as an expression in the statements that end a lease; `None` if the database sends none.
    pub(crate) notify: Option<&'static str>,
    /// The table of the holders, for locks that transactions hold, as all that follows.
    pub(crate) holder_table: Layout,
    pub(crate) row_table: Layout,
    pub(crate) make_row: &'static str,
    /// With `{lock}` for the kind of lock, and `{nowait}` for the word that lets it fail at once.
    pub(crate) lock: &'static str,
    pub(crate) for_share: &'static str,
    pub(crate) enter: &'static str,
    pub(crate) enter_shared: &'static str,
    pub(crate) mark: &'static str,
    pub(crate) remove_sharer: &'static str,
    pub(crate) in_transaction: &'static str,
    pub(crate) end_connection: &'static str,
}

impl Texts {
    /// The name of a table as it stands in a statement.
    pub(crate) fn quoted(&self, table: &TableName) -> String {
        let quote = self.quote;
        let schema = table.schema().map(|schema| format!("{quote}{schema}{quote}.")).unwrap_or_default();
        format!("{schema}{quote}{table}{quote}")
    }
}
