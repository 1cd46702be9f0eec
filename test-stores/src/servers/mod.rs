//! Real servers for tests: child processes on free loopback ports, with data directories of their own, that end with
//! the test. No docker, no daemon, no fixed port.

/// A server is a process with a port: it can do what its process can.
macro_rules! process_on_port {
    ($server:ty) => {
        impl $server {
            /// Its port on 127.0.0.1.
            pub fn port(&self) -> u16 {
                self.port
            }
        }

        impl std::ops::Deref for $server {
            type Target = leasehold_conformance::server::ServerProcess;

            fn deref(&self) -> &Self::Target {
                &self.process
            }
        }

        impl std::ops::DerefMut for $server {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.process
            }
        }
    };
}

#[cfg(feature = "certificates")]
mod authority;
mod etcd;
mod mariadb;
mod mysql;
mod on_path;
mod pgbouncer;
mod postgres;
mod redis;
mod redis_cluster;
mod redis_sentinel;
mod shared_folder;
mod template;
mod wait;
mod zookeeper;

#[cfg(feature = "certificates")]
pub use authority::CertificateAuthority;
pub use etcd::{EtcdCluster, EtcdServer, EtcdStatus, etcd_server_missing};
pub use mariadb::{MariaDbServer, mariadb_server_missing};
pub use mysql::MySqlServer;
pub use pgbouncer::{PgBouncer, pgbouncer_missing};
pub use postgres::{PostgresServer, postgres_server_missing};
pub use redis::{RedisServer, ask_redis, redis_server_missing};
pub use redis_cluster::RedisCluster;
pub use redis_sentinel::RedisSentinelGroup;
pub use shared_folder::{SharedFolder, shared_folder_missing};
pub use zookeeper::{
    ZOOKEEPER_SUPER_USER, ZooKeeperEnsemble, ZooKeeperRole, ZooKeeperServer, ask_zookeeper,
    zookeeper_server_missing,
};
