//! A table as it must be, and the error of one that is missing.

use crate::names::TableName;
use leasehold_core::{Error, ErrorKind};

#[derive(Debug)]
pub(crate) struct ExpectedTable {
    pub(crate) name: TableName,
    pub(crate) layout: &'static Layout,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The statement that makes it.
    pub(crate) schema: &'static str,
    /// What it then consists of, in the words of `layout.sql`, with commas between them.
    pub(crate) parts: &'static str,
}

pub(super) fn missing_table(table: &TableName, url: &str) -> Error {
    let message = format!("there is no table {table}, or these credentials may not use it");
    Error::new(ErrorKind::Misconfigured, message).with_help(format!(
        "make it with `leasehold init -u '{url}'`, or have the statements run for you that `init --print` shows; \
         on PostgreSQL, its schema is in the search_path of the role, or in the URL: schema=NAME"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_table_is_reported_with_the_way_to_make_it() {
        let table = TableName::parse(None, TableName::DEFAULT, 58).unwrap();
        let error = missing_table(&table, "postgres://ada:***@db/app?mode=optimistic");
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        let way = "`leasehold init -u 'postgres://ada:***@db/app?mode=optimistic'`";
        assert!(error.help().is_some_and(|help| help.contains(way)));
    }
}
