//! Names: how they are stored, and which may stand in a statement.

use leasehold_core::{Error, Result};
#[cfg(feature = "_store")]
use std::fmt;

/// The name of a table. An identifier, so that it can stand in a statement.
#[cfg(feature = "_store")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName {
    name: String,
    schema: Option<String>,
}

#[cfg(feature = "_store")]
impl TableName {
    pub(crate) const DEFAULT: &str = "leasehold";

    pub(crate) fn parse(name: Option<String>, default: &str, max_bytes: usize) -> Result<Self> {
        let name = name.unwrap_or_else(|| default.to_owned());
        check_identifier("table", &name, max_bytes)?;
        Ok(Self { name, schema: None })
    }

    /// The same table of a schema, in which it is looked for.
    #[cfg(feature = "_server")]
    pub(crate) fn in_schema(self, schema: Option<String>, max_bytes: usize) -> Result<Self> {
        schema.as_ref().map_or(Ok(()), |name| check_identifier("schema", name, max_bytes))?;
        Ok(Self { schema, ..self })
    }

    #[cfg(feature = "_server")]
    pub(crate) fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The table beside this one, whose rows are locked.
    #[cfg(feature = "_server")]
    pub(crate) fn of_rows(&self) -> Self {
        Self { name: format!("{self}_rows"), schema: self.schema.clone() }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.name
    }
}

#[cfg(feature = "_store")]
impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Fails unless a name may stand in a statement without quotes: letters, digits and `_`, not beginning with a digit.
pub(crate) fn check_identifier(field: &str, name: &str, max_bytes: usize) -> Result<()> {
    let is_identifier = name.len() <= max_bytes
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_identifier {
        return Ok(());
    }
    let fix =
        format!("begin it with a letter or _, go on with letters, digits and _, {max_bytes} in all at most");
    Err(Error::invalid(field, format_args!("{name:?}"), fix))
}

/// The names that begin so: from the first of these on, and before the second, because no UTF-8 has the byte FF.
#[cfg(feature = "_store")]
pub(crate) fn range(beginning: impl Into<Vec<u8>>) -> (Vec<u8>, Vec<u8>) {
    let first = beginning.into();
    let behind = [first.as_slice(), &[0xff]].concat();
    (first, behind)
}

/// Bytes in hexadecimal digits, as values in the text of a statement.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    let mut hex = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}
