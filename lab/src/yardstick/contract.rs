//! What each raw store implements, and what they share.

use crate::load::unmeasured;
use async_trait::async_trait;
use leasehold::{Config, Error, ErrorKind, LockName, Result};
use std::fmt::{Debug, Display};
use std::time::Duration;

/// A lease that outlasts every measurement, in microseconds.
pub(super) const LEASE: i64 = 30_000_000;

/// A store without a lock library.
#[async_trait]
pub(crate) trait Yardstick: Debug + Send + Sync {
    /// The name and version of the server.
    async fn server(&self) -> Result<String>;

    /// True if this store has such a measure.
    fn has(&self, measure: ByHand) -> bool;

    /// Takes a free name and gives it back by the fewest requests that are still correct: a lease with a new token, and a release
    /// that checks its owner.
    async fn raw_pair(&self, name: &LockName) -> Result<()>;

    /// The same without a token: the difference is the cost of a token.
    async fn tokenless_pair(&self, _name: &LockName) -> Result<()> {
        Err(unmeasured())
    }

    /// Takes a free name, and gives it back while a waiter on another connection listens. Answers the time from the start of
    /// the release until the waiter was told. Must not be called concurrently.
    async fn raw_notice(&self, _name: &LockName) -> Result<Duration> {
        Err(unmeasured())
    }

    /// The counters of the server since its start, for all its clients; `None` if it has none, or may not tell.
    async fn counters(&self) -> Result<Option<ServerCounters>> {
        Ok(None)
    }
}

/// The raw measures, which are written by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByHand {
    Pair,
    TokenlessPair,
    Notice,
}

/// The counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerCounters {
    /// Commands or statements, those inside scripts included.
    pub(crate) commands: u64,
    /// Bytes received and sent; 0 if it does not count them.
    pub(crate) bytes: u64,
}

/// The table of leases; `None` where a lock is a transaction.
pub(super) fn table_of_leases(config: &Config) -> Option<String> {
    let mut query = config.url().query();
    let has_leases = query.take("mode").is_none_or(|mode| mode != "for-update");
    has_leases.then(|| query.take("table").unwrap_or_else(|| "leasehold".to_owned()))
}

/// A lock's name as the store knows it.
pub(super) fn stored_name(config: &Config, name: &LockName) -> String {
    let prefix = config.prefix().map_or("", |prefix| prefix.prefix());
    [prefix, name.as_str()].concat()
}

pub(super) fn broken(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    unexpected("a request for measuring failed").with_source(error)
}

pub(super) fn unexpected(what: impl Display) -> Error {
    Error::new(ErrorKind::Unavailable, what.to_string())
        .with_help("measure again; no other program may use these names")
}

/// An error if a statement that takes or frees a name has changed no row.
pub(super) fn changed(rows: u64) -> Result<()> {
    if rows == 0 { Err(unexpected("a name for measuring is in use")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_have_no_table_of_leases() {
        let table = |url| table_of_leases(&Config::new(url).unwrap());
        assert_eq!(table("mysql://u@h/db?mode=for-update"), None);
        assert_eq!(table("mysql://u@h/db?mode=optimistic&table=locks").as_deref(), Some("locks"));
        assert_eq!(table("sqlite:locks.db").as_deref(), Some("leasehold"));
    }
}
