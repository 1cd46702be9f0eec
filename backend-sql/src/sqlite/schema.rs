//! The table that must stand under its name, and the error of another one.

use super::options::Options;
use crate::layout::difference;
use leasehold_core::{Error, ErrorKind, Result};
use sqlx::sqlite::SqliteConnection;

/// What `schema.sql` makes, in the words of `layout.sql`.
const PARTS: &str = "table, name BLOB NOT NULL PRIMARY KEY, owner BLOB NOT NULL, token INTEGER NOT NULL, ends_at INTEGER NOT NULL, \
    linger_until INTEGER NOT NULL, written_at INTEGER NOT NULL, boot TEXT, acquired_at INTEGER NOT NULL, holder TEXT NOT NULL, \
    sharers TEXT NOT NULL";

/// True if the table is there, false if nothing is.
///
/// # Errors
///
/// If something else has its name. A trigger is refused as well: it runs inside our statements, and could do anything to them.
pub(super) async fn is_there(sqlite: &mut SqliteConnection, options: &Options) -> Result<bool> {
    let parts = sqlx::query_scalar(include_str!("layout.sql")).bind(options.table.as_str());
    let parts: Vec<String> =
        parts.fetch_all(sqlite).await.map_err(|error| options.failure(error, ErrorKind::Unavailable))?;
    if parts.is_empty() {
        return Ok(false);
    }
    let Some(difference) = difference(&parts, PARTS) else { return Ok(true) };
    let message = format!("the table {} in {} is not ours: {difference}", options.table, options.path);
    Err(Error::new(ErrorKind::Misconfigured, message).with_help(
        "name another file, or another table with table=NAME; this one was left as it is, and a later program may have made it",
    ))
}
