//! `LISTEN` and `NOTIFY`.

use crate::kit::{Server, ask, claim, granted};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_who_waits_and_nobody_else() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    for mode in ["lease", "optimistic"] {
        let (holder, waiter) =
            (server.backend(&format!("mode={mode}")), server.backend(&format!("mode={mode}")));
        let (held, wanted) = (claim(mode), claim(mode));
        granted(&holder, &held).await;
        assert!(ask(&waiter, &wanted).await.is_none());
        let waiting = tokio::spawn({
            let (waiter, wanted) = (waiter.clone(), wanted.clone());
            async move {
                // The first ring says only that the bell is there, and that nobody knows what was missed before.
                waiter.changed(&wanted).await;
                assert!(ask(&waiter, &wanted).await.is_none());
                waiter.changed(&wanted).await;
                Instant::now()
            }
        });
        // Until it has said that it waits, and some more.
        while server
            .number("SELECT count(*) FROM leasehold WHERE wanted_until > 0 AND owner IS NOT NULL")
            .await
            == 0
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!waiting.is_finished(), "woken while the lock is held");
        let released = Instant::now();
        holder.release(&held, Duration::ZERO).await.unwrap();
        let woken = waiting.await.unwrap();
        assert!(woken - released < Duration::from_millis(400), "woken after {:?}", woken - released);
        assert!(ask(&waiter, &wanted).await.is_some());
    }
}

#[tokio::test]
async fn waiting_for_what_is_free_by_now_returns_at_once() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let backend = server.backend("");
    let held = claim("a");
    granted(&backend, &held).await;
    backend.release(&held, Duration::ZERO).await.unwrap();
    let woken = tokio::time::timeout(Duration::from_secs(10), backend.changed(&claim("a"))).await;
    assert!(woken.is_ok(), "a free lock was waited for");
}
