//! Connections that are killed, servers that stop.

use crate::kit::{Server, ask, both, claim, claim_for, granted, open, until_granted};
use leasehold_conformance::proxy::{Proxy, Traffic};
use leasehold_core::{
    AcquireOptions, DistributedLockExt, ErrorKind, LockBackend, LockClient, LockGuard, LockName, LossCause,
    Release, Renewal,
};
use sqlx::{AssertSqlSafe, Executor};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::test]
async fn lease_outlives_its_connection_and_the_next_call_connects_again() {
    for server in both().await {
        for mode in ["lease", "optimistic"] {
            let backend = server.backend(&format!("mode={mode}"));
            let held = claim(mode);
            let token = granted(&backend, &held).await;
            server.kill_connections().await;
            assert_eq!(backend.renew(std::slice::from_ref(&held)).await.remove(0).unwrap(), Renewal::Renewed);
            server.kill_connections().await;
            assert_eq!(granted(&backend, &held).await, token, "recognised over a dead connection");
        }
    }
}

#[tokio::test]
async fn for_update_lock_is_lost_with_its_connection_and_free_at_once() {
    for server in both().await {
        let (backend, other) = (server.backend("mode=for-update"), server.backend("mode=for-update"));
        let held = claim("a");
        let token = granted(&backend, &held).await;
        assert!(ask(&other, &claim("a")).await.is_none());
        server.kill_connections().await;
        let lost = backend.renew(std::slice::from_ref(&held)).await.remove(0).unwrap();
        assert_eq!(lost, Renewal::Lost(LossCause::Gone));
        let next = claim("a");
        assert!(granted(&other, &next).await > token, "the token was on the disk, outside the transaction");
        let again = backend.renew(std::slice::from_ref(&held)).await.remove(0).unwrap();
        assert_eq!(again, Renewal::Lost(LossCause::Taken));
    }
}

/// A client that only falls silent, with its connection open, must not hold for ever.
#[tokio::test]
async fn silent_holder_is_ended_by_the_server_after_its_ttl() {
    for server in both().await {
        let (backend, other) = (server.backend("mode=for-update"), server.backend("mode=for-update"));
        granted(&backend, &claim_for("a", Duration::from_millis(1_000))).await;
        let start = Instant::now();
        while ask(&other, &claim("a")).await.is_none() {
            assert!(start.elapsed() < Duration::from_secs(10), "a silent holder holds for ever");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(start.elapsed() >= Duration::from_millis(900), "ended after {:?} of 1 s", start.elapsed());
    }
}

#[tokio::test]
async fn renewal_on_a_stopped_server_is_indeterminate_in_time() {
    for mut server in both().await {
        for mode in ["lease", "optimistic"] {
            let backend = server.backend(&format!("mode={mode}&timeout=500ms&connect_timeout=500ms"));
            let held = claim(mode);
            granted(&backend, &held).await;
            server.process().pause();
            let start = Instant::now();
            let renewed = backend.renew(std::slice::from_ref(&held)).await.remove(0).unwrap_err();
            let released = backend.release(&held, Duration::ZERO).await.unwrap_err();
            let took = start.elapsed();
            server.process().resume();
            assert_eq!(renewed.kind(), ErrorKind::Indeterminate);
            assert_eq!(released.kind(), ErrorKind::Unavailable, "nothing was sent: {released}");
            assert!(took < Duration::from_secs(3), "took {took:?}");
        }
    }
}

/// As after a restart of the server: all connections are dead, and the lease is well.
#[tokio::test]
async fn release_meets_one_dead_connection_at_most() {
    for server in both().await {
        for mode in ["lease", "optimistic"] {
            let backend = server.backend(&format!("mode={mode}"));
            let claims = ["a", "b", "c"].map(|name| claim(&format!("{mode} {name}")));
            tokio::join!(
                granted(&backend, &claims[0]),
                granted(&backend, &claims[1]),
                granted(&backend, &claims[2])
            );
            server.kill_connections().await;
            let error = backend.release(&claims[0], Duration::ZERO).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Indeterminate, "what ends is not sent again: {error}");
            assert_eq!(backend.release(&claims[0], Duration::ZERO).await.unwrap(), Release::Released);
        }
    }
}

/// An administrator who frees a lock by hand, and forgets to commit.
#[tokio::test]
async fn locked_row_loses_no_other_lock() {
    for server in both().await {
        let backend = server.backend("timeout=1s");
        let held: Vec<_> = (0..20).map(|number| claim(&format!("{number:02}"))).collect();
        for held in &held {
            granted(&backend, held).await;
        }
        let change = "UPDATE leasehold SET version = version + 1 WHERE name = ";
        let (mut mysql, mut pg);
        match server.is_postgres() {
            true => {
                pg = server.pg().await;
                pg.execute("BEGIN").await.unwrap();
                pg.execute(AssertSqlSafe(format!("{change}convert_to('07', 'UTF8')"))).await.unwrap();
            }
            false => {
                mysql = server.mysql().await;
                mysql.execute("BEGIN").await.unwrap();
                mysql.execute(AssertSqlSafe(format!("{change}'07'"))).await.unwrap();
            }
        }
        let answers = backend.renew(&held).await;
        for (held, answer) in held.iter().zip(answers) {
            let is_locked = held.name().as_str() == "07";
            assert_eq!(answer.ok(), (!is_locked).then_some(Renewal::Renewed), "{}", held.name());
        }
    }
}

