//! A table as it must be, what is there under its name, and what is the difference.

use super::{TableName, Value};
use leasehold_core::{Error, ErrorKind, Result};
use std::fmt;

/// A table as it must be.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: TableName,
    /// The statement that makes it.
    pub(crate) schema: &'static str,
    /// What [`look_at`](Dialect::look_at) is to find then.
    pub(crate) columns: &'static [(&'static str, &'static str)],
    /// A column that tables of an earlier schema lack, and the statement that adds it.
    pub(crate) added: Option<(&'static str, &'static str)>,
}

/// What is there under a name.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// What is wrong with the thing itself, such as an engine without transactions.
    pub(crate) fault: Option<String>,
    pub(crate) columns: Vec<Column>,
    /// What its primary key is made of, in the order of the columns: their names, if they are whole.
    pub(crate) primary_key: Vec<String>,
}

impl Found {
    /// `rows` have the name of a column, its kind, and a value from which `in_key` reads what part of it is in the primary key.
    pub(crate) fn new(
        fault: Option<String>,
        rows: &[Vec<Value>],
        in_key: impl Fn(&Value, &str) -> Option<String>,
    ) -> Self {
        let mut found = Self { fault, ..Self::default() };
        for row in rows {
            let [name, kind, key] = row.as_slice() else { continue };
            let text = |value: &Value| value.as_text().unwrap_or_default().to_owned();
            found.primary_key.extend(in_key(key, &text(name)));
            found.columns.push(Column { name: text(name), kind: text(kind) });
        }
        found
    }
}

/// A column, in the database's own words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
}

impl Table {
    /// Compares it with what is there. The first difference is the error.
    pub(crate) fn compare(&self, found: Option<&Found>) -> Result<()> {
        let Some(found) = found else {
            return Err(missing_table(&self.name));
        };
        if let Some(fault) = &found.fault {
            return Err(self.differs(fault));
        }
        if found.primary_key != ["name"] {
            let key = found.primary_key.join(", ");
            return Err(self.differs(&format_args!("its primary key is ({key}) and should be (name)")));
        }
        for (name, kind) in self.columns {
            match found.columns.iter().find(|column| column.name == *name) {
                None if self.lacks_addition(found).is_some() => return Err(self.is_old(name)),
                None => return Err(self.differs(&format_args!("it has no column {name}"))),
                Some(column) if column.kind != *kind => {
                    let difference =
                        format_args!("its column {name} is {} and should be {kind}", column.kind);
                    return Err(self.differs(&difference));
                }
                Some(_) => {}
            }
        }
        let known = |column: &&Column| self.columns.iter().any(|(name, _)| *name == column.name);
        match found.columns.iter().find(|column| !known(column)) {
            Some(column) => Err(self.differs(&format_args!("it has a column too many, {}", column.name))),
            None => Ok(()),
        }
    }

    /// The statement that makes a table of an earlier schema one of this; `None` if it is of this schema.
    pub(crate) fn lacks_addition(&self, found: &Found) -> Option<&'static str> {
        let (column, statement) = self.added?;
        found.columns.iter().all(|found| found.name != column).then_some(statement)
    }

    fn is_old(&self, column: &str) -> Error {
        let message = format!("the table {} is of an earlier version: it has no column {column}", self.name);
        Error::new(ErrorKind::Misconfigured, message).with_help(
            "run `leasehold init`, as a user that may change the table; it keeps the locks that are held",
        )
    }

    fn differs(&self, difference: &dyn fmt::Display) -> Error {
        Error::new(ErrorKind::Misconfigured, format!("the table {} is not ours: {difference}", self.name))
            .with_help("name another one with table=NAME; this one was left as it is")
    }
}

/// What a table that is not there, or must not be seen, is to who asks.
pub(super) fn missing_table(table: &TableName) -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        format!("there is no table {table}, or these credentials may not use it"),
    )
    .with_help(
        "make it with `leasehold init`, or have the statements of `leasehold init --print` run for you",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[(&str, &str)] = &[("name", "bytea not null"), ("token", "bigint not null")];

    fn found(columns: &[(&str, &str)]) -> Found {
        let column = |(name, kind): &(&str, &str)| Column { name: (*name).into(), kind: (*kind).into() };
        Found {
            columns: columns.iter().map(column).collect(),
            primary_key: vec!["name".to_owned()],
            fault: None,
        }
    }

    fn difference(found: &Found) -> String {
        let table = Table { name: TableName::default(), schema: "", columns: COLUMNS, added: None };
        table.compare(Some(found)).map_or_else(|error| error.to_string(), |()| "none".to_owned())
    }

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(difference(&found(COLUMNS)), "none");
        let short = found(&[("name", "character varying(64) not null"), ("token", "bigint not null")]);
        assert!(
            difference(&short)
                .ends_with("its column name is character varying(64) not null and should be bytea not null")
        );
        assert!(difference(&found(&COLUMNS[..1])).ends_with("it has no column token"));
        let more = found(&[COLUMNS[0], COLUMNS[1], ("more", "text")]);
        assert!(difference(&more).ends_with("it has a column too many, more"));
        let mut keyless = found(COLUMNS);
        keyless.primary_key.clear();
        assert!(difference(&keyless).contains("its primary key is ()"));
        let mut engine = found(COLUMNS);
        engine.fault = Some("its engine is MyISAM".to_owned());
        assert!(difference(&engine).ends_with("its engine is MyISAM"));
    }

    #[test]
    fn missing_table_is_reported_with_the_way_to_make_it() {
        let table = Table { name: TableName::default(), schema: "", columns: COLUMNS, added: None };
        let error = table.compare(None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.help().is_some_and(|help| help.contains("leasehold init")));
    }
}
