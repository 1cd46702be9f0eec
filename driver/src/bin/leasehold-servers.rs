//! One server of each kind, for measuring: private, on free ports, with data below `TMPDIR`.
//!
//! Prints a line `KIND URL` for each that is installed, and `READY` when there are no more. They end with its input:
//! Ctrl-D, or the end of the program that has started it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people and scripts")]

use leasehold_conformance::Stop;
use leasehold_test_stores::servers::{
    EtcdServer, MariaDbServer, PostgresServer, RedisServer, ZooKeeperServer,
};

fn main() {
    let redis = told("redis", RedisServer::start(), RedisServer::url);
    let postgres = PostgresServer::start_with(&["-c", "max_connections=300"], &[]);
    let postgres = told("postgres", postgres, |server| {
        format!("postgres://postgres@127.0.0.1:{}/postgres", server.port())
    });
    let mariadb = MariaDbServer::start_with(&["--max-connections=300"], &[]);
    let mariadb =
        told("mariadb", mariadb, |server| format!("mariadb://root@127.0.0.1:{}/locks", server.port()));
    // Room for a hundred thousand locks, and the compiler of a server that runs for longer than a test.
    let zookeeper = ZooKeeperServer::start_with(&["-Xmx1g", "-XX:TieredStopAtLevel=4"]);
    let zookeeper = told("zookeeper", zookeeper, ZooKeeperServer::url);
    let etcd =
        told("etcd", EtcdServer::start_with(&["--quota-backend-bytes", "8589934592"]), EtcdServer::url);
    println!("READY");
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    drop((redis, postgres, mariadb, zookeeper, etcd));
}

/// Says where it is, or why it is nowhere.
fn told<S>(kind: &str, started: Result<S, Stop>, url: impl Fn(&S) -> String) -> Option<S> {
    match started {
        Ok(server) => {
            println!("{kind} {}", url(&server));
            Some(server)
        }
        Err(error) => {
            eprintln!("no {kind}: {error}");
            None
        }
    }
}
