//! How often a call crosses the network, counted on the way.

use crate::kit::{MODES, Server, ask, both, claim, granted, open};
use leasehold_conformance::proxy::Proxy;
use leasehold_core::{Claim, LockBackend, LossCause, Renewal};
use std::sync::Arc;
use std::time::Duration;

struct Counts {
    acquire: u64,
    refused: u64,
    /// `None` in `for-update`, where a waiter goes on in the server.
    refused_waiter: Option<u64>,
    renew: u64,
    renew_many: u64,
    release: u64,
}

async fn count(server: &Server, mode: &str) -> Counts {
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let backend =
        open(&server.url_at(proxy.address().port(), "locker:sesame", &format!("mode={mode}"))).unwrap();
    // Everything once, and more than once: connections are made and statements prepared.
    for _ in 0..4 {
        let warm = [claim(&format!("{mode} 1")), claim(&format!("{mode} 2"))];
        for claim in &warm {
            granted(&backend, claim).await;
        }
        backend.renew(&warm).await;
        backend.renew(&warm[..1]).await;
        for claim in &warm {
            backend.release(claim, Duration::ZERO).await.unwrap();
        }
    }
    let held: Vec<Claim> = [1, 2].map(|number| claim(&format!("{mode} {number}"))).into();
    let acquire = trips(&proxy, async { granted(&backend, &held[0]).await }).await;
    granted(&backend, &held[1]).await;
    let other = server.backend(&format!("mode={mode}"));
    let elsewhere = ["elsewhere", "elsewhere too", "and there"].map(|name| claim(&format!("{mode} {name}")));
    for claim in &elsewhere {
        granted(&other, claim).await;
    }
    ask(&backend, &claim(elsewhere[1].name().as_str())).await;
    let refused = trips(&proxy, async { ask(&backend, &claim(elsewhere[0].name().as_str())).await }).await;
    let refused_waiter = match mode {
        "for-update" => None,
        _ => {
            let waiter = |at: usize| claim(elsewhere[at].name().as_str()).with_waiting(true);
            ask(&backend, &waiter(1)).await;
            Some(trips(&proxy, async { ask(&backend, &waiter(2)).await }).await)
        }
    };
    let renew = trips(&proxy, renew_all(&backend, &held[..1])).await;
    let renew_many = trips(&proxy, renew_all(&backend, &held)).await;
    let release = trips(&proxy, async { backend.release(&held[0], Duration::ZERO).await.unwrap() }).await;
    Counts { acquire, refused, refused_waiter, renew, renew_many, release }
}

async fn renew_all(backend: &Arc<dyn LockBackend>, claims: &[Claim]) {
    for renewed in backend.renew(claims).await {
        renewed.unwrap();
    }
}

async fn trips<T>(proxy: &Proxy, call: impl Future<Output = T>) -> u64 {
    let before = proxy.requests();
    call.await;
    proxy.requests() - before
}

#[tokio::test]
async fn lease_call_is_one_round_trip_and_other_modes_are_counted() {
    for server in both().await {
        for mode in MODES {
            let counts = count(&server, mode).await;
            let store = if server.is_postgres() { "postgres" } else { "mariadb" };
            let Counts { acquire, refused, refused_waiter, renew, renew_many, release } = counts;
            println!(
                "{store} {mode}: acquire {acquire}, refused {refused}, waiter refused {refused_waiter:?}, renew {renew}, two renewed {renew_many}, release {release}"
            );
            let expected = match mode {
                "lease" => [1, 1, 1, 1, 1],
                // Read, and change; a row that is held is only read.
                "optimistic" => [2, 1, 1, 1, 1],
                // Begin, lock, enter, keep-alive; begin, lock, roll back; a keep-alive each; roll back, leave.
                _ if server.is_postgres() => [4, 3, 1, 2, 2],
                // And a keep-alive before the end.
                _ => [4, 3, 1, 2, 3],
            };
            assert_eq!([acquire, refused, renew, renew_many, release], expected, "{store} {mode}");
            let expected = match mode {
                // An attempt, and on PostgreSQL a read: readers may hold the row.
                "lease" if server.is_postgres() => Some(2),
                "lease" | "optimistic" => Some(1),
                _ => None,
            };
            assert_eq!(refused_waiter, expected, "{store} {mode}");
        }
    }
}

/// Leases that are well need not wait for a statement about each of them.
#[tokio::test]
async fn lost_lease_costs_the_renewal_of_others_a_few_round_trips() {
    for server in both().await {
        let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
        let backend = open(&server.url_at(proxy.address().port(), "locker:sesame", "")).unwrap();
        let other = server.backend("");
        let held: Vec<Claim> = (0..128).map(|number| claim(&format!("n{number:03}"))).collect();
        for claim in &held {
            granted(&backend, claim).await;
        }
        let mut counted = 0;
        // The first two also prepare statements.
        for (before, lost) in [7, 64, 100].into_iter().enumerate() {
            assert_eq!(
                server.run(&format!("UPDATE leasehold SET ends_at = 0 WHERE name = 'n{lost:03}'")).await,
                1
            );
            granted(&other, &claim(held[lost].name().as_str())).await;
            let sent = proxy.requests();
            let answers = backend.renew(&held).await;
            counted = proxy.requests() - sent;
            assert_eq!(*answers[lost].as_ref().unwrap(), Renewal::Lost(LossCause::Taken));
            let renewed = answers.iter().filter(|answer| matches!(answer, Ok(Renewal::Renewed))).count();
            assert_eq!(renewed, 127 - before);
        }
        // All are renewed, and then the rows read.
        assert_eq!(counted, 2);
    }
}
