//! The backends of this workspace as subjects of the suite, each made by nothing but a URL.

mod local_queue;
mod memory;
mod redis;
mod redis_cluster;
mod redis_sentinel;
mod redlock;
mod sql;
mod sqlite;
mod zookeeper;

pub(crate) use local_queue::WithLocalQueue;
pub(crate) use memory::Memory;
pub(crate) use redis::Redis;
pub(crate) use redis_cluster::RedisCluster;
pub(crate) use redis_sentinel::RedisSentinel;
pub(crate) use redlock::Redlock;
pub(crate) use sql::{MariaDb, MySql, Postgres};
pub(crate) use sqlite::Sqlite;
pub(crate) use zookeeper::{ZooKeeper, ZooKeeperEnsemble};

use leasehold::{Config, DistributedLock, Result};
use leasehold_conformance::Cannot;
use std::sync::Arc;

/// A URL, and the prefix of lock names if there is one: `URL` or `URL PREFIX`, in one line for worker processes.
async fn connect(address: &str) -> Result<Arc<dyn DistributedLock>> {
    let (url, prefix) = address.split_once(' ').map_or((address, None), |(url, prefix)| (url, Some(prefix)));
    let config = Config::new(url)?;
    let config = match prefix {
        Some(prefix) => config.with_prefix(prefix)?,
        None => config,
    };
    leasehold::connect_with(&config).await
}

fn cannot(error: impl std::fmt::Display) -> Cannot {
    Cannot::new(error.to_string())
}
