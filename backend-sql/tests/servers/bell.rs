//! The connection over which a process hears that a lease was given up.

use crate::between::between;
use crate::kit::{Server, claim, granted, open, until};
use leasehold_conformance::proxy::Proxy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LISTENS: &str = "pg_stat_activity WHERE query LIKE 'LISTEN%'";

/// What is in between has forgotten the connection, and says so to nobody: each turn would be as late as a look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_over_which_the_server_is_not_heard_is_made_anew() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let waiting = open(&server.url_at(proxy.address().port(), "locker:sesame", "timeout=500ms")).unwrap();
    granted(&server.backend(""), &claim("a")).await;
    let waiter = tokio::spawn(async move {
        // It comes back by itself every now and then; and perhaps at once, again and again, before anything else has run.
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

/// It is idle by its nature. Were it ended again and again, what is told in between would be missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_listens_is_not_ended_for_being_idle() {
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

/// The server had let it in, and then nothing more was heard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_silent_before_it_listens_is_made_anew() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let first = Arc::new(AtomicBool::new(true));
    let is_heard = move |said: &mut [u8]| {
        let listens = said.windows(6).any(|six| six == b"LISTEN");
        !(listens && first.swap(false, Ordering::SeqCst))
    };
    let port = between(server.port(), is_heard).await;
    let waiting = open(&server.url_at(port, "locker:sesame", "connect_timeout=500ms")).unwrap();
    granted(&server.backend(""), &claim("a")).await;
    let waiter = tokio::spawn(async move { waiting.changed(&claim("a")).await });
    until("it listens", &server, &format!("SELECT count(*) FROM {LISTENS}")).await;
    waiter.abort();
}
