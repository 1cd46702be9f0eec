//! What a table consists of, compared with what it must consist of.

/// The first difference between the parts that a `layout.sql` has found and those that must be there, with commas between them; `None`
/// if there is none. The order means nothing.
pub(crate) fn difference(found: &[String], expected: &str) -> Option<String> {
    let odd = found.iter().find(|part| expected.split(", ").all(|expected| expected != *part));
    let missing = expected.split(", ").find(|part| found.iter().all(|found| found != part));
    match (odd, missing) {
        (None, None) => None,
        (Some(odd), Some(missing)) => Some(format!("it has {odd:?} in place of {missing:?}")),
        (Some(odd), None) => Some(format!("it has {odd:?} besides")),
        (None, Some(missing)) => Some(format!("it has no {missing:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn table_that_differs_is_told_by_its_first_difference() {
        let differs = |found: &[&str]| {
            let found: Vec<String> = found.iter().map(|part| (*part).to_owned()).collect();
            difference(&found, "table, name bytea not null, token bigint")
        };
        let told = |found: &[&str]| differs(found).unwrap();
        assert_eq!(differs(&["table", "token bigint", "name bytea not null"]), None);
        assert_eq!(
            told(&["table", "name text", "token bigint"]),
            "it has \"name text\" in place of \"name bytea not null\""
        );
        assert_eq!(told(&["table", "token bigint"]), "it has no \"name bytea not null\"");
        assert_eq!(
            told(&["table", "name bytea not null", "token bigint", "more text"]),
            "it has \"more text\" besides"
        );
    }
}
