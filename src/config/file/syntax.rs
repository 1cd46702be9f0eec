//! TOML as a tree in which every value knows its line.
//!
//! Read from the parser's own tables, not through serde, for the sake of the lines. The parser's errors are not
//! chained: their `Display` and their `Debug` quote the file, with the passwords in it.

use crate::config::ConfigSource;
use crate::config::tree::{Node, Table, Value};
use leasehold_core::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Reads the text of the file at `path`.
pub(super) fn parse(path: &Arc<Path>, text: &str) -> Result<Table> {
    let document = Document { path, text };
    let root = DeTable::parse(text).map_err(|error| document.wrong(&error))?;
    Ok(document.table(root.get_ref()))
}

struct Document<'a> {
    path: &'a Arc<Path>,
    text: &'a str,
}

impl Document<'_> {
    fn table(&self, table: &DeTable<'_>) -> Table {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries.into_iter().map(|(key, value)| self.entry(key, value.get_ref())).collect()
    }

    fn entry(&self, key: &Spanned<DeString<'_>>, value: &DeValue<'_>) -> (String, Node) {
        let value = match value {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => Value::Scalar(number.to_string(), "an integer"),
            DeValue::Float(number) => Value::Scalar(number.to_string(), "a float"),
            DeValue::Boolean(answer) => Value::of_boolean(*answer),
            DeValue::Table(table) => Value::Table(self.table(table)),
            DeValue::Datetime(_) => Value::Other("a date"),
            DeValue::Array(_) => Value::Other("an array"),
        };
        let source = self.source(key.span().start);
        (key.get_ref().to_string(), Node { value, source })
    }

    /// The place of what begins at this byte.
    fn source(&self, at: usize) -> ConfigSource {
        let before = self.text.bytes().take(at);
        ConfigSource::File {
            path: Arc::clone(self.path),
            line: 1 + before.filter(|byte| *byte == b'\n').count(),
        }
    }

    fn wrong(&self, error: &toml::de::Error) -> Error {
        let span = error.span().unwrap_or(self.text.len()..self.text.len());
        let source = self.source(span.start);
        let (problem, help) = match (error.message(), self.text.get(span)) {
            ("duplicate key", Some(key)) => (format!("{key} is there twice"), "leave one of them out"),
            (message, _) => (format!("it is not TOML: {message}"), "fix this line, or the one before it"),
        };
        Error::new(ErrorKind::Misconfigured, problem).with_help(help).context(source)
    }
}
