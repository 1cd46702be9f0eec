//! Statements of `for-update` that arrive when their client has given the lock back.

use crate::between::{Latecomer, late};
use crate::kit::{Server, both, claim, open, until, until_granted};
use leasehold_core::{Attempt, Claim, FencingToken, LockBackend, LockMode, Release};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(10);

/// A client whose entry of this claim is kept back.
async fn late_with(server: &Server, claim: &Claim) -> (Arc<dyn LockBackend>, Latecomer) {
    let (port, latecomer) = late(server.port(), &claim.owner().to_bytes()).await;
    (open(&server.url_at(port, "locker:sesame", "mode=for-update&timeout=20s")).unwrap(), latecomer)
}

/// An attempt that is given up when its entry is on its way.
async fn given_up(server: &Server, claim: &Claim) -> Latecomer {
    let (backend, mut latecomer) = late_with(server, claim).await;
    tokio::select! {
        attempt = backend.try_acquire(claim) => panic!("the entry was not kept back: {attempt:?}"),
        () = latecomer.is_kept_back() => latecomer,
    }
}

/// Ends the connection of the only transaction that is open.
async fn end_open_transaction(server: &Server) {
    let query = match server.is_postgres() {
        true => {
            "SELECT coalesce(max(CAST(pid AS bigint)), 0) FROM pg_stat_activity WHERE state = 'idle in transaction'"
        }
        // The table of transactions is up to 0.1 s old.
        false => {
            "SELECT COALESCE(MAX(id), 0) FROM information_schema.innodb_trx
             JOIN information_schema.processlist ON id = trx_mysql_thread_id"
        }
    };
    until("an open transaction", server, query).await;
    server.kill_connection(server.number(query).await).await;
}

/// What people see is the holder, and nobody else once the server has noticed that a reader has gone.
async fn shows_alone(server: &Server, holder: &Claim, token: FencingToken, case: &str) {
    let (backend, start) = (server.backend("mode=for-update"), Instant::now());
    let shown = loop {
        let shown = backend.admin().unwrap().inspect(holder.name()).await.unwrap();
        if shown.len() <= 1 || start.elapsed() > SOON {
            break shown;
        }
    };
    assert_eq!(shown.len(), 1, "{case}: {shown:?}");
    assert_eq!((shown[0].owner, shown[0].token), (Some(holder.owner()), Some(token)), "{case}");
}

/// The entry is for people, and for the end of a hold by force: it names the holder, whoever came late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entry_that_arrives_late_leaves_that_of_the_next_holder() {
    for server in both().await {
        for (mode, next_mode) in [
            (LockMode::Exclusive, LockMode::Exclusive),
            (LockMode::Exclusive, LockMode::Shared),
            (LockMode::Shared, LockMode::Exclusive),
            (LockMode::Shared, LockMode::Shared),
        ] {
            let mut latecomer = given_up(&server, &claim("a").with_mode(mode)).await;
            let (other, next) = (server.backend("mode=for-update"), claim("a").with_mode(next_mode));
            let token = until_granted(&other, &next, SOON).await;
            latecomer.arrives().await;
            let case = format!("{mode:?} before {next_mode:?}");
            shows_alone(&server, &next, token, &case).await;
            assert_eq!(other.release(&next, Duration::ZERO).await.unwrap(), Release::Released);
            let shown = other.admin().unwrap().inspect(next.name()).await.unwrap();
            assert!(shown.is_empty(), "{case}: {shown:?}");
        }
    }
}

/// The next holder has locked the row, and is not entered yet: it takes a larger token, and its entry is the last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entry_that_arrives_before_that_of_the_next_holder_is_replaced() {
    for server in both().await {
        for next_mode in [LockMode::Exclusive, LockMode::Shared] {
            let mut latecomer = given_up(&server, &claim("a")).await;
            let next = claim("a").with_mode(next_mode);
            let (backend, mut its_entry) = late_with(&server, &next).await;
            let granting = tokio::spawn({
                let (backend, next) = (Arc::clone(&backend), next.clone());
                async move { until_granted(&backend, &next, SOON).await }
            });
            its_entry.is_kept_back().await;
            latecomer.arrives().await;
            let of_the_latecomer = server.number("SELECT token FROM leasehold_held").await;
            its_entry.arrives().await;
            let token = granting.await.unwrap();
            assert!(token.get().cast_signed() > of_the_latecomer, "{next_mode:?}");
            shows_alone(&server, &next, token, &format!("{next_mode:?}")).await;
            assert_eq!(backend.release(&next, Duration::ZERO).await.unwrap(), Release::Released);
        }
    }
}

/// The client stands still, its transaction is ended meanwhile, and it goes on beside the next holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_that_goes_on_after_the_end_of_its_transaction_leaves_the_entry_of_the_next_holder() {
    for server in both().await {
        for (mode, next_mode) in [
            (LockMode::Exclusive, LockMode::Exclusive),
            (LockMode::Exclusive, LockMode::Shared),
            (LockMode::Shared, LockMode::Exclusive),
        ] {
            let (first, next) = (claim("a").with_mode(mode), claim("a").with_mode(next_mode));
            let (backend, mut its_entry) = late_with(&server, &first).await;
            let attempt = tokio::spawn(async move { backend.try_acquire(&first).await });
            its_entry.is_kept_back().await;
            end_open_transaction(&server).await;
            let other = server.backend("mode=for-update");
            let token = until_granted(&other, &next, SOON).await;
            its_entry.arrives().await;
            let case = format!("{mode:?} before {next_mode:?}");
            let attempt = attempt.await.unwrap().unwrap();
            assert!(matches!(attempt, Attempt::Busy(_)), "{case}: {attempt:?}");
            shows_alone(&server, &next, token, &case).await;
            assert_eq!(other.release(&next, Duration::ZERO).await.unwrap(), Release::Released, "{case}");
        }
    }
}
