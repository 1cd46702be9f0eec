//! Values, and the answers of a server.

use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use sqlx::Either;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Bytes(Option<Vec<u8>>),
    Int(Option<i64>),
    Text(Option<String>),
}

#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<Vec<Value>>,
    pub(crate) changed: u64,
    /// What the statement gave to `LAST_INSERT_ID()`.
    pub(crate) last_id: u64,
}

impl Answer {
    /// Collects the results that a driver streams. `counts` tells the changed rows and the last id.
    pub(crate) async fn collect<D, R>(
        mut results: BoxStream<'_, sqlx::Result<Either<D, R>>>,
        columns: &[ColumnType],
        counts: impl Fn(&D) -> (u64, u64),
        read: impl Fn(&R, usize, ColumnType) -> sqlx::Result<Value>,
    ) -> sqlx::Result<Self> {
        let mut answer = Self::default();
        while let Some(result) = results.try_next().await? {
            match result {
                Either::Left(done) => (answer.changed, answer.last_id) = counts(&done),
                Either::Right(row) => {
                    let values = columns.iter().enumerate().map(|(at, column)| read(&row, at, *column));
                    answer.rows.push(values.collect::<sqlx::Result<_>>()?);
                }
            }
        }
        Ok(answer)
    }

    pub(crate) fn first(&self) -> Option<&Value> {
        self.rows.first()?.first()
    }

    /// The answer yes to a question such as [`takes_writes`](super::Texts::takes_writes).
    pub(crate) fn is_one(&self) -> bool {
        self.first().and_then(Value::as_int) == Some(1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    Bytes,
    Int,
    Text,
}

impl ColumnType {
    pub(super) fn parse(word: &str) -> Self {
        match word {
            "bytes" => Self::Bytes,
            "int" => Self::Int,
            _ => Self::Text,
        }
    }
}

impl Value {
    pub(crate) fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bytes(Some(bytes.into()))
    }

    /// A number that a `BIGINT` can hold; the largest, if it cannot.
    pub(crate) fn int(number: impl TryInto<i64>) -> Self {
        Self::Int(Some(number.try_into().unwrap_or(i64::MAX)))
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }

    pub(crate) fn as_int(&self) -> Option<i64> {
        if let Self::Int(number) = self { *number } else { None }
    }

    pub(crate) fn as_bytes(&self) -> Option<&[u8]> {
        if let Self::Bytes(bytes) = self { bytes.as_deref() } else { None }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { text.as_deref() } else { None }
    }
}
