//! A password that is rotated while a lock is held: in the server and in its file, before the connections are cut.

use crate::kit::{Server, both, claim, on_both};
use leasehold_core::{
    AcquireOptions, DistributedLockExt, ErrorKind, LockBackend, LockClient, LockGuard, Namespace,
};
use leasehold_store_url::{Secret, StoreUrl};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A lost hold is noticed within this time.
const TTL: Duration = Duration::from_secs(2);

/// The server with a user whose password counts, and a file with that password.
async fn with_password(server: &Server, directory: &tempfile::TempDir) -> PathBuf {
    if let Server::Postgres(postgres) = server {
        let rules = "host all locker 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n";
        fs::write(postgres.data().join("db/pg_hba.conf"), rules).unwrap();
        server.run("SELECT pg_reload_conf()").await;
    }
    let file = directory.path().join("password");
    rotate(server, &file, "sesame").await;
    file
}

async fn set_password(server: &Server, password: &str) {
    server
        .run(&match server {
            Server::MariaDb(_) => format!("ALTER USER locker@'127.0.0.1' IDENTIFIED BY '{password}'"),
            Server::Postgres(_) => format!("ALTER ROLE locker PASSWORD '{password}'"),
        })
        .await;
}

async fn rotate(server: &Server, file: &PathBuf, password: &str) {
    set_password(server, password).await;
    fs::write(file, format!("{password}\n")).unwrap();
}

fn backend(server: &Server, password: Secret, mode: &str) -> Arc<dyn LockBackend> {
    let url = server.url_at(server.port(), "locker", &format!("mode={mode}"));
    let url = StoreUrl::parse(&url).unwrap().with_password(password).unwrap();
    leasehold_sql::open(&url, &Namespace::default()).unwrap()
}

async fn hold(server: &Server, password: Secret, mode: &str) -> LockGuard {
    let client = LockClient::builder(backend(server, password, mode));
    client.with_defaults(AcquireOptions::new().with_ttl(TTL)).build().acquire(mode).await.unwrap()
}

#[tokio::test]
async fn holders_survive_a_rotated_password_and_cut_connections() {
    on_both(async |server| {
        let directory = tempfile::tempdir().unwrap();
        let file = with_password(&server, &directory).await;
        let hold = async |mode| (mode, hold(&server, Secret::file(&file).unwrap(), mode).await);
        let holds = [hold("lease").await, hold("optimistic").await];
        for password in ["two", "three"] {
            rotate(&server, &file, password).await;
            server.kill_connections().await;
            tokio::time::sleep(TTL * 2).await;
            for (mode, guard) in &holds {
                assert!(guard.is_held(), "{password} in mode {mode}");
            }
        }
        for (_, guard) in holds {
            guard.release().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn holder_survives_a_password_file_that_is_missing_for_a_moment() {
    on_both(async |server| {
        let directory = tempfile::tempdir().unwrap();
        let file = with_password(&server, &directory).await;
        let guard = hold(&server, Secret::file(&file).unwrap(), "lease").await;
        fs::remove_file(&file).unwrap();
        set_password(&server, "two").await;
        server.kill_connections().await;
        tokio::time::sleep(TTL / 4).await;
        fs::write(&file, "two").unwrap();
        tokio::time::sleep(TTL * 2).await;
        assert!(guard.is_held());
        guard.release().await.unwrap();
    })
    .await;
}

/// The control: the tests above would fail if the password was read once.
#[tokio::test]
async fn holder_with_a_fixed_password_loses_its_lock_after_a_rotation() {
    on_both(async |server| {
        let directory = tempfile::tempdir().unwrap();
        with_password(&server, &directory).await;
        let guard = hold(&server, "sesame".into(), "lease").await;
        set_password(&server, "two").await;
        server.kill_connections().await;
        let start = Instant::now();
        while guard.is_held() {
            assert!(start.elapsed() < TTL * 4, "the old password still counts");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn connect_without_a_password_file_is_an_error_that_names_the_file() {
    for server in both().await {
        let directory = tempfile::tempdir().unwrap();
        let file = with_password(&server, &directory).await;
        let backend = backend(&server, Secret::file(&file).unwrap(), "lease");
        let named = format!("invalid password_file {file:?}: ");
        fs::remove_file(&file).unwrap();
        let error = backend.try_acquire(&claim("job")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "it may be replaced at this moment");
        assert!(error.to_string().contains(&named), "{error}");
        fs::write(&file, "one\ntwo\n").unwrap();
        let error = backend.try_acquire(&claim("job")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains(&named), "{error}");
    }
}
