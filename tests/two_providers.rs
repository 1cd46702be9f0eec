//! Stores over TLS in one process with ZooKeeper's. The client library of ZooKeeper brings a second provider of
//! cryptography, and rustls panics when it is asked for the provider of a process that has two and has chosen none.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use leasehold::{AcquireOptions, DistributedLock, DistributedLockExt, LockName};
use leasehold_conformance::server::free_port;
use leasehold_test_stores::servers::{MariaDbServer, RedisServer, ZooKeeperServer};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// `ca.pem`, and a certificate of it for localhost: `server.pem`, `server.key`, and both in `server.both.pem`.
fn certificates(directory: &Path) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    std::fs::write(directory.join("ca.pem"), authority.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(authority, key);
    let key = KeyPair::generate().unwrap();
    let mut server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    server.distinguished_name = rcgen::DistinguishedName::new();
    let certificate = server.signed_by(&key, &issuer).unwrap().pem();
    std::fs::write(directory.join("server.key"), key.serialize_pem()).unwrap();
    std::fs::write(directory.join("server.both.pem"), key.serialize_pem() + &certificate).unwrap();
    std::fs::write(directory.join("server.pem"), certificate).unwrap();
}

fn redis(files: &impl Fn(&str) -> String) -> (RedisServer, u16) {
    let port = free_port().unwrap();
    let tls = ["--tls-port", &port.to_string(), "--tls-auth-clients", "no"].map(str::to_owned);
    let (certificate, key, ca) = (files("server.pem"), files("server.key"), files("ca.pem"));
    let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
    let tls: Vec<&str> = tls.iter().map(String::as_str).chain(files).collect();
    (RedisServer::start_with(&tls).unwrap(), port)
}

fn zookeeper(files: &impl Fn(&str) -> String) -> (ZooKeeperServer, u16) {
    let port = free_port().unwrap();
    let lines = [
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned(),
        format!("secureClientPort={port}"),
        "secureClientPortAddress=127.0.0.1".to_owned(),
        format!("ssl.keyStore.location={}", files("server.both.pem")),
        "ssl.keyStore.type=PEM".to_owned(),
        format!("ssl.trustStore.location={}", files("ca.pem")),
        "ssl.trustStore.type=PEM".to_owned(),
        "ssl.clientAuth=none".to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    (ZooKeeperServer::start_with(&lines).unwrap(), port)
}

async fn mariadb(files: &(impl Fn(&str) -> String + Sync)) -> MariaDbServer {
    let arguments = [
        format!("--ssl-cert={}", files("server.pem")),
        format!("--ssl-key={}", files("server.key")),
        format!("--ssl-ca={}", files("ca.pem")),
    ];
    let server = MariaDbServer::start_with(&arguments.each_ref().map(String::as_str), &[]).unwrap();
    let url = format!("mariadb://root@127.0.0.1:{}/{}", server.port(), MariaDbServer::DATABASE);
    let administrator = leasehold::connect(&url).await.unwrap();
    administrator.admin().unwrap().init().await.unwrap();
    administrator.close().await.unwrap();
    server
}

async fn lock_on(url: &str) -> Arc<dyn DistributedLock> {
    let locks = leasehold::connect(url).await.unwrap();
    let options = AcquireOptions::new().with_wait(Duration::from_secs(20));
    let guard = locks.acquire_with(&LockName::new("job").unwrap(), &options).await.unwrap();
    guard.release().await.unwrap();
    locks
}

#[tokio::test]
async fn tls_stores_with_two_providers_share_a_process_in_any_order() {
    let directory = tempfile::tempdir().unwrap();
    certificates(directory.path());
    let file = |name: &str| -> String {
        let path: PathBuf = directory.path().join(name);
        path.to_str().unwrap().to_owned()
    };
    let ((_redis, redis), (_zookeeper, zookeeper)) = (redis(&file), zookeeper(&file));
    let redis = format!("rediss://localhost:{redis}?tls_ca={}", file("ca.pem"));
    let zookeeper = format!("zk+tls://localhost:{zookeeper}/app?tls_ca={}", file("ca.pem"));

    let first = lock_on(&redis).await;
    let second = lock_on(&zookeeper).await;
    let third = lock_on(&redis).await;
    // Last, because the driver asks for the provider of the process in this mode.
    let mariadb = mariadb(&file).await;
    let place = format!("localhost:{}/{}", mariadb.port(), MariaDbServer::DATABASE);
    let named =
        lock_on(&format!("mariadb://root@{place}?sslmode=verify-full&sslrootcert={}", file("ca.pem"))).await;
    let by_authority =
        lock_on(&format!("mariadb://root@{place}?sslmode=verify-ca&sslrootcert={}", file("ca.pem"))).await;

    for locks in [first, second, third, named, by_authority] {
        locks.close().await.unwrap();
    }
}
