use crate::names::is_identifier;
use leasehold_core::{Error, Result};
use std::fmt;

/// The name of a table: letters, digits and underscores, so that it can stand in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName(String);

impl TableName {
    pub(crate) const DEFAULT: &str = "leasehold";
    /// PostgreSQL cuts those longer than 63 short, without an error; `_rows` must fit behind.
    const MAX_BYTES: usize = 58;

    pub(super) fn parse(name: Option<String>, default: &str) -> Result<Self> {
        let Some(name) = name else {
            return Ok(Self(default.to_owned()));
        };
        if is_identifier(&name, Self::MAX_BYTES) {
            return Ok(Self(name));
        }
        Err(Error::invalid(
            "table",
            format_args!("{name:?}"),
            "begin it with a letter or _, go on with letters, digits and _, 58 in all at most",
        ))
    }

    /// The table beside this one, whose rows are locked.
    pub(crate) fn of_rows(&self) -> Self {
        Self(format!("{self}_rows"))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for TableName {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
