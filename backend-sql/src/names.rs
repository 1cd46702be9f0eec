//! Names: how they are stored, and which may stand in a statement.

#[cfg(feature = "_store")]
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

    /// The name in a URL, or the default one.
    pub(crate) fn parse(name: Option<String>, default: &str, max_bytes: usize) -> Result<Self> {
        let name = name.unwrap_or_else(|| default.to_owned());
        if is_identifier(&name, max_bytes) {
            return Ok(Self { name, schema: None });
        }
        Err(no_identifier("table", &name, max_bytes))
    }

    /// The same table of a schema, in which it is looked for.
    #[cfg(feature = "_server")]
    pub(crate) fn in_schema(self, schema: Option<String>, max_bytes: usize) -> Result<Self> {
        match &schema {
            Some(name) if !is_identifier(name, max_bytes) => Err(no_identifier("schema", name, max_bytes)),
            _ => Ok(Self { schema, ..self }),
        }
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
impl Default for TableName {
    fn default() -> Self {
        Self { name: Self::DEFAULT.to_owned(), schema: None }
    }
}

#[cfg(feature = "_store")]
impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(feature = "_store")]
fn no_identifier(what: &'static str, name: &str, max_bytes: usize) -> Error {
    let fix = "begin it with a letter or _, go on with letters, digits and _";
    Error::invalid(what, format_args!("{name:?}"), format!("{fix}, {max_bytes} in all at most"))
}

/// True for a name that may stand in a statement without quotes: letters, digits and `_`, not beginning with a digit.
pub(crate) fn is_identifier(name: &str, max_bytes: usize) -> bool {
    name.len() <= max_bytes
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The names that begin so: from the first of these on, and before the second. Names are UTF-8, in which the byte FF does not
/// occur.
#[cfg(feature = "_store")]
pub(crate) fn range(beginning: impl Into<Vec<u8>>) -> (Vec<u8>, Vec<u8>) {
    let first = beginning.into();
    let behind = [first.as_slice(), &[0xff]].concat();
    (first, behind)
}
