//! Real servers for tests: child processes on free loopback ports, with data directories of their own, that end with
//! the test. No docker, no daemon, no fixed port.

mod authority;
mod disk;
mod launch;
mod mariadb;
mod mysql;
mod pgbouncer;
mod port;
mod postgres;
mod process;
mod processes;
mod redis;
mod redis_cluster;
mod redis_sentinel;
mod shared_folder;
mod spawn;
mod template;
mod zookeeper;

pub use authority::CertificateAuthority;
pub use disk::{Disk, disk_missing};
pub use launch::Launch;
pub use mariadb::{MariaDbServer, mariadb_server_missing};
pub use mysql::MySqlServer;
pub use pgbouncer::{PgBouncer, pgbouncer_missing};
pub use port::free_port;
pub use postgres::{PostgresServer, postgres_server_missing};
pub use process::ServerProcess;
pub(crate) use processes::until_still;
pub use redis::{RedisServer, ask_redis, redis_server_missing};
pub use redis_cluster::RedisCluster;
pub use redis_sentinel::RedisSentinelGroup;
pub use shared_folder::{SharedFolder, shared_folder_missing};
pub(crate) use spawn::spawn_lasting;
pub use zookeeper::{
    ZooKeeperEnsemble, ZooKeeperRole, ZooKeeperServer, ask_zookeeper, zookeeper_server_missing,
};

use std::fmt;
use std::path::PathBuf;

/// A server could not be started, and why.
#[derive(Debug)]
#[non_exhaustive]
pub struct StartError {
    /// What was tried and what came of it, in one line.
    pub message: String,
}

impl StartError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StartError {}

/// The program of this name, as a shell would find it.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}
