use super::connection::SqliteQuery;
use super::host_clock::HostClock;
use super::options::Options;
use leasehold_core::{Error, ErrorKind, LockName, Namespace};
use sqlx::AssertSqlSafe;

#[derive(Debug)]
pub(super) struct Settings {
    pub(super) options: Options,
    pub(super) namespace: Namespace,
    pub(super) clock: HostClock,
}

impl Settings {
    pub(super) fn query(&self, template: &str) -> SqliteQuery {
        sqlx::query(AssertSqlSafe(self.options.statement(template)))
    }

    pub(super) fn stored_name(&self, name: &LockName) -> Vec<u8> {
        self.namespace.stored(name.as_str()).into_bytes()
    }

    pub(super) fn unreadable(&self, error: sqlx::Error) -> Error {
        self.options.failure(error, ErrorKind::Unavailable)
    }
}
