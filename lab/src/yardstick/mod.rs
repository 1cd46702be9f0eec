//! Raw stores, without a lock library: the baseline of a benchmark. Requests go through the client crates that the backends use, with no
//! time limit and no retry; to servers they go over TCP, unencrypted.

mod redis;
mod sql;
mod zookeeper;

use async_trait::async_trait;
use leasehold::{Config, Error, ErrorKind, LockName, Result};
use std::fmt::{Debug, Display};
use std::sync::Arc;

/// A store without a lock library.
#[async_trait]
pub(crate) trait Yardstick: Debug + Send + Sync {
    /// The name and version of the server.
    async fn server(&self) -> Result<String>;

    /// True if what is sent by hand does what this store's locks do.
    fn has_pair(&self) -> bool {
        true
    }

    /// Takes a free name and gives it back by the fewest requests that are still correct: a lease with a new token, and a release
    /// that checks its owner.
    async fn pair(&self, name: &LockName) -> Result<()>;

    /// The counters of the server since its start, for all its clients; `None` if it has none, or may not tell.
    async fn counters(&self) -> Result<Option<ServerCounters>> {
        Ok(None)
    }
}

/// The counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerCounters {
    /// Commands or statements, those inside scripts included.
    pub(crate) commands: u64,
    /// Bytes received and sent; 0 if it does not count them.
    pub(crate) bytes: u64,
}

/// The configured store itself; `None` if it has no baseline. Opens nothing.
pub(crate) fn yardstick(config: &Config) -> Result<Option<Arc<dyn Yardstick>>> {
    let url = config.url();
    Ok(Some(match url.scheme() {
        "redis" | "valkey" => Arc::new(redis::RawRedis::new(config)?),
        "mysql" | "mariadb" if is_in_the_clear(config) => Arc::new(sql::RawSql::new(config, &sql::MYSQL)?),
        "postgres" | "postgresql" if is_in_the_clear(config) => {
            Arc::new(sql::RawSql::new(config, &sql::POSTGRES)?)
        }
        "sqlite" => Arc::new(sql::RawSql::new(config, &sql::SQLITE)?),
        "zk" if url.authority()?.user.is_none() => Arc::new(zookeeper::RawZooKeeper::new(config)?),
        _ => return Ok(None),
    }))
}

/// True for a database that is reached over TCP and without TLS. On this host, a missing `sslmode` means no TLS.
fn is_in_the_clear(config: &Config) -> bool {
    let mut query = config.url().query();
    let authority = config.url().authority();
    let host = authority.ok().and_then(|all| all.only_endpoint().map(|endpoint| endpoint.host.clone()).ok());
    let is_this_host =
        host.is_some_and(|host| host == "localhost" || host.starts_with("127.") || host == "::1");
    let is_clear = query.take("sslmode").map_or(is_this_host, |mode| mode == "disable");
    is_clear && query.take("socket").is_none()
}

/// A lock's name as the store knows it.
fn stored_name(config: &Config, name: &LockName) -> String {
    let prefix = config.prefix().map_or("", |prefix| prefix.prefix());
    [prefix, name.as_str()].concat()
}

fn broken(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    unexpected("a request for measuring failed").with_source(error)
}

fn unexpected(what: impl Display) -> Error {
    Error::new(ErrorKind::Unavailable, what.to_string())
        .with_help("measure again; no other program may use these names")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_yardstick(url: &str) -> bool {
        yardstick(&Config::new(url).unwrap()).unwrap().is_some()
    }

    /// On a runtime: a pool has tasks.
    #[tokio::test]
    async fn stores_in_the_clear_have_a_yardstick() {
        for url in ["redis://localhost", "zk://localhost", "mysql://u@localhost/db?sslmode=disable"] {
            assert!(has_yardstick(url), "{url}");
        }
        for url in ["rediss://localhost", "zk://u:p@localhost", "postgres://u@db.example/db", "memory:"] {
            assert!(!has_yardstick(url), "{url}");
        }
    }
}
