//! Held transactions: what is really locked, and what stays behind.

use crate::kit::{Server, ask, both, claim, claim_for, granted, open};
use leasehold_core::{Claim, ErrorKind, FencingToken, LockBackend, LossCause, Release, Renewal};
use sqlx::{Connection, Executor, Row};
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
async fn each_held_lock_has_one_open_transaction() {
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
async fn refused_attempt_leaves_no_transaction_open() {
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
async fn waiter_in_the_server_is_granted_or_leaves_no_transaction() {
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

/// A waiter of the holder's own process gets the lock as soon as a waiter of another process, whichever way the hold ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hold_ended_from_outside_goes_to_a_waiter_of_its_own_process() {
    for server in both().await {
        for by_force in [true, false] {
            let backend = server.backend("mode=for-update");
            let held = claim_for("a", Duration::from_secs(60));
            let token = granted(&backend, &held).await;
            let wanted = claim("a");
            assert!(ask(&backend, &wanted).await.is_none());
            let waiting = tokio::spawn({
                let (backend, wanted) = (backend.clone(), wanted.clone());
                async move { wait_and_ask(&backend, &wanted).await }
            });
            tokio::time::sleep(Duration::from_millis(600)).await;
            match by_force {
                true => {
                    let broken = backend.admin().unwrap().force_release(held.name(), Some(token)).await;
                    assert_eq!(broken.unwrap()[0].token, Some(token));
                }
                false => end_connection_of_holder(&server).await,
            }
            let ended = Instant::now();
            let next = tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap().unwrap();
            assert!(next > token && ended.elapsed() < Duration::from_secs(3), "after {:?}", ended.elapsed());
            assert_eq!(
                backend.renew(std::slice::from_ref(&held)).await.remove(0).unwrap(),
                Renewal::Lost(LossCause::Taken)
            );
            backend.release(&wanted, Duration::ZERO).await.unwrap();
        }
    }
}

/// Between the look at who holds and the end of its connection, that may have released, and taken another lock.
#[tokio::test]
async fn connection_that_holds_another_lock_by_now_is_not_ended() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let (backend, admin) =
        (server.backend("mode=for-update"), server.backend("mode=for-update&timeout=500ms"));
    let (first, second) = (claim("a"), claim("b"));
    let token = granted(&backend, &first).await;
    backend.release(&first, Duration::ZERO).await.unwrap();
    granted(&backend, &second).await;
    let by = server.number("SELECT connection FROM leasehold_held WHERE name = 'b'").await;
    // As the look had seen it; and somebody has the row, so that it is not free.
    let other = server.backend("mode=for-update");
    granted(&other, &claim("a")).await;
    let seen = format!("UPDATE leasehold_held SET token = {token}, connection = {by} WHERE name = 'a'");
    server.run(&seen).await;

    let broken = admin.admin().unwrap().force_release(first.name(), Some(token)).await;
    assert_eq!(broken.unwrap_err().kind(), ErrorKind::Denied, "nothing was ended");
    let renewed = backend.renew(std::slice::from_ref(&second)).await.remove(0);
    assert_eq!(renewed.unwrap(), Renewal::Renewed);
}

/// A server that has started anew numbers its connections anew: the entry of a holder that died with the last one names the
/// session of somebody who has nothing to do with locks.
#[tokio::test]
async fn connection_number_from_before_a_restart_ends_no_session() {
    let mut server = Server::mariadb(&[]);
    server.furnish().await;
    granted(&server.backend("mode=for-update"), &claim("a")).await;
    let by = server.number("SELECT connection FROM leasehold_held WHERE name = 'a'").await;
    // Servers know since when they run in whole seconds.
    server.run("UPDATE leasehold_held SET token = token - 3000000").await;
    server.process().restart(true).unwrap();
    let mut innocents = Vec::new();
    while innocents.last().is_none_or(|(number, _)| *number < by) {
        let mut session = server.mysql().await;
        let number: u64 = session.fetch_one("SELECT CONNECTION_ID()").await.unwrap().get_unchecked(0);
        innocents.push((i64::try_from(number).unwrap(), session));
    }
    assert_eq!(innocents.last().unwrap().0, by);
    let mut by_hand = server.mysql().await;
    for statement in ["BEGIN", "SELECT * FROM leasehold_held_rows WHERE name = 'a' FOR UPDATE"] {
        by_hand.execute(statement).await.unwrap();
    }
    let backend = server.backend("mode=for-update");
    assert!(ask(&backend, &claim("a")).await.is_none(), "somebody has the row");
    let broken = backend.admin().unwrap().force_release(claim("a").name(), None).await.unwrap();
    assert!(broken.is_empty(), "{broken:?}");
    let (_, session) = innocents.last_mut().unwrap();
    assert!(session.ping().await.is_ok(), "its session was ended");
}

/// A user of the tables that is not the holder.
#[tokio::test]
async fn connection_of_another_user_is_not_ended_and_the_release_is_denied() {
    for server in both().await {
        let rights = match server.is_postgres() {
            true => {
                vec!["CREATE ROLE other LOGIN", "GRANT ALL ON leasehold_held, leasehold_held_rows TO other"]
            }
            false => vec!["CREATE USER other@'127.0.0.1'", "GRANT ALL ON locks.* TO other@'127.0.0.1'"],
        };
        for statement in rights {
            server.run(statement).await;
        }
        let (holder, held) = (server.backend("mode=for-update"), claim("a"));
        granted(&holder, &held).await;
        let other = open(&server.url_at(server.port(), "other", "mode=for-update&timeout=500ms")).unwrap();
        let error = other.admin().unwrap().force_release(held.name(), None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
        assert!(error.to_string().contains("is still held by connection"), "{error:?}");
        assert!(error.help().is_some_and(|help| help.contains("as its own user")), "{error:?}");
        let renewed = holder.renew(std::slice::from_ref(&held)).await.remove(0);
        assert_eq!(renewed.unwrap(), Renewal::Renewed);
    }
}

/// As the manual says: the holder's own user may, and who has the right to.
#[tokio::test]
async fn administrator_ends_the_connection_of_any_holder() {
    for server in both().await {
        let (holder, held) = (server.backend("mode=for-update"), claim("a"));
        let token = granted(&holder, &held).await;
        let administrator = server.administrator("mode=for-update");
        let broken = administrator.admin().unwrap().force_release(held.name(), Some(token)).await;
        assert_eq!(broken.unwrap()[0].token, Some(token));
        let renewed = holder.renew(std::slice::from_ref(&held)).await.remove(0);
        assert_eq!(renewed.unwrap(), Renewal::Lost(LossCause::Gone));
    }
}

/// Between the look at who holds and the end of its connection, that may have ended by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_that_has_ended_by_itself_counts_as_ended() {
    let server = Server::mariadb(&[]);
    server.furnish().await;
    let (backend, held) = (server.backend("mode=for-update"), claim("a"));
    let token = granted(&backend, &held).await;
    server.run("UPDATE leasehold_held SET connection = 999999").await;
    let breaking = tokio::spawn({
        let (other, name) = (server.backend("mode=for-update"), held.name().clone());
        async move { other.admin().unwrap().force_release(&name, None).await }
    });
    // The holder has been looked up by then.
    let killed = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status WHERE variable_name = 'COM_KILL'";
    let start = Instant::now();
    while server.number(killed).await == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "no connection was ended");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    backend.release(&held, Duration::ZERO).await.unwrap();
    assert_eq!(breaking.await.unwrap().unwrap()[0].token, Some(token));
}

