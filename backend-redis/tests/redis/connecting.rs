//! Connecting: late, once for all, not too often; and giving the connection back.

use crate::fake::{Fake, WELCOME};
use crate::kit::{Look, answered, attempt_fails, backend, claim, hold, server};
use futures_util::FutureExt;
use leasehold_core::{ErrorKind, LockAdmin, LockBackend};
use leasehold_test_stores::servers::RedisServer;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The connections of one attempt at a server that ends each: in RESP3, in RESP2, and without questions about the server.
const TRIES: usize = 3;

#[tokio::test]
async fn backend_connects_to_nothing_before_its_first_use() {
    let fake = Fake::answering(|_| WELCOME.to_owned()).await;
    let _backend = backend(&fake.url());
    tokio::task::yield_now().await;
    assert_eq!(fake.connections(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_share_one_connection_from_the_first_moment() {
    let server = server();
    let before = server.connections();
    let backend = backend(&server.url());
    let mut tasks = JoinSet::new();
    for i in 0..64 {
        let backend = Arc::clone(&backend);
        tasks.spawn(async move { hold(&backend, &claim(&format!("job/{i}"))).await });
    }
    assert_eq!(tasks.join_all().await.len(), 64);
    assert_eq!(server.connections() - before, 2, "one of ours, one that looks");
    let clients = server.command(&["CLIENT", "LIST"]).unwrap();
    assert_eq!(clients.matches("name=leasehold").count(), 1, "{clients}");
}

#[tokio::test]
async fn server_that_is_down_is_unavailable_to_all_callers_after_one_attempt() {
    let refusing = Fake::answering(|_| String::new()).await;
    let backend = backend(&refusing.url());
    let mut tasks = JoinSet::new();
    for _ in 0..64 {
        let backend = Arc::clone(&backend);
        tasks.spawn(async move { attempt_fails(&backend, &claim("job")).await });
    }
    for (kind, told) in tasks.join_all().await {
        assert_eq!(kind, ErrorKind::Unavailable, "{told}");
        assert!(told.contains("it accepted a connection and closed it"), "{told}");
    }
    assert_eq!(refusing.connections(), TRIES);
}

#[tokio::test]
async fn server_that_is_down_is_not_hammered() {
    let refusing = Fake::answering(|_| String::new()).await;
    let backend = backend(&refusing.url());
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(350) {
        assert_eq!(attempt_fails(&backend, &claim("job")).await.0, ErrorKind::Unavailable);
    }
    let at_most = 1 + start.elapsed().as_millis() / 100;
    let attempts = refusing.connections() / TRIES;
    assert!(attempts > 1 && attempts as u128 <= at_most, "{attempts} attempts in {:?}", start.elapsed());
}

#[tokio::test]
async fn refused_connection_is_unavailable_and_names_the_address() {
    let mut server = server();
    server.kill();
    let backend = backend(&server.url());
    let (kind, told) = attempt_fails(&backend, &claim("job")).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(
        told.starts_with(&format!("Redis at 127.0.0.1:{}: it cannot be reached", server.port())),
        "{told}"
    );
}

#[tokio::test]
async fn host_without_an_address_is_unavailable() {
    let (kind, told) = attempt_fails(&backend("redis://no-such-host.invalid"), &claim("job")).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(told.starts_with("Redis at no-such-host.invalid:6379: its address was not found"), "{told}");
}

#[tokio::test]
async fn closed_backend_refuses_calls_and_gives_its_connection_back() {
    let server = server();
    let backend = backend(&server.url());
    hold(&backend, &claim("job")).await;
    backend.close().await.unwrap();
    assert_eq!(attempt_fails(&backend, &claim("job")).await.0, ErrorKind::Closed);
    assert_eq!(backend.init().await.unwrap_err().kind(), ErrorKind::Closed);
    let gone = async {
        while server.command(&["CLIENT", "LIST"]).unwrap().contains("name=leasehold") {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(5), gone).await.unwrap();
    backend.close().await.unwrap();
}

#[tokio::test]
async fn close_ends_requests_under_way() {
    let server = server();
    let backend = backend(&server.url());
    hold(&backend, &claim("warm")).await;
    server.pause();
    let asked = Arc::clone(&backend);
    let call = tokio::spawn(async move { attempt_fails(&asked, &claim("job")).await.0 });
    tokio::task::yield_now().await;
    backend.close().await.unwrap();
    let start = Instant::now();
    let kind = call.await.unwrap();
    assert_eq!(kind, ErrorKind::Indeterminate);
    assert!(start.elapsed() < Duration::from_secs(1), "not only after the time-out of 2 s");
}

#[test]
fn backend_outlives_the_runtime_of_its_first_use() {
    let server = server();
    let backend = backend(&server.url());
    let claim = claim("job");
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { hold(&backend, &claim).await });
    }
}

#[tokio::test]
async fn unix_socket_serves_locks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("redis.sock");
    let server = RedisServer::start_with(&["--unixsocket", path.to_str().unwrap()]).unwrap();
    let backend = backend(&format!("redis+unix://{}?db=1", path.display()));
    hold(&backend, &claim("job")).await;
    assert!(server.keys().is_empty(), "database 0 is empty");
    assert!(server.command(&["INFO", "keyspace"]).unwrap().contains("db1:keys=3"));
}

#[tokio::test]
async fn resp2_serves_locks_and_administration() {
    let server = server();
    let backend = backend(&format!("{}?protocol=resp2", server.url()));
    let claim = claim("job");
    let token = hold(&backend, &claim).await;
    let status = backend.inspect(claim.name()).await.unwrap().remove(0);
    assert_eq!(status.token, Some(token));
    assert_eq!(backend.list("").await.unwrap().len(), 1);
    assert!(!backend.check().await.unwrap().is_empty());
}

#[tokio::test]
async fn connection_made_while_the_backend_closes_is_not_kept() {
    let server = server();
    let backend = backend(&server.url());
    let claim = claim("job");
    server.pause();
    let mut asking = backend.try_acquire(&claim);
    assert!((&mut asking).now_or_never().is_none());
    // The task that connects runs now, and waits for the server.
    tokio::task::yield_now().await;
    backend.close().await.unwrap();
    server.resume();
    assert_eq!(answered(asking).await.unwrap_err().kind(), ErrorKind::Closed);
    let gone = async {
        while server.command(&["CLIENT", "LIST"]).unwrap().contains("name=leasehold") {
            tokio::task::yield_now().await;
        }
    };
    answered(gone).await;
}
