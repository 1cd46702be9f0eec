//! The suite over the backends of this workspace, on real servers. Oracle's MySQL is asked for by `scripts/test
//! --with-mysql`: it is not in stable Debian.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod subjects;

use leasehold_conformance::Subject;
use leasehold_conformance::servers::MySqlServer;
use std::process::ExitCode;
use subjects::{
    MariaDb, Memory, MySql, Postgres, Redis, RedisCluster, RedisSentinel, Redlock, Sqlite, WithLocalQueue,
    ZooKeeper, ZooKeeperEnsemble,
};

fn main() -> ExitCode {
    let mut subjects: Vec<Box<dyn Subject>> = vec![
        Box::new(Memory),
        Box::new(Sqlite),
        Box::new(Redis),
        Box::new(RedisSentinel),
        Box::new(RedisCluster::default()),
        Box::new(Redlock),
        Box::new(WithLocalQueue::new("redis-local-queue", Redis)),
        Box::new(MariaDb::lease("mariadb")),
        Box::new(MariaDb::for_update("mariadb-for-update")),
        Box::new(MariaDb::optimistic("mariadb-optimistic")),
        Box::new(Postgres::lease("postgres")),
        Box::new(Postgres::for_update("postgres-for-update")),
        Box::new(Postgres::optimistic("postgres-optimistic")),
        Box::new(ZooKeeper::default()),
        Box::new(ZooKeeperEnsemble),
    ];
    if std::env::var_os(MySqlServer::FOLDER).is_some() {
        subjects.push(Box::new(MySql::lease("mysql")));
        subjects.push(Box::new(MySql::for_update("mysql-for-update")));
        subjects.push(Box::new(MySql::optimistic("mysql-optimistic")));
    }
    leasehold_conformance::run(subjects)
}
