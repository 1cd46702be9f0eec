//! The connection on which a process receives the messages of releases.

use crate::between::between;
use crate::kit::{Server, claim, granted, open, until};
use leasehold_conformance::proxy::Proxy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LISTENS: &str = "pg_stat_activity WHERE query LIKE 'LISTEN%'";

/// A firewall has forgotten the connection, and tells neither side.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listener_without_answers_is_replaced() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let waiting = open(&server.url_at(proxy.address().port(), "locker:sesame", "timeout=500ms")).unwrap();
    granted(&server.backend(""), &claim("a")).await;
    let waiter = tokio::spawn(async move {
        loop {
            waiting.changed(&claim("a")).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    until("it listens", &server, &format!("SELECT count(*) FROM {LISTENS}")).await;
    let first = server.number(&format!("SELECT CAST(pid AS bigint) FROM {LISTENS}")).await;
    proxy.strand();
    let another = format!("SELECT count(*) FROM {LISTENS} AND pid <> {first}");
    until("another connection listens", &server, &another).await;
    waiter.abort();
}

/// The server ends idle sessions, and would miss the messages in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listener_survives_the_limit_for_idle_sessions() {
    const LIMIT: Duration = Duration::from_millis(200);
    let server = Server::postgres(&[]);
    server.furnish().await;
    granted(&server.backend(""), &claim("a")).await;
    server.run(&format!("ALTER ROLE locker SET idle_session_timeout = {}", LIMIT.as_millis())).await;
    let (waiting, wanted) = (server.backend(""), claim("a"));
    let waiter = tokio::spawn(async move { waiting.changed(&wanted).await });
    until("it listens", &server, &format!("SELECT count(*) FROM {LISTENS}")).await;
    let first = server.number(&format!("SELECT CAST(pid AS bigint) FROM {LISTENS}")).await;
    tokio::time::sleep(LIMIT * 4).await;
    assert_eq!(server.number(&format!("SELECT count(*) FROM {LISTENS} AND pid = {first}")).await, 1);
    waiter.abort();
}

/// The connection breaks after the login.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listener_that_does_not_come_to_listen_is_replaced() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let first = Arc::new(AtomicBool::new(true));
    let passes = move |said: &mut [u8]| {
        let listens = said.windows(6).any(|six| six == b"LISTEN");
        !(listens && first.swap(false, Ordering::SeqCst))
    };
    let port = between(server.port(), passes).await;
    let waiting = open(&server.url_at(port, "locker:sesame", "connect_timeout=500ms")).unwrap();
    granted(&server.backend(""), &claim("a")).await;
    let waiter = tokio::spawn(async move { waiting.changed(&claim("a")).await });
    until("it listens", &server, &format!("SELECT count(*) FROM {LISTENS}")).await;
    waiter.abort();
}
