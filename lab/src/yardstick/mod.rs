//! Raw stores, without a lock library: the baseline of a benchmark. Requests go through the client crates that the backends use, with no
//! time limit and no retry; to servers they go over TCP, unencrypted.

mod connections;
mod contract;
mod mysql;
mod postgres;
mod redis;
mod sqlite;
mod zookeeper;

pub(crate) use contract::{ByHand, ServerCounters, Yardstick};

use leasehold::{Config, Result};
use std::sync::Arc;

/// The configured store itself; `None` if it has no baseline. Opens nothing.
pub(crate) fn yardstick(config: &Config) -> Result<Option<Arc<dyn Yardstick>>> {
    let url = config.url();
    Ok(Some(match url.scheme() {
        "redis" | "valkey" => Arc::new(redis::RawRedis::new(config)?),
        "mysql" | "mariadb" if is_in_the_clear(config) => Arc::new(mysql::RawMySql::new(config)?),
        "postgres" | "postgresql" if is_in_the_clear(config) => Arc::new(postgres::RawPostgres::new(config)?),
        "sqlite" => Arc::new(sqlite::RawSqlite::new(config)?),
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
