//! A table as it must be, and the errors of one that is missing or differs.

use crate::layout::difference;
use crate::names::TableName;
use leasehold_core::{Error, ErrorKind, Result};

/// A table of this name, as it must be.
#[derive(Debug)]
pub(crate) struct ExpectedTable {
    pub(crate) name: TableName,
    pub(crate) layout: &'static Layout,
}

/// The definition of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The statement that makes it.
    pub(crate) schema: &'static str,
    /// What it then consists of, in the words of `layout.sql`, with commas between them.
    pub(crate) parts: &'static str,
}

impl ExpectedTable {
    /// Compares it with the answer to `layout.sql`. The first difference is the error.
    pub(crate) fn compare(&self, found: &[String]) -> Result<()> {
        if found.is_empty() {
            return Err(missing_table(&self.name));
        }
        let Some(difference) = difference(found, self.layout.parts) else { return Ok(()) };
        Err(Error::new(
            ErrorKind::Misconfigured,
            format!("the table {} is not ours: {difference}", self.name),
        )
        .with_help("name another one with table=NAME; this one was left as it is"))
    }
}

/// The error of a table that is not there, or that these credentials may not see.
pub(super) fn missing_table(table: &TableName) -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        format!("there is no table {table}, or these credentials may not use it"),
    )
    .with_help(
        "make it with `leasehold init -u URL`, by this URL with its mode, or have the statements of `leasehold init --print -u URL` run for you; \
         on PostgreSQL, its schema is in the search_path of the role, or in the URL: schema=NAME",
    )
}
