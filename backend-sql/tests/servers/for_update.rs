//! Held transactions: what is really locked, and what stays behind.

use crate::kit::{Server, ask, both, claim, granted};
use leasehold_core::{LockBackend, Release};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many transactions of ours are open in the server.
async fn open_transactions(server: &Server) -> i64 {
    match server.is_postgres() {
        true => server
            .number(
                "SELECT count(*) FROM pg_stat_activity WHERE usename = 'locker' AND state LIKE 'idle in%'",
            )
            .await,
        false => server.number("SELECT count(*) FROM information_schema.innodb_trx").await,
    }
}

async fn until_open(server: &Server, expected: i64) {
    let start = Instant::now();
    while open_transactions(server).await != expected {
        assert!(start.elapsed() < Duration::from_secs(5), "{} open", open_transactions(server).await);
        // InnoDB shows a copy, and makes a new one only when it was not asked for a tenth of a second.
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
}

#[tokio::test]
async fn one_transaction_is_open_for_each_lock_and_none_after() {
    for server in both().await {
        let backend = server.backend("mode=for-update");
        let (one, two) = (claim("one"), claim("two"));
        granted(&backend, &one).await;
        granted(&backend, &two).await;
        until_open(&server, 2).await;
        assert_eq!(backend.release(&one, Duration::ZERO).await.unwrap(), Release::Released);
        assert_eq!(backend.release(&one, Duration::ZERO).await.unwrap(), Release::NotHeld);
        until_open(&server, 1).await;
        backend.close().await.unwrap();
        until_open(&server, 0).await;
    }
}

#[tokio::test]
async fn a_refused_attempt_leaves_no_transaction_open() {
    for server in both().await {
        let (holder, other) = (server.backend("mode=for-update"), server.backend("mode=for-update"));
        granted(&holder, &claim("a")).await;
        for _ in 0..3 {
            assert!(ask(&other, &claim("a")).await.is_none());
        }
        until_open(&server, 1).await;
    }
}

/// The server gives the row to the next in its queue in the moment in which it is free; a time-out of that wait, which in
/// MySQL ends the statement alone, ends the transaction too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_in_the_server_is_granted_or_leaves_nothing() {
    for server in both().await {
        let holder = server.backend("mode=for-update");
        let waiter = server.backend("mode=for-update&timeout=1s");
        let held = claim("a");
        granted(&holder, &held).await;
        let wanted = claim("a");
        assert!(ask(&waiter, &wanted).await.is_none());
        let waiting = tokio::spawn({
            let (waiter, wanted) = (waiter.clone(), wanted.clone());
            async move { wait_until_granted(&waiter, &wanted).await }
        });
        // Longer than the server lets one wait, so that this is gone through as well.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        holder.release(&held, Duration::ZERO).await.unwrap();
        waiting.await.unwrap();
        waiter.release(&wanted, Duration::ZERO).await.unwrap();
        until_open(&server, 0).await;

        granted(&holder, &held).await;
        let gone = claim("a");
        assert!(ask(&waiter, &gone).await.is_none());
        let left = tokio::time::timeout(Duration::from_millis(100), waiter.changed(&gone)).await;
        assert!(left.is_err(), "a held lock was given");
        assert_eq!(waiter.release(&gone, Duration::ZERO).await.unwrap(), Release::NotHeld);
        holder.release(&held, Duration::ZERO).await.unwrap();
        until_open(&server, 0).await;
    }
}

async fn wait_until_granted(backend: &Arc<dyn LockBackend>, claim: &leasehold_core::Claim) {
    loop {
        backend.changed(claim).await;
        if ask(backend, claim).await.is_some() {
            return;
        }
    }
}
