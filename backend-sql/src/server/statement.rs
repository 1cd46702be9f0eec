//! Statements: made of `.sql` files once, when the store is opened.

use super::{ColumnType, Texts, Value};
use crate::names::TableName;
use std::sync::Arc;

pub(crate) const MAX_CLAIMS: usize = leasehold_core::MAX_CLAIMS_PER_RENEWAL;

/// For how many claims a statement is written. Each size is prepared once per connection; a statement for fewer claims is
/// filled up by naming one of them again, which changes nothing.
const SIZES: [usize; 4] = [1, 8, 32, MAX_CLAIMS];

/// A statement for one dialect and one table.
#[derive(Debug)]
pub(crate) struct Statement {
    /// With a parameter at each place of a value.
    pub(crate) text: Arc<str>,
    /// The texts before, between and behind the values.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "for PostgreSQL's simple protocol"))]
    parts: Vec<String>,
    /// Which of the values stands at each place.
    places: Vec<usize>,
    pub(crate) columns: Vec<ColumnType>,
}

/// A statement for any number of claims.
#[derive(Debug)]
pub(crate) struct ListStatement {
    statements: [Statement; SIZES.len()],
}

impl Statement {
    /// Makes a statement of a template: comments are taken out; `{table}`, `{now}`, `{one_if_writable}` and `{channel}` are put
    /// in; `:1` is the first value, and may stand at several places. A line `-- answers: bytes int text` says what comes back.
    pub(crate) fn new(template: &str, texts: &Texts, table: &TableName) -> Self {
        Self::of_size(template, texts, table, 1)
    }

    /// In a template for several claims, `[:1]` is a list: the first value of each claim. Values that are no lists come first.
    fn of_size(template: &str, texts: &Texts, table: &TableName, size: usize) -> Self {
        let columns = template.lines().find_map(|line| line.strip_prefix("-- answers:"));
        let text: Vec<&str> = template.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
        let text = text
            .join("\n")
            .replace("{table}", &texts.quoted(table))
            .replace("{now}", texts.now)
            .replace("{one_if_writable}", texts.one_if_writable)
            .replace("{channel}", table.as_str());
        let (parts, places) = split(&with_lists(text.trim().trim_end_matches(';'), size));
        let parameter = |place| match texts.numbers_parameters {
            true => format!("${}", place + 1),
            false => "?".to_owned(),
        };
        Self {
            text: join(&parts, parameter).into(),
            parts,
            places,
            columns: columns.into_iter().flat_map(str::split_whitespace).map(ColumnType::parse).collect(),
        }
    }

    pub(crate) fn in_place<'a>(&self, values: &'a [Value]) -> impl Iterator<Item = &'a Value> {
        self.places.iter().map(|place| &values[*place])
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn with_values(&self, values: &[Value], literal: impl Fn(&Value) -> String) -> String {
        join(&self.parts, |place| literal(&values[self.places[place]]))
    }
}

impl ListStatement {
    pub(crate) fn new(template: &str, texts: &Texts, table: &TableName) -> Self {
        Self { statements: SIZES.map(|size| Statement::of_size(template, texts, table, size)) }
    }

    /// The statement for so many claims, and for how many it is written.
    pub(crate) fn for_claims(&self, claims: usize) -> (&Statement, usize) {
        let at = SIZES.iter().position(|size| *size >= claims).unwrap_or(SIZES.len() - 1);
        (&self.statements[at], SIZES[at])
    }
}

/// `[:2]` becomes `:2, :3, :4` for three claims; a second list goes on where the first has ended.
fn with_lists(text: &str, size: usize) -> String {
    let mut parts = text.split("[:");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for (list, part) in parts.enumerate() {
        let (first, rest) = part.split_once(']').unwrap_or((part, ""));
        let first: usize = first.parse().unwrap_or(1);
        // The lists of a template are numbered one after the other; each is as long as the claims are many.
        let first = first + list * (size - 1);
        let values: Vec<String> = (first..first + size).map(|number| format!(":{number}")).collect();
        out += &values.join(", ");
        out += rest;
    }
    out
}

/// Splits a text at `:1` and its like, and says which value stands at each place. A second colon is PostgreSQL's cast.
fn split(text: &str) -> (Vec<String>, Vec<usize>) {
    let (mut part, mut parts, mut places, mut rest) = (String::new(), Vec::new(), Vec::new(), text);
    while let Some((before, behind)) = rest.split_once(':') {
        part += before;
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        match behind[..digits].parse::<usize>() {
            Ok(number) => {
                places.push(number - 1);
                parts.push(std::mem::take(&mut part));
            }
            Err(_) => part.push(':'),
        }
        rest = &behind[digits..];
    }
    parts.push(part + rest);
    (parts, places)
}

fn join(parts: &[String], value: impl Fn(usize) -> String) -> String {
    let mut text = parts[0].clone();
    for (place, part) in parts[1..].iter().enumerate() {
        text += &value(place);
        text += part;
    }
    text
}

#[cfg(all(test, feature = "mysql", feature = "postgres"))]
#[allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]
mod tests {
    use super::*;

    const MYSQL: &Texts = &crate::mysql::TEXTS;
    const POSTGRES: &Texts = &crate::postgres::TEXTS;

    fn table() -> TableName {
        TableName::parse(None, TableName::DEFAULT, 58).unwrap()
    }

    #[test]
    fn value_that_is_named_twice_has_two_places() {
        let template = "-- why\n-- answers: int bytes\nSELECT :2, CAST(:1 AS int2[]), :2 FROM {table};\n";
        let statement = Statement::new(template, MYSQL, &table());
        assert_eq!(&*statement.text, "SELECT ?, CAST(? AS int2[]), ? FROM `leasehold`");
        assert_eq!(statement.places, [1, 0, 1]);
        assert_eq!(statement.columns, [ColumnType::Int, ColumnType::Bytes]);
        let statement = Statement::new(template, POSTGRES, &table());
        assert_eq!(&*statement.text, "SELECT $1, CAST($2 AS int2[]), $3 FROM \"leasehold\"");
        assert_eq!(statement.places, [1, 0, 1]);
    }

    #[test]
    fn list_of_several_claims_has_a_place_for_each() {
        let list = ListStatement::new("UPDATE {table} :1 IN ([:2]) AND ([:3])", POSTGRES, &table());
        let (one, size) = list.for_claims(1);
        assert_eq!((&*one.text, size), ("UPDATE \"leasehold\" $1 IN ($2) AND ($3)", 1));
        let (eight, size) = list.for_claims(2);
        assert_eq!(size, 8);
        assert!(
            eight.text.ends_with(
                "IN ($2, $3, $4, $5, $6, $7, $8, $9) AND ($10, $11, $12, $13, $14, $15, $16, $17)"
            )
        );
        assert_eq!(eight.places.len(), 17);
        assert_eq!(list.for_claims(MAX_CLAIMS).1, MAX_CLAIMS);
    }

    #[test]
    fn cast_is_no_parameter() {
        let statement = Statement::new("SELECT a::text, :1", MYSQL, &table());
        assert_eq!(&*statement.text, "SELECT a::text, ?");
    }
}
