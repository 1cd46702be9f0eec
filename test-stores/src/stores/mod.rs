//! The backends of this workspace as subjects of the suite, each on private servers of its own, and made by nothing
//! but a URL.

mod adapter;
mod kinds;
mod memory;
mod named;
mod pool;
mod redis;
mod redis_cluster;
mod redis_sentinel;
mod redlock;
mod sql;
mod sqlite;
mod wall_clock;
mod zookeeper;

use crate::servers::MySqlServer;
use adapter::{Adapter, Kind};
use leasehold::client::{LockClientBuilder, Observer};
use leasehold::{Config, DistributedLock, Registry, Result};
use leasehold_conformance::server::disk_missing;
use leasehold_conformance::{Cannot, Kinds, Subject};
pub use named::named;
use sql::{MariaDb, MySql, Postgres};
use std::sync::Arc;
use std::time::Duration;

/// The library's kinds of lock, with the blocking API of the facade.
pub fn kinds() -> &'static dyn Kinds {
    &kinds::KINDS
}

/// Every backend in every mode. Oracle's MySQL is among them if its folder is named in the environment
/// ([`MySqlServer::FOLDER`]): it is not in stable Debian.
pub fn all() -> Vec<Box<dyn Subject>> {
    let mut subjects: Vec<Box<dyn Subject>> = vec![
        Box::new(memory::Memory),
        Box::new(sqlite::Sqlite),
        Box::new(redis::Redis::default()),
        Box::new(redis_sentinel::RedisSentinel::default()),
        Box::new(redis_cluster::RedisCluster::default()),
        Box::new(redlock::Redlock::default()),
        Box::new(MariaDb::lease("mariadb")),
        Box::new(MariaDb::for_update("mariadb-for-update")),
        Box::new(MariaDb::optimistic("mariadb-optimistic")),
        Box::new(Postgres::lease("postgres")),
        Box::new(Postgres::for_update("postgres-for-update")),
        Box::new(Postgres::optimistic("postgres-optimistic")),
        Box::new(zookeeper::ZooKeeper::default()),
        Box::new(zookeeper::ZooKeeperEnsemble::default()),
    ];
    if std::env::var_os(MySqlServer::FOLDER).is_some() {
        subjects.push(Box::new(MySql::lease("mysql")));
        subjects.push(Box::new(MySql::for_update("mysql-for-update")));
        subjects.push(Box::new(MySql::optimistic("mysql-optimistic")));
    }
    subjects
}

/// Kinds of lock in the place of a plain lock: the cases of one name test them too. Each kind is on memory and, unless it needs
/// shared locks, on one other store, so that the kinds meet stores of different sorts at little cost.
pub fn adapters() -> Vec<Box<dyn Subject>> {
    vec![
        Box::new(Adapter::new(memory::Memory, Kind::Write)),
        Box::new(Adapter::new(memory::Memory, Kind::SetOfOne)),
        Box::new(Adapter::new(memory::Memory, Kind::Scope)),
        Box::new(Adapter::new(memory::Memory, Kind::SemaphoreOfOne)),
        Box::new(Adapter::new(memory::Memory, Kind::Blocking)),
        Box::new(Adapter::new(redis::Redis::default(), Kind::SemaphoreOfOne)),
        Box::new(Adapter::new(Postgres::lease("postgres"), Kind::Scope)),
        Box::new(Adapter::new(zookeeper::ZooKeeper::default(), Kind::SetOfOne)),
        Box::new(Adapter::new(sqlite::Sqlite, Kind::Blocking)),
    ]
}

/// A URL, and the prefix of lock names if there is one: `URL` or `URL PREFIX`, in one line for worker processes.
async fn connect(address: &str) -> Result<Arc<dyn DistributedLock>> {
    leasehold::connect_with(&config(address)?).await
}

async fn connect_observed(address: &str, observer: Arc<dyn Observer>) -> Result<Arc<dyn DistributedLock>> {
    let observed = |client: LockClientBuilder| client.with_observer(observer);
    Ok(Arc::new(Registry::default().connect_with(&config(address)?, observed).await?))
}

fn config(address: &str) -> Result<Config> {
    let (url, prefix) = address.split_once(' ').map_or((address, None), |(url, prefix)| (url, Some(prefix)));
    let config = Config::new(url)?;
    match prefix {
        Some(prefix) => config.with_prefix(prefix),
        None => Ok(config),
    }
}

/// What was to be deleted.
const NOBODY: &str = "nobody holds the lock";

/// A password that is to be found nowhere.
const SECRET: &str = "S3CR3T-CANARY";

/// What stands in a URL for a client that has no more patience with a server than this.
fn timeouts(patience: Duration) -> String {
    let patience = patience.as_millis();
    format!("timeout={patience}ms&connect_timeout={patience}ms")
}

fn cannot(error: impl std::fmt::Display) -> Cannot {
    Cannot::failed(error)
}

/// Fails if no server can be given a disk that loses its power.
fn ensure_disk() -> Result<(), Cannot> {
    let why = |why| Err(Cannot::new(format!("no disk that loses its power can be made here: {why}")));
    disk_missing().map_or(Ok(()), why)
}

/// What an administrator's work may take.
async fn in_time(
    otherwise: &str,
    work: impl Future<Output = std::result::Result<(), Cannot>>,
) -> std::result::Result<(), Cannot> {
    let late = |_| Cannot::failed(format!("{otherwise} after {DONE_WITHIN:?}"));
    tokio::time::timeout(DONE_WITHIN, work).await.map_err(late)?
}

const DONE_WITHIN: Duration = Duration::from_secs(20);
