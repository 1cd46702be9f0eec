use super::database_path::DatabasePath;
use crate::names::TableName;
use leasehold_core::{Error, Result};
use leasehold_store_url::StoreUrl;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
const BUSY_TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);
const TABLE_BYTES: usize = 63;
const WRITE_IT: &str = "write it like sqlite:/path/to/locks.db";
const WHOLE: &str = "write the whole path; or begin with ./ if a directory has that name";

#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) path: DatabasePath,
    pub(super) table: TableName,
    pub(super) busy_timeout: Duration,
}

impl Options {
    pub(super) fn parse(url: &StoreUrl) -> Result<Self> {
        let mut query = url.query();
        let file = parse_file(url)?;
        let table = TableName::parse(query.take("table"), TableName::DEFAULT, TABLE_BYTES)?;
        if table.as_str().to_ascii_lowercase().starts_with("sqlite_") {
            return Err(Error::invalid("table", table, "name it otherwise: SQLite keeps such names"));
        }
        let busy_timeout = query.take_duration_within("busy_timeout", &BUSY_TIMEOUT_RANGE)?;
        let allow = query.take_choice("allow_network_fs", &[("yes", true), ("no", false)])?;
        query.finish()?;
        let path = DatabasePath { file, allow_network_fs: allow.unwrap_or(false) };
        Ok(Self { path, table, busy_timeout: busy_timeout.unwrap_or(BUSY_TIMEOUT) })
    }

    /// A statement for the table. `order` is a good name too, so it is quoted.
    pub(super) fn statement(&self, template: &str) -> String {
        template.replace("{table}", &format!("\"{}\"", self.table))
    }
}

/// Absolute, so that a change of the working directory does not change the store, and so that SQLite reads neither a
/// `file:` URI nor `:memory:` out of it.
fn parse_file(url: &StoreUrl) -> Result<PathBuf> {
    if url.authority().is_ok_and(|server| server.user.is_some() || server.password.is_some()) {
        return Err(invalid("it has a user or a password, and a file has none", WRITE_IT));
    }
    let path = url.path()?;
    let begins_with = |beginning: &str| path.starts_with(beginning);
    // `sqlite://path`, and not `sqlite:///path`: it may come from `sqlite:${HOME}/path` with a home of `/`, and as a relative path it
    // would be another store in every working directory.
    let shown = url.to_string();
    let behind = shown.strip_prefix(url.scheme()).and_then(|rest| rest.strip_prefix("://"));
    let has_two_slashes = behind.is_some_and(|path| !path.starts_with('/'));
    let refusals = [
        (path.is_empty(), "it names no file", WRITE_IT),
        (
            begins_with(":memory:"),
            "a database in memory would lock nobody out",
            "name a file, or use memory:",
        ),
        (has_two_slashes, "it has two slashes where a path begins", "write sqlite:/path, or sqlite:./path"),
        // Taken literally, it would be another store in every working directory.
        (begins_with("~"), "its path begins with a ~ that nothing here replaces", WHOLE),
        (begins_with("$"), "its path begins with a $ that nothing here replaces", WHOLE),
        (path.chars().any(char::is_control), "its path has a control character", "take it out"),
        (path.ends_with('/'), "its path is a directory", "name a file in it"),
    ];
    if let Some((_, problem, fix)) = refusals.into_iter().find(|(is_refused, ..)| *is_refused) {
        return Err(invalid(problem, fix));
    }
    std::path::absolute(Path::new(&path)).map_err(|error| {
        invalid("its path is relative, and there is no working directory", "write an absolute path")
            .with_source(error)
    })
}

fn invalid(problem: &str, fix: &'static str) -> Error {
    Error::invalid("store URL", problem, fix)
}
