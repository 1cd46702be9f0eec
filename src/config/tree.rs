use super::ConfigSource;
use leasehold_core::{Error, ErrorKind, Result};
use std::borrow::Cow;

/// A value of a configuration in whatever format, and where it stands.
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) source: ConfigSource,
}

pub(super) enum Value {
    Text(String),
    /// A number, or a boolean: its text in a URL, and what it is.
    Scalar(String, Kind),
    Table(Table),
    /// Something that means nothing here.
    Other(Kind),
}

/// The entries of a table as they stand there: the first mistake is the one that is reported.
pub(super) type Table = Vec<(String, Node)>;

/// What a value is, with its article: `an integer`.
pub(super) type Kind = &'static str;

impl Value {
    /// A boolean, in the words that parameters of a URL take.
    pub(super) fn of_boolean(answer: bool) -> Self {
        Self::Scalar(if answer { "yes" } else { "no" }.to_owned(), "a boolean")
    }
}

impl Node {
    /// The text, if it is one; `example` is what one looks like.
    pub(super) fn text(self, key: &str, example: &str) -> Result<String> {
        match self.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong_kind(key, format!("write it in quotes: {key} = {example:?}"))),
        }
    }

    /// The entries, if it is a table.
    pub(super) fn table(self, key: &str) -> Result<Table> {
        match self.value {
            Value::Table(table) => Ok(table),
            _ => Err(self.wrong_kind(key, "make it a table")),
        }
    }

    /// Says that it is of the wrong kind. Its value is not echoed.
    pub(super) fn wrong_kind(&self, key: &str, fix: impl Into<Cow<'static, str>>) -> Error {
        let kind = match &self.value {
            Value::Text(_) => "a string",
            Value::Scalar(_, kind) | Value::Other(kind) => kind,
            Value::Table(_) => "a table",
        };
        self.wrong(format!("{key} is {kind}"), fix)
    }

    /// Says what is wrong with it.
    pub(super) fn wrong(&self, problem: String, fix: impl Into<Cow<'static, str>>) -> Error {
        let error = Error::new(ErrorKind::Invalid, problem).with_help(fix);
        self.source.blame(error)
    }
}
