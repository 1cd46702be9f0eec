//! A password that is rotated while a lock is held: in the server and in its file, before the connection is cut.

use crate::kit::{answered, claim, server, until};
use leasehold_core::{
    AcquireOptions, DistributedLockExt, ErrorKind, LockBackend, LockClient, LockGuard, Namespace,
};
use leasehold_redis::{DEFAULT_PREFIX, RedisBackend};
use leasehold_store_url::{Secret, StoreUrl};
use leasehold_test_stores::servers::RedisServer;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A lost hold is noticed within this time.
const TTL: Duration = Duration::from_secs(2);

/// A server whose user `locker` has the password of a file.
struct Rotation {
    server: RedisServer,
    _directory: TempDir,
    file: PathBuf,
}

impl Rotation {
    fn new() -> Self {
        let (server, directory) = (server(), tempfile::tempdir().unwrap());
        let rotation = Self { server, file: directory.path().join("password"), _directory: directory };
        rotation.set_password("one");
        rotation.write_file("one");
        rotation
    }

    fn set_password(&self, password: &str) {
        let rule = format!(">{password}");
        let set = ["ACL", "SETUSER", "locker", "on", "resetpass", &rule, "~*", "&*", "+@all"];
        assert_eq!(self.server.command(&set).unwrap(), "+OK");
    }

    fn write_file(&self, password: &str) {
        fs::write(&self.file, format!("{password}\n")).unwrap();
    }

    fn cut_connections(&self) {
        self.server.command(&["CLIENT", "KILL", "USER", "locker"]).unwrap();
    }

    fn backend(&self, password: Secret, query: &str) -> Arc<RedisBackend> {
        let url = format!("redis://locker@127.0.0.1:{}{query}", self.server.port());
        let url = StoreUrl::parse(&url).unwrap().with_password(password).unwrap();
        Arc::new(RedisBackend::open(&url, &Namespace::new(DEFAULT_PREFIX).unwrap()).unwrap())
    }

    async fn hold(&self, password: Secret, query: &str) -> LockGuard {
        let backend = self.backend(password, query);
        let options = AcquireOptions::new().with_ttl(TTL);
        let locks = LockClient::builder(backend).with_defaults(options).build();
        locks.acquire(format!("job{query}")).await.unwrap()
    }
}

#[tokio::test]
async fn holders_survive_a_rotated_password_and_a_cut_connection() {
    let rotation = Rotation::new();
    let hold = async |query| (query, rotation.hold(Secret::file(&rotation.file).unwrap(), query).await);
    let holds = [hold("").await, hold("?protocol=resp2").await];
    for password in ["two", "one"] {
        rotation.set_password(password);
        rotation.write_file(password);
        rotation.cut_connections();
        tokio::time::sleep(TTL * 2).await;
        for (query, guard) in &holds {
            assert!(guard.is_held(), "{password} with {query:?}");
        }
    }
    for (_, guard) in holds {
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn holder_survives_a_password_file_that_is_missing_for_a_moment() {
    let rotation = Rotation::new();
    let guard = rotation.hold(Secret::file(&rotation.file).unwrap(), "").await;
    rotation.set_password("two");
    fs::remove_file(&rotation.file).unwrap();
    rotation.cut_connections();
    tokio::time::sleep(TTL / 4).await;
    rotation.write_file("two");
    tokio::time::sleep(TTL * 2).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

/// The control: the tests above would fail if the password was read once.
#[tokio::test]
async fn holder_with_a_fixed_password_loses_its_lock_after_a_rotation() {
    let rotation = Rotation::new();
    let guard = rotation.hold("one".into(), "").await;
    rotation.set_password("two");
    rotation.cut_connections();
    until(|| !guard.is_held()).await;
}

#[tokio::test]
async fn connect_without_a_password_file_is_an_error_that_names_the_file() {
    let rotation = Rotation::new();
    let backend = rotation.backend(Secret::file(&rotation.file).unwrap(), "");
    fs::remove_file(&rotation.file).unwrap();
    let error = answered(backend.try_acquire(&claim("job"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "it may be replaced at this moment");
    let named = format!("invalid password_file {:?}: it cannot be read", rotation.file);
    assert!(error.to_string().ends_with(&named), "{error}");
    fs::write(&rotation.file, "one\ntwo\n").unwrap();
    let error = answered(backend.try_acquire(&claim("job"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
}
