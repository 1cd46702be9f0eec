use super::adapter::{Adapter, Kind};
#[cfg(feature = "etcd")]
use super::etcd::EtcdGroup;
use super::memory::Memory;
use super::redis::RedlockServers;
use super::server_store::ServerSubject;
use super::sql::{Mode, SqlGroup};
use super::sqlite::Sqlite;
use super::zookeeper::ZooKeeperGroup;
use crate::servers::{
    MariaDbServer, MySqlServer, PostgresServer, RedisCluster, RedisSentinelGroup, RedisServer,
};
use leasehold_conformance::Subject;

type MariaDb = ServerSubject<SqlGroup<MariaDbServer>>;
type MySql = ServerSubject<SqlGroup<MySqlServer>>;
type Postgres = ServerSubject<SqlGroup<PostgresServer>>;
type Redis = ServerSubject<RedisServer>;
type ZooKeeper = ServerSubject<ZooKeeperGroup<1>>;

/// Every backend in every mode. Oracle's MySQL is among them if its folder is named in the environment
/// ([`MySqlServer::FOLDER`]): it is not in stable Debian.
pub fn all() -> Vec<Box<dyn Subject>> {
    let mut subjects: Vec<Box<dyn Subject>> = vec![
        Box::new(Memory),
        Box::new(Sqlite),
        Box::new(Redis::new("redis", ())),
        Box::new(ServerSubject::<RedisSentinelGroup>::new("redis-sentinel", ())),
        Box::new(ServerSubject::<RedisCluster>::new("redis-cluster", ())),
        Box::new(ServerSubject::<RedlockServers>::new("redlock", ())),
        #[cfg(feature = "etcd")]
        Box::new(ServerSubject::<EtcdGroup<1>>::new("etcd", ())),
        #[cfg(feature = "etcd")]
        Box::new(ServerSubject::<EtcdGroup<3>>::new("etcd-ensemble", ())),
        Box::new(MariaDb::new("mariadb", Mode::Lease)),
        Box::new(MariaDb::new("mariadb-for-update", Mode::ForUpdate)),
        Box::new(MariaDb::new("mariadb-optimistic", Mode::Optimistic)),
        Box::new(Postgres::new("postgres", Mode::Lease)),
        Box::new(Postgres::new("postgres-for-update", Mode::ForUpdate)),
        Box::new(Postgres::new("postgres-optimistic", Mode::Optimistic)),
        Box::new(ZooKeeper::new("zookeeper", ())),
        Box::new(ServerSubject::<ZooKeeperGroup<3>>::new("zookeeper-ensemble", ())),
    ];
    if std::env::var_os(MySqlServer::FOLDER).is_some() {
        subjects.push(Box::new(MySql::new("mysql", Mode::Lease)));
        subjects.push(Box::new(MySql::new("mysql-for-update", Mode::ForUpdate)));
        subjects.push(Box::new(MySql::new("mysql-optimistic", Mode::Optimistic)));
    }
    subjects
}

/// Kinds of lock in the place of a plain lock: the cases of one name test them too. Each kind is on memory and, unless it needs
/// shared locks, on one other store, so that the kinds meet stores of different sorts at little cost.
pub fn adapters() -> Vec<Box<dyn Subject>> {
    vec![
        Box::new(Adapter::new(Memory, Kind::Write)),
        Box::new(Adapter::new(Memory, Kind::SetOfOne)),
        Box::new(Adapter::new(Memory, Kind::Scope)),
        Box::new(Adapter::new(Memory, Kind::SemaphoreOfOne)),
        Box::new(Adapter::new(Memory, Kind::Blocking)),
        Box::new(Adapter::new(Redis::new("redis", ()), Kind::SemaphoreOfOne)),
        Box::new(Adapter::new(Postgres::new("postgres", Mode::Lease), Kind::Scope)),
        Box::new(Adapter::new(ZooKeeper::new("zookeeper", ()), Kind::SetOfOne)),
        Box::new(Adapter::new(Sqlite, Kind::Blocking)),
    ]
}
