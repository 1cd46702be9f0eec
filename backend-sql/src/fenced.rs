//! Writes to tables of yours that carry the token of a lock, so that a holder which was paused can do no harm.

use crate::names::check_identifier;
use leasehold_core::{Error, ErrorKind, FencingToken, Result};
use std::fmt;

/// The text of an `UPDATE` of a table of yours that checks and keeps a fencing token, in one statement: the effect is
/// excluded where it happens, whatever became of the lock (promise M3).
///
/// The table needs one more column, a `BIGINT NOT NULL DEFAULT 0`: the highest token that has written the row. A write
/// with a lower one changes nothing. The same token may write again.
///
/// The text is for whatever client you use; bind the values in the order in which they were named, with the token where
/// [`parameters`](Self::parameters) says. Then let [`judge`](Self::judge) tell from the number of changed rows whether it
/// was let through.
///
/// ```
/// # fn main() -> leasehold_core::Result<()> {
/// use leasehold_core::FencingToken;
/// use leasehold_sql::{FencedWrite, Parameters};
///
/// let write = FencedWrite::update("account", "fence", Parameters::Numbered)?.set("balance")?.key("id")?;
/// assert_eq!(
///     write.text(),
///     "UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2"
/// );
/// // client.execute(&write.text(), &[&balance, &token, &id])
/// let changed_rows = 0;
/// let error = write.judge(FencingToken::new(7), changed_rows).unwrap_err();
/// assert_eq!(error.kind(), leasehold_core::ErrorKind::Lost);
/// # Ok(()) }
/// ```
///
/// # What the number of changed rows must count
///
/// The rows that were found, not those whose values are different now: in MySQL that is `CLIENT_FOUND_ROWS`, which sqlx
/// sets. Without it, a write that changes nothing at all, with a token that is there already, is taken for a refused one.
///
/// # Readers and writers
///
/// Under a lock with [readers](leasehold_core::LockMode::Shared) the table needs a second column of that type: the token of the
/// last *write*. A write names it in [`with_readers`](Self::with_readers); a reader runs the statement of
/// [`before_read`](Self::before_read) before it reads, which refuses the writers before it.
///
/// # Not promised
///
/// A row that is not there is not written either, and is judged as refused. Effects beside this statement are not
/// excluded: put them into its transaction, and roll back if it was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencedWrite {
    table: String,
    fence: String,
    /// The column with the token of the last write, where there are readers.
    last_write: Option<String>,
    is_read: bool,
    parameters: Parameters,
    set: Vec<String>,
    key: Vec<String>,
}

/// How a client writes the parameters of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parameters {
    /// `?`, as in MySQL, MariaDB and SQLite. The token is bound at each of its places.
    Question,
    /// `$1`, as in PostgreSQL. The token is bound once, at its first place.
    Numbered,
}

impl FencedWrite {
    /// A write to `table`, whose column `fence` keeps the highest token.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a name that is none: letters, digits and `_`, not beginning with a digit, 63 in
    /// all at most; a table may have a schema and a dot in front.
    pub fn update(table: &str, fence: &str, parameters: Parameters) -> Result<Self> {
        for part in table.split('.') {
            check_name("table", part)?;
        }
        let fence = check_name("fence column", fence)?;
        Ok(Self {
            table: table.to_owned(),
            fence,
            last_write: None,
            is_read: false,
            parameters,
            set: Vec::new(),
            key: Vec::new(),
        })
    }

    /// The column that keeps the token of the last write, for a table that readers of a shared lock read.
    ///
    /// # Errors
    ///
    /// As of [`update`](Self::update).
    pub fn with_readers(mut self, last_write: &str) -> Result<Self> {
        self.last_write = Some(check_name("column of the last write", last_write)?);
        Ok(self)
    }

    /// What a reader does before it reads: raises the column `fence` to its own token, so that every earlier writer is refused.
    /// It is refused itself if a later writer has written; other readers, earlier and later ones, refuse it never.
    ///
    /// # Errors
    ///
    /// As of [`update`](Self::update).
    pub fn before_read(table: &str, fence: &str, last_write: &str, parameters: Parameters) -> Result<Self> {
        let read = Self::update(table, fence, parameters)?.with_readers(last_write)?;
        Ok(Self { is_read: true, ..read })
    }

    /// Sets a column to a value.
    ///
    /// # Errors
    ///
    /// As of [`update`](Self::update).
    pub fn set(mut self, column: &str) -> Result<Self> {
        self.set.push(check_name("column", column)?);
        Ok(self)
    }

    /// Writes only the row with a value in this column; if there are several columns, with all of their values. Without any,
    /// the statement writes every row of the table.
    ///
    /// # Errors
    ///
    /// As of [`update`](Self::update).
    pub fn key(mut self, column: &str) -> Result<Self> {
        self.key.push(check_name("key column", column)?);
        Ok(self)
    }

    /// The statement.
    pub fn text(&self) -> String {
        self.write().0
    }

