//! Releases in `for-update` that are dropped half-way: at an await, or with their runtime. A call for the same claim follows, as the core
//! makes it.

use crate::kit::{Server, both, claim, granted, open, until, until_granted};
use leasehold_conformance::proxy::{Proxy, Traffic};
use leasehold_core::{Claim, LockBackend, LockMode, Release};
use sqlx::Connection;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Far below the ttl, after which the server ends a transaction that is silent.
const SOON: Duration = Duration::from_secs(10);

/// A hold over connections whose replies can be kept back.
async fn hold_through_a_proxy(server: &Server) -> (Proxy, Arc<dyn LockBackend>) {
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let through = server.url_at(proxy.address().port(), "locker:sesame", "mode=for-update");
    (proxy, open(&through).unwrap())
}

/// Polls a future once; true if it goes on.
async fn goes_on(mut future: std::pin::Pin<&mut impl Future>) -> bool {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

/// The answer to a release that is made again after an outage, as the core does.
async fn released_soon_and_free(server: &Server, backend: &Arc<dyn LockBackend>, held: &Claim) -> Release {
    let start = Instant::now();
    let released = loop {
        match backend.release(held, Duration::ZERO).await {
            Ok(released) => break released,
            Err(error) => assert!(error.is_outage() && start.elapsed() < SOON, "{error:?}"),
        }
    };
    let (other, next) = (server.backend("mode=for-update"), claim("a"));
    granted(&other, &next).await;
    other.release(&next, Duration::ZERO).await.unwrap();
    released
}

/// The renewal is dropped as well, before the release or after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_dropped_behind_a_renewal_frees_the_lock() {
    for server in both().await {
        for renewal_is_first in [true, false] {
            let (proxy, backend) = hold_through_a_proxy(&server).await;
            let held = claim("a");
            granted(&backend, &held).await;
            proxy.set(Traffic::HoldReplies);
            let mut renewal = Box::pin(backend.renew(std::slice::from_ref(&held)));
            assert!(goes_on(renewal.as_mut()).await);
            let mut release = Box::pin(backend.release(&held, Duration::ZERO));
            assert!(goes_on(release.as_mut()).await);
            match renewal_is_first {
                true => drop((renewal, release)),
                false => drop((release, renewal)),
            }
            proxy.set(Traffic::Pass);
            let released = released_soon_and_free(&server, &backend, &held).await;
            assert_eq!(released, Release::NotHeld, "the connection is closed");
        }
    }
}

/// Its transaction has ended, and its entry is not removed yet. What others do after that is no loss of the hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_dropped_while_it_removes_its_entry_is_no_loss() {
    for server in both().await {
        for mode in [LockMode::Exclusive, LockMode::Shared] {
            let (backend, held) = (server.backend("mode=for-update&timeout=20s"), claim("a").with_mode(mode));
            granted(&backend, &held).await;
            // As long as this transaction is open, the entry cannot be removed.
            let row = "SELECT token FROM leasehold_held WHERE name = 'a' FOR UPDATE";
            if server.is_postgres() {
                let mut other = server.pg().await;
                let mut transaction = other.begin().await.unwrap();
                sqlx::query(row).execute(&mut *transaction).await.unwrap();
                begin_and_drop_release(&server, &backend, &held).await;
            } else {
                let mut other = server.mysql().await;
                let mut transaction = other.begin().await.unwrap();
                sqlx::query(row).execute(&mut *transaction).await.unwrap();
                begin_and_drop_release(&server, &backend, &held).await;
            }
            let (other, next) = (server.backend("mode=for-update"), claim("a"));
            until_granted(&other, &next, SOON).await;
            other.release(&next, Duration::ZERO).await.unwrap();
            let again = backend.release(&held, Duration::ZERO).await.unwrap();
            assert_eq!(again, Release::NotHeld, "{mode:?}");
        }
    }
}

/// Drops the release when it waits for the row of its entry.
async fn begin_and_drop_release(server: &Server, backend: &Arc<dyn LockBackend>, held: &Claim) {
    let waiting = match server.is_postgres() {
        true => "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
        false => {
            "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'UPDATE%leasehold_held%'"
        }
    };
    tokio::select! {
        released = backend.release(held, Duration::ZERO) => panic!("it did not wait: {released:?}"),
        () = until("the release waits", server, waiting) => {}
    }
}

/// The release has sent the end of its transaction, or waits for the answer to a renewal. The call is not repeated before the lock is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runtime_that_ends_during_a_release_frees_the_lock() {
    for server in both().await {
        for is_behind_a_renewal in [true, false] {
            let (proxy, backend) = hold_through_a_proxy(&server).await;
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let held = claim("a");
            let (its, claimed) = (Arc::clone(&backend), held.clone());
            runtime.spawn(async move { granted(&its, &claimed).await }).await.unwrap();
            proxy.set(Traffic::HoldReplies);
            let (tell, begun) = oneshot::channel();
            let (its, claimed) = (Arc::clone(&backend), held.clone());
            runtime.spawn(async move {
                let mut renewal = pin!(its.renew(std::slice::from_ref(&claimed)));
                assert!(!is_behind_a_renewal || goes_on(renewal.as_mut()).await);
                let mut release = pin!(its.release(&claimed, Duration::ZERO));
                assert!(goes_on(release.as_mut()).await);
                tell.send(()).unwrap();
                release.await
            });
            begun.await.unwrap();
            tokio::task::spawn_blocking(move || drop(runtime)).await.unwrap();
            proxy.set(Traffic::Pass);
            let (other, next) = (server.backend("mode=for-update"), claim("a"));
            until_granted(&other, &next, SOON).await;
            other.release(&next, Duration::ZERO).await.unwrap();
        }
    }
}

/// The hold goes on without its runtime: only a release ends it. The connection does nothing any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_after_the_end_of_its_runtime_frees_the_lock() {
    for server in both().await {
        let backend = server.backend("mode=for-update");
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let held = claim("a");
        let (its, claimed) = (Arc::clone(&backend), held.clone());
        runtime.spawn(async move { granted(&its, &claimed).await }).await.unwrap();
        tokio::task::spawn_blocking(move || drop(runtime)).await.unwrap();
        released_soon_and_free(&server, &backend, &held).await;
    }
}
