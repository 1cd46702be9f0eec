//! A table as it must be, what is there under its name, and what is the difference.

use super::{Answer, Value};
use crate::names::TableName;
use leasehold_core::{Error, ErrorKind, Result};
use std::fmt;

/// A table of this name, as it must be.
#[derive(Debug)]
pub(crate) struct ExpectedTable {
    pub(crate) name: TableName,
    pub(crate) layout: &'static Layout,
}

/// The definition of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The statement that makes it, with a line for each column.
    pub(crate) schema: &'static str,
    /// A column that tables of an earlier schema lack, and the statement that adds it.
    pub(crate) added: Option<(&'static str, &'static str)>,
}

/// What is there under a name.
#[derive(Debug, Default)]
pub(crate) struct FoundTable {
    /// What is wrong with the thing itself, such as an engine without transactions.
    fault: Option<String>,
    /// The names and kinds of its columns, in the database's own words.
    columns: Vec<(String, String)>,
    /// The columns of its primary key, in the order of the columns: their names, if they are whole.
    primary_key: Vec<String>,
}

impl Layout {
    /// The names and kinds of the columns that the statement defines, in the words of `columns.sql`.
    fn columns(&self) -> Vec<(String, String)> {
        let column = |line: &str| {
            let definition = line.strip_prefix("    ")?.split("--").next()?.trim_end().trim_end_matches(',');
            let words: Vec<_> = definition.split_whitespace().map(str::to_lowercase).collect();
            let (name, kind) = words.split_first()?;
            let kind = kind.join(" ").replace(" primary key", "").replace(" default 0", "");
            let kind = kind.replace("character set utf8mb4 collate ", "");
            let kind = match kind.strip_suffix(" null") {
                Some(nullable) if !nullable.ends_with(" not") => nullable.to_owned(),
                _ => kind,
            };
            Some((name.clone(), kind))
        };
        self.schema.lines().filter_map(column).collect()
    }
}

impl FoundTable {
    /// Reads the answers to the statements `table.sql` and `columns.sql`.
    pub(super) fn read(fault: &Answer, columns: &Answer) -> Self {
        let text = |value: &Value| value.as_text().map(str::to_owned);
        let mut found = Self { fault: fault.first().and_then(text), ..Self::default() };
        for row in &columns.rows {
            let [name, kind, key] = row.as_slice() else { continue };
            found.columns.push((text(name).unwrap_or_default(), text(kind).unwrap_or_default()));
            found.primary_key.extend(text(key));
        }
        found
    }
}

impl ExpectedTable {
    /// Compares it with what is there. The first difference is the error.
    pub(crate) fn compare(&self, found: &FoundTable) -> Result<()> {
        if let Some(fault) = &found.fault {
            return Err(self.differs(fault));
        }
        if found.primary_key != ["name"] {
            let key = found.primary_key.join(", ");
            return Err(self.differs(&format_args!("its primary key is ({key}) and should be (name)")));
        }
        let columns = self.layout.columns();
        for (name, kind) in &columns {
            match found.columns.iter().find(|(column, _)| column == name) {
                None if self.lacks_addition(found).is_some() => return Err(self.is_old(name)),
                None => return Err(self.differs(&format_args!("it has no column {name}"))),
                Some((_, is)) if is != kind => {
                    return Err(self.differs(&format_args!("its column {name} is {is} and should be {kind}")));
                }
                Some(_) => {}
            }
        }
        let is_known = |column: &str| columns.iter().any(|(name, _)| name == column);
        match found.columns.iter().find(|(column, _)| !is_known(column)) {
            Some((column, _)) => Err(self.differs(&format_args!("it has a column too many, {column}"))),
            None => Ok(()),
        }
    }

    /// The statement that makes a table of an earlier schema one of this; `None` if it is of this schema.
    pub(crate) fn lacks_addition(&self, found: &FoundTable) -> Option<&'static str> {
        let (column, statement) = self.layout.added?;
        found.columns.iter().all(|(found, _)| found != column).then_some(statement)
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

/// The error of a table that is not there, or that these credentials may not see.
pub(super) fn missing_table(table: &TableName, url: &str) -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        format!("there is no table {table}, or these credentials may not use it"),
    )
    .with_help(format!(
        "make it with `leasehold init -u '{url}'`, or have the statements run for you that `init --print` shows; \
         on PostgreSQL, its schema is in the search_path of the role, or in the URL: schema=NAME"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[(&str, &str)] =
        &[("name", "bytea not null"), ("token", "bigint not null"), ("owner", "bytea")];

    const TABLE: Layout = Layout {
        schema: "CREATE TABLE IF NOT EXISTS {table} (
    -- Three columns.
    name  bytea  NOT NULL PRIMARY KEY, -- in UTF-8
    token bigint NOT NULL DEFAULT 0,
    owner bytea  NULL
);",
        added: None,
    };

    fn found(columns: &[(&str, &str)]) -> FoundTable {
        let column = |(name, kind): &(&str, &str)| ((*name).into(), (*kind).into());
        FoundTable {
            columns: columns.iter().map(column).collect(),
            primary_key: vec!["name".to_owned()],
            fault: None,
        }
    }

    fn difference(found: &FoundTable) -> String {
        let table = ExpectedTable { name: TableName::default(), layout: &TABLE };
        table.compare(found).map_or_else(|error| error.to_string(), |()| "none".to_owned())
    }

    #[test]
    fn table_that_differs_is_refused_by_its_first_difference() {
        assert_eq!(difference(&found(COLUMNS)), "none");
        let short = found(&[("name", "character varying(64) not null"), ("token", "bigint not null")]);
        assert!(
            difference(&short)
                .ends_with("its column name is character varying(64) not null and should be bytea not null")
        );
        assert!(difference(&found(&COLUMNS[..1])).ends_with("it has no column token"));
        let more = found(&[COLUMNS[0], COLUMNS[1], COLUMNS[2], ("more", "text")]);
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
        let error = missing_table(&TableName::default(), "postgres://ada:***@db/app?mode=optimistic");
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        let way = "`leasehold init -u 'postgres://ada:***@db/app?mode=optimistic'`";
        assert!(error.help().is_some_and(|help| help.contains(way)));
    }
}