    /// What is to be bound, in this order: the columns by their names, and the token as `None`.
    pub fn parameters(&self) -> Vec<Option<&str>> {
        self.write().1
    }

    fn write<'a>(&'a self) -> (String, Vec<Option<&'a str>>) {
        let (fence, mut bound) = (&self.fence, Vec::new());
        let mut bind = |value: Option<&'a str>| {
            let earlier = bound.iter().position(|earlier| value.is_none() && *earlier == value);
            if self.parameters == Parameters::Question || earlier.is_none() {
                bound.push(value);
            }
            match self.parameters {
                Parameters::Question => "?".to_owned(),
                Parameters::Numbered => format!("${}", earlier.map_or(bound.len(), |at| at + 1)),
            }
        };
        let set: String =
            self.set.iter().map(|column| format!("{column} = {}, ", bind(Some(column)))).collect();
        let raise = match &self.last_write {
            Some(_) if self.is_read => {
                format!("{fence} = CASE WHEN {fence} < {} THEN {} ELSE {fence} END", bind(None), bind(None))
            }
            Some(last_write) => format!("{fence} = {}, {last_write} = {}", bind(None), bind(None)),
            None => format!("{fence} = {}", bind(None)),
        };
        let key: String =
            self.key.iter().map(|column| format!("{column} = {} AND ", bind(Some(column)))).collect();
        let compared = self.last_write.as_ref().filter(|_| self.is_read).unwrap_or(fence);
        let token = bind(None);
        (format!("UPDATE {} SET {set}{raise} WHERE {key}{compared} <= {token}", self.table), bound)
    }

    /// Whether a write with this token, which has changed so many rows, was let through: at least one of those that the key
    /// names. Where it names several, those that a later holder has written are passed over; a key for one row leaves no
    /// such doubt.
    ///
    /// # Errors
    ///
    /// [`Lost`](ErrorKind::Lost) if it has changed none: a later holder was here. Stop, and roll back what belongs to it.
    pub fn judge(&self, token: FencingToken, changed_rows: u64) -> Result<()> {
        if changed_rows > 0 {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Lost,
            format!(
                "a write to {} with token {token} was refused: a later holder was there, or no such row is",
                self.table
            ),
        )
        .with_help("stop touching what the lock protects, and roll back what belongs to this write"))
    }
}

/// Only a name that needs no quotes, so that no other text gets into the statement.
fn check_name(field: &str, name: &str) -> Result<String> {
    check_identifier(field, name, 63).map(|()| name.to_owned())
}

impl fmt::Display for FencedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_compares_and_keeps_the_token_in_one_statement() {
        let write = FencedWrite::update("shop.account", "fence", Parameters::Question).unwrap();
        let write = write.set("balance").unwrap().set("note").unwrap().key("id").unwrap();
        assert_eq!(
            write.text(),
            "UPDATE shop.account SET balance = ?, note = ?, fence = ? WHERE id = ? AND fence <= ?"
        );
        assert_eq!(write.parameters(), [Some("balance"), Some("note"), None, Some("id"), None]);
    }

    #[test]
    fn reader_raises_the_fence_and_is_compared_with_the_last_write() {
        let read = |parameters| {
            FencedWrite::before_read("account", "fence", "last_write", parameters).unwrap().key("id").unwrap()
        };
        let text = "UPDATE account SET fence = CASE WHEN fence < $1 THEN $1 ELSE fence END WHERE id = $2 AND last_write <= $1";
        assert_eq!(read(Parameters::Numbered).text(), text);
        assert_eq!(read(Parameters::Numbered).parameters(), [None, Some("id")]);
        assert_eq!(read(Parameters::Question).parameters(), [None, None, Some("id"), None]);
        let write = FencedWrite::update("account", "fence", Parameters::Question).unwrap();
        let write = write.with_readers("last_write").unwrap().set("balance").unwrap().key("id").unwrap();
        let text = "UPDATE account SET balance = ?, fence = ?, last_write = ? WHERE id = ? AND fence <= ?";
        assert_eq!(write.text(), text);
        assert_eq!(write.parameters(), [Some("balance"), None, None, Some("id"), None]);
    }

    #[test]
    fn text_that_is_no_name_is_refused() {
        for odd in ["", "1st", "a b", "a;b", "a\"", "é", &"x".repeat(64)] {
            assert!(FencedWrite::update("t", odd, Parameters::Question).is_err(), "{odd}");
        }
        assert!(FencedWrite::update("a..b", "fence", Parameters::Question).is_err());
    }

    #[test]
    fn write_that_changes_no_row_is_a_loss() {
        let write = FencedWrite::update("t", "fence", Parameters::Numbered).unwrap();
        assert!(write.judge(FencingToken::new(1), 1).is_ok());
        assert_eq!(write.judge(FencingToken::new(1), 0).unwrap_err().kind(), ErrorKind::Lost);
    }
}
