//! What the table must look like, and what to say of one that looks otherwise.

use super::options::TableName;
use leasehold_core::{Error, ErrorKind, Result};
use std::fmt;
use std::path::Path;

/// Made on first use, and kept by SQLite with its comments, the version among them.
const CREATE: &str = include_str!("schema.sql");
const MARK: &str = "leasehold schema ";
const VERSION: u32 = 2;
/// The column that tables of schema 1 lack.
const ADDED: &str = "sharers";

/// Something that goes by the table's name.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) kind: String,
    pub(super) name: String,
    /// The statement that made it, as SQLite keeps it. `None` for an index that is part of a constraint.
    pub(super) sql: Option<String>,
}

/// A column, as SQLite describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) not_null: bool,
    pub(super) in_primary_key: bool,
}

/// What is to be thought of what is there.
#[derive(Debug)]
pub(super) enum Found {
    Nothing,
    Ours,
    /// A table whose statement is not the one we would have made it with: its columns decide.
    Table,
}

pub(super) fn create_statement(table: &TableName) -> String {
    CREATE.replace("{table}", &table.quoted())
}

/// Judges what goes by the table's name.
///
/// A trigger is refused as well: it runs inside our statements, and could do anything to them.
pub(super) fn judge(table: &TableName, file: &Path, objects: &[Object]) -> Result<Found> {
    if let Some(trigger) = objects.iter().find(|object| object.kind == "trigger") {
        return Err(foreign(table, file, format_args!("it has a trigger, {:?}", trigger.name)));
    }
    let named = |object: &&Object| object.name.eq_ignore_ascii_case(table.as_str());
    let Some(object) = objects.iter().find(named) else {
        return Ok(Found::Nothing);
    };
    if object.kind != "table" {
        return Err(foreign(table, file, format_args!("it is a {}", object.kind)));
    }
    let sql = object.sql.as_deref().unwrap_or_default();
    match version(sql) {
        Some(version) if version > VERSION => Err(newer(table, file, version)),
        _ if definition(sql) == definition(&create_statement(table)) => Ok(Found::Ours),
        _ => Ok(Found::Table),
    }
}

/// Compares the columns that a table has with those that it must have. False if it is of schema 1, and has the rest.
pub(super) fn check_columns(table: &TableName, file: &Path, found: &[Column]) -> Result<bool> {
    let is_old = found.iter().all(|column| column.name != ADDED);
    for wanted in columns().into_iter().filter(|wanted| !is_old || wanted.name != ADDED) {
        let Some(found) = found.iter().find(|column| column.name == wanted.name) else {
            return Err(foreign(table, file, format_args!("it has no column {}", wanted.name)));
        };
        if *found != wanted {
            return Err(foreign(table, file, format_args!("its column {found} should be {wanted}")));
        }
    }
    let known = columns();
    match found.iter().find(|column| !known.contains(column)) {
        Some(column) => Err(foreign(table, file, format_args!("it has a column too many, {column}"))),
        None => Ok(!is_old),
    }
}

fn columns() -> [Column; 10] {
    [
        ("name", "BLOB"),
        ("owner", "BLOB"),
        ("token", "INTEGER"),
        ("ends_at", "INTEGER"),
        ("linger_until", "INTEGER"),
        ("written_at", "INTEGER"),
        ("boot", "TEXT"),
        ("acquired_at", "INTEGER"),
        ("holder", "TEXT"),
        (ADDED, "TEXT"),
    ]
    .map(|(name, kind)| Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        not_null: name != "boot",
        in_primary_key: name == "name",
    })
}

/// The version that stands in the table's own comment.
fn version(sql: &str) -> Option<u32> {
    let (_, rest) = sql.split_once(MARK)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// What stands behind the table's name: SQLite keeps that as it was written, and rewrites what is in front of it.
fn definition(sql: &str) -> Option<&str> {
    let definition = sql.get(sql.find('(')?..)?;
    Some(definition.trim_end().trim_end_matches(';'))
}

fn foreign(table: &TableName, file: &Path, difference: fmt::Arguments<'_>) -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        format!("the table {table} in {} is not ours: {difference}", file.display()),
    )
    .with_help("name another file, or another table with table=NAME; this one was left as it is")
}

/// The error of a reader: the next writer adds the column.
pub(super) fn older(table: &TableName, file: &Path) -> Error {
    let message =
        format!("the table {table} in {} has schema 1, and this program reads {VERSION}", file.display());
    Error::new(ErrorKind::Misconfigured, message)
        .with_help("run `leasehold init`; the first acquisition by this program does the same")
}

fn newer(table: &TableName, file: &Path, version: u32) -> Error {
    let message = format!(
        "the table {table} in {} has schema {version}, and this program knows {VERSION}",
        file.display()
    );
    Error::new(ErrorKind::Misconfigured, message)
        .with_help("update this program, or name another table with table=NAME")
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.kind)?;
        f.write_str(if self.not_null { " NOT NULL" } else { "" })?;
        f.write_str(if self.in_primary_key { " PRIMARY KEY" } else { "" })
    }
}