/// `MariaDB` waits for such a row in the renewal itself, as in the case above.
#[tokio::test]
async fn locked_row_of_a_lost_lease_loses_no_other_lock() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let (backend, other) = (server.backend("timeout=1s"), server.backend(""));
    let held = ["lost", "kept"].map(claim);
    for held in &held {
        granted(&backend, held).await;
    }
    assert_eq!(server.run("UPDATE leasehold SET ends_at = 0 WHERE name = 'lost'").await, 1);
    granted(&other, &claim("lost")).await;
    let mut pg = server.pg().await;
    pg.execute("BEGIN").await.unwrap();
    pg.execute("SELECT FROM leasehold WHERE name = 'lost' FOR UPDATE").await.unwrap();
    let answers = backend.renew(&held).await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.unwrap()).collect();
    assert_eq!(answers, [Renewal::Lost(LossCause::Gone), Renewal::Renewed]);
}

/// Another was granted it meanwhile: what the holder did last was not done under the lock.
#[tokio::test]
async fn release_of_a_lock_that_another_was_granted_is_not_held() {
    for server in both().await {
        let (backend, other) = (server.backend("mode=for-update"), server.backend("mode=for-update"));
        let (held, next) = (claim("a"), claim("a"));
        granted(&backend, &held).await;
        server.kill_connections().await;
        granted(&other, &next).await;
        assert_eq!(backend.release(&held, Duration::ZERO).await.unwrap(), Release::NotHeld);
        assert_eq!(other.release(&next, Duration::ZERO).await.unwrap(), Release::Released);
    }
}

/// The other owner has given it back before the release, so it is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_of_a_lost_lock_that_is_free_again_reports_the_loss() {
    for server in both().await {
        let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
        let through = server.url_at(proxy.address().port(), "locker:sesame", "mode=for-update");
        let guard = taken(open(&through).unwrap()).await;
        proxy.cut();
        let (other, next) = (server.backend("mode=for-update"), claim("a"));
        until_granted(&other, &next, Duration::from_secs(10)).await;
        assert_eq!(other.release(&next, Duration::ZERO).await.unwrap(), Release::Released);
        proxy.set(Traffic::Pass);
        let error = guard.release().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
    }
}

/// The row stays locked until the server notices, and a caller who was told that it is free would send others there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_that_does_not_reach_the_server_is_indeterminate() {
    for server in both().await {
        for mode in ["for-update", "lease"] {
            let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
            let parameters = format!("mode={mode}&timeout=500ms&connect_timeout=500ms");
            let through = server.url_at(proxy.address().port(), "locker:sesame", &parameters);
            let guard = taken(open(&through).unwrap()).await;
            proxy.set(Traffic::BlackHole);
            let error = guard.release().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Indeterminate, "{mode}: {error:?}");
            assert!(ask(&server.backend(&format!("mode={mode}")), &claim("a")).await.is_none());
        }
        server.kill_connections().await;
    }
}

async fn taken(backend: Arc<dyn LockBackend>) -> LockGuard {
    let name = LockName::new("a").unwrap();
    LockClient::new(backend).acquire_with(&name, &AcquireOptions::new()).await.unwrap()
}

/// A planned switch-over leaves the connections of the old primary as they are, and its rows locked.
#[tokio::test]
async fn hold_on_a_replaced_server_is_lost() {
    let server = Server::mariadb(&[]);
    server.furnish().await;
    for backend in [server.backend("mode=for-update"), server.administrator("mode=for-update")] {
        let held = claim("a");
        granted(&backend, &held).await;
        server.run("SET GLOBAL read_only = ON").await;
        let lost = backend.renew(std::slice::from_ref(&held)).await.remove(0).unwrap();
        assert_eq!(lost, Renewal::Lost(LossCause::ReadOnly));
        let error = backend.try_acquire(&claim("b")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        server.run("SET GLOBAL read_only = OFF").await;
        let short = claim("c");
        granted(&backend, &short).await;
        server.run("SET GLOBAL read_only = ON").await;
        let error = backend.release(&short, Duration::ZERO).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "before its first renewal: {error:?}");
        server.run("SET GLOBAL read_only = OFF").await;
        let next = claim("a");
        granted(&backend, &next).await;
        assert_eq!(backend.release(&next, Duration::ZERO).await.unwrap(), Release::Released);
    }
}
