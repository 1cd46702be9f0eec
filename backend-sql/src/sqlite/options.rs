use leasehold_core::{Error, Result};
use leasehold_store_url::StoreUrl;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
const BUSY_AT_LEAST: Duration = Duration::from_millis(10);
const BUSY_AT_MOST: Duration = Duration::from_secs(60);

/// What a URL says of the store.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// Absolute, so that a change of the working directory does not change the store, and so that SQLite reads neither a
    /// `file:` URI nor `:memory:` out of it.
    pub(super) file: PathBuf,
    pub(super) table: TableName,
    pub(super) busy_timeout: Duration,
    pub(super) allow_network_fs: bool,
}

/// The name of a table: letters, digits and underscores, so that it can stand in a statement.
#[derive(Clone, Debug)]
pub(super) struct TableName(String);

impl Options {
    pub(super) fn parse(url: &StoreUrl) -> Result<Self> {
        let mut query = url.query();
        let options = Self {
            file: parse_file(url)?,
            table: TableName::parse(query.take("table"))?,
            busy_timeout: check_busy_timeout(query.take_duration("busy_timeout")?)?,
            allow_network_fs: query
                .take_choice("allow_network_fs", &[("yes", true), ("no", false)])?
                .unwrap_or(false),
        };
        query.finish()?;
        Ok(options)
    }
}

impl TableName {
    const DEFAULT: &str = "leasehold";
    const MAX_BYTES: usize = 63;

    fn parse(name: Option<String>) -> Result<Self> {
        let Some(name) = name else {
            return Ok(Self::default());
        };
        let good = name.len() <= Self::MAX_BYTES
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !good {
            return Err(Error::invalid(
                "table",
                format_args!("{name:?}"),
                "begin it with a letter or _, go on with letters, digits and _, 63 in all at most",
            ));
        }
        if name.to_ascii_lowercase().starts_with("sqlite_") {
            return Err(Error::invalid(
                "table",
                format_args!("{name:?}: SQLite keeps names that begin with sqlite_ for itself"),
                "name it otherwise",
            ));
        }
        Ok(Self(name))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as it stands in a statement: `order` is a good name too.
    pub(super) fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

impl Default for TableName {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn parse_file(url: &StoreUrl) -> Result<PathBuf> {
    if url.authority().is_ok_and(|server| server.user.is_some() || server.password.is_some()) {
        return Err(invalid(
            "it has a user or a password, and a file has none",
            "write it like sqlite:/path/to/locks.db",
        ));
    }
    let path = url.path()?;
    if path.is_empty() {
        return Err(invalid("it names no file", "write it like sqlite:/path/to/locks.db"));
    }
    if path.starts_with(":memory:") {
        return Err(invalid(
            "a database in memory is private to its connection and would lock nobody out",
            "name a file; for the tasks of one process use memory:",
        ));
    }
    if has_two_slashes(url) {
        return Err(invalid(
            "it has two slashes where a path begins",
            "write sqlite:/path, or sqlite:./path",
        ));
    }
    // Taken literally, it would be another store in every working directory.
    if let Some(sign @ ('~' | '$')) = path.chars().next() {
        return Err(invalid(
            format_args!("{path:?} begins with a {sign} that nothing here replaces"),
            "write the whole path; or begin with ./ if a directory has that name",
        ));
    }
    if path.chars().any(char::is_control) {
        return Err(invalid("its path has a control character", "take it out"));
    }
    if path.ends_with('/') {
        return Err(invalid(format_args!("{path:?} is a directory"), "name a file in it"));
    }
    std::path::absolute(Path::new(&path)).map_err(|error| {
        invalid("its path is relative, and there is no working directory", "write an absolute path")
            .with_source(error)
    })
}

/// True for `sqlite://path`, but not for `sqlite:///path`: what is meant may be `sqlite:${HOME}/path` with a home of `/`,
/// and the relative path that it would be is another store in every working directory.
fn has_two_slashes(url: &StoreUrl) -> bool {
    let shown = url.to_string();
    let body = shown.strip_prefix(url.scheme()).and_then(|rest| rest.strip_prefix("://"));
    body.is_some_and(|path| !path.starts_with('/'))
}

fn check_busy_timeout(given: Option<Duration>) -> Result<Duration> {
    let time = given.unwrap_or(BUSY_TIMEOUT);
    if time < BUSY_AT_LEAST {
        let problem = format_args!("{time:?}, at least {BUSY_AT_LEAST:?}");
        return Err(Error::invalid("busy_timeout", problem, "lengthen it"));
    }
    if time > BUSY_AT_MOST {
        let problem = format_args!("{time:?}, at most {BUSY_AT_MOST:?}");
        return Err(Error::invalid("busy_timeout", problem, "shorten it"));
    }
    Ok(time)
}

fn invalid(problem: impl fmt::Display, fix: &'static str) -> Error {
    Error::invalid("store URL", problem, fix)
}
