//! What a table consists of, compared with what it must consist of.

use leasehold_core::{Error, ErrorKind, Result};
use std::fmt;

/// Fails with the first difference between the parts of a table that a `layout.sql` has found and those that must be there, with commas
/// between them. The order means nothing.
pub(crate) fn compare(table: &dyn fmt::Display, found: &[String], expected: &str) -> Result<()> {
    let odd = found.iter().find(|part| expected.split(", ").all(|expected| expected != *part));
    let missing = expected.split(", ").find(|part| found.iter().all(|found| found != part));
    let difference = match (odd, missing) {
        (None, None) => return Ok(()),
        (Some(odd), Some(missing)) => format!("it has {odd:?} in place of {missing:?}"),
        (Some(odd), None) => format!("it has {odd:?} besides"),
        (None, Some(missing)) => format!("it has no {missing:?}"),
    };
    Err(Error::new(ErrorKind::Misconfigured, format!("the table {table} is not ours: {difference}")).with_help(
        "name another one with table=NAME; this one was left as it is, and a later program may have made it",
    ))
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn table_that_differs_is_told_by_its_first_difference() {
        let differs = |found: &[&str]| {
            let found: Vec<String> = found.iter().map(|part| (*part).to_owned()).collect();
            compare(&"locks", &found, "table, name bytea not null, token bigint")
        };
        let told = |found: &[&str]| differs(found).unwrap_err().to_string();
        differs(&["table", "token bigint", "name bytea not null"]).unwrap();
        assert_eq!(
            told(&["table", "name text", "token bigint"]),
            "the table locks is not ours: it has \"name text\" in place of \"name bytea not null\""
        );
        assert!(told(&["table", "token bigint"]).ends_with("it has no \"name bytea not null\""));
        assert!(
            told(&["table", "name bytea not null", "token bigint", "more text"])
                .ends_with("it has \"more text\" besides")
        );
    }
}
