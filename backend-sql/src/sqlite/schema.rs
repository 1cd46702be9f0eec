//! The columns that the table must have, and the errors of a table that has others.

use super::options::Options;
use leasehold_core::{Error, ErrorKind, Result};
use std::fmt;

/// The comment in `schema.sql`, which SQLite keeps with the table.
const MARK: &str = "leasehold schema ";
const VERSION: u32 = 2;
/// The column that tables of schema 1 lack.
const ADDED: &str = "sharers";
const COLUMNS: [(&str, &str); 10] = [
    ("name", "BLOB NOT NULL PRIMARY KEY"),
    ("owner", "BLOB NOT NULL"),
    ("token", "INTEGER NOT NULL"),
    ("ends_at", "INTEGER NOT NULL"),
    ("linger_until", "INTEGER NOT NULL"),
    ("written_at", "INTEGER NOT NULL"),
    ("boot", "TEXT"),
    ("acquired_at", "INTEGER NOT NULL"),
    ("holder", "TEXT NOT NULL"),
    (ADDED, "TEXT NOT NULL"),
];

/// The kind, the name and the statement of an object, as SQLite keeps them. An index that is part of a constraint has no statement.
pub(super) type Object = (String, String, Option<String>);
/// The name of a column, and its definition.
pub(super) type Column = (String, String);

/// The state of the table in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schema {
    Missing,
    /// Of schema 1: a column is missing.
    Old,
    Present,
}

/// Judges the objects with the table's name, and its columns.
///
/// A trigger is refused as well: it runs inside our statements, and could do anything to them.
pub(super) fn judge(options: &Options, objects: &[Object], columns: &[Column]) -> Result<Schema> {
    if let Some((_, name, _)) = objects.iter().find(|(kind, ..)| kind == "trigger") {
        return Err(foreign(options, format_args!("it has a trigger, {name:?}")));
    }
    let is_table = |(_, name, _): &&Object| name.eq_ignore_ascii_case(options.table.as_str());
    match objects.iter().find(is_table) {
        None => Ok(Schema::Missing),
        Some((kind, _, statement)) if kind == "table" => {
            match version(statement.as_deref().unwrap_or_default()) {
                Some(version) if version > VERSION => Err(newer(options, version)),
                _ => check_columns(options, columns),
            }
        }
        Some((kind, ..)) => Err(foreign(options, format_args!("it is a {kind}"))),
    }
}

fn check_columns(options: &Options, found: &[Column]) -> Result<Schema> {
    let is_old = found.iter().all(|(name, _)| name != ADDED);
    for (name, wanted) in COLUMNS.into_iter().filter(|(name, _)| !is_old || *name != ADDED) {
        match found.iter().find(|column| column.0 == name) {
            None => return Err(foreign(options, format_args!("it has no column {name}"))),
            Some((_, found)) if found != wanted => {
                let difference = format_args!("its column {name} {found} should be {name} {wanted}");
                return Err(foreign(options, difference));
            }
            Some(_) => {}
        }
    }
    match found.iter().find(|(name, _)| COLUMNS.iter().all(|known| known.0 != name)) {
        Some((name, kind)) => Err(foreign(options, format_args!("it has a column too many, {name} {kind}"))),
        None if is_old => Ok(Schema::Old),
        None => Ok(Schema::Present),
    }
}

/// The version in the table's own comment.
fn version(statement: &str) -> Option<u32> {
    let (_, rest) = statement.split_once(MARK)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

fn foreign(options: &Options, difference: fmt::Arguments<'_>) -> Error {
    misconfigured(options, format_args!("is not ours: {difference}"))
        .with_help("name another file, or another table with table=NAME; this one was left as it is")
}

/// The error of a reader: the next writer adds the column.
pub(super) fn older(options: &Options) -> Error {
    misconfigured(options, format_args!("has schema 1, and this program reads {VERSION}"))
        .with_help("run `leasehold init`; the first acquisition by this program does the same")
}

fn newer(options: &Options, version: u32) -> Error {
    misconfigured(options, format_args!("has schema {version}, and this program knows {VERSION}"))
        .with_help("update this program, or name another table with table=NAME")
}

fn misconfigured(options: &Options, problem: fmt::Arguments<'_>) -> Error {
    let message = format!("the table {} in {} {problem}", options.table.as_str(), options.path);
    Error::new(ErrorKind::Misconfigured, message)
}