async fn end_connection_of_holder(server: &Server) {
    let number = server.number("SELECT connection FROM leasehold_held WHERE name = 'a'").await;
    server.kill_connection(number).await;
}

/// It may be that there is no connection left to ask with; then it is held, as far as is known.
#[tokio::test]
async fn lock_held_by_this_client_is_busy_without_a_spare_connection() {
    for server in both().await {
        let backend = server.backend("mode=for-update&holds=1&timeout=20s");
        granted(&backend, &claim("a")).await;
        // Longer than the time within which it is believed without a question.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let start = Instant::now();
        assert!(ask(&backend, &claim("a")).await.is_none());
        assert!(start.elapsed() < Duration::from_secs(10), "waited {:?}", start.elapsed());
    }
}

/// As the core does: whatever is heard, it asks every now and then.
async fn wait_and_ask(backend: &Arc<dyn LockBackend>, claim: &Claim) -> FencingToken {
    loop {
        let _ = tokio::time::timeout(Duration::from_millis(250), backend.changed(claim)).await;
        if let Some(token) = ask(backend, claim).await {
            return token;
        }
    }
}

async fn wait_until_granted(backend: &Arc<dyn LockBackend>, claim: &Claim) {
    loop {
        backend.changed(claim).await;
        if ask(backend, claim).await.is_some() {
            return;
        }
    }
}
