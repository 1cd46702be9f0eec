//! Readers of `for-update`: their entries, beside the row that they have locked together.

use crate::kit::{Server, ask, both, claim, granted, open};
use leasehold_conformance::proxy::Proxy;
use leasehold_core::{Attempt, Claim, ErrorKind, FencingToken, LockBackend, LockMode, Release};
use sqlx::Connection as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MODE: &str = "mode=for-update";

fn reader() -> Claim {
    claim("a").with_mode(LockMode::Shared)
}

async fn shown(backend: &Arc<dyn LockBackend>) -> Vec<FencingToken> {
    let statuses = backend.admin().unwrap().inspect(claim("a").name()).await.unwrap();
    assert!(statuses.iter().all(|status| status.mode.is_shared()), "{statuses:?}");
    statuses.iter().filter_map(|status| status.token).collect()
}

async fn until_shown(backend: &Arc<dyn LockBackend>, tokens: &[FencingToken]) {
    let start = Instant::now();
    while shown(backend).await != tokens {
        assert!(start.elapsed() < Duration::from_secs(5), "{:?} is shown", shown(backend).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A user with every right on the tables, and none on sessions of others.
async fn other_user(server: &Server) -> Arc<dyn LockBackend> {
    let rights = match server.is_postgres() {
        true => ["CREATE ROLE other LOGIN", "GRANT ALL ON leasehold_held, leasehold_held_rows TO other"],
        false => ["CREATE USER other@'127.0.0.1'", "GRANT ALL ON locks.* TO other@'127.0.0.1'"],
    };
    for statement in rights {
        server.run(statement).await;
    }
    open(&server.url_at(server.port(), "other", "mode=for-update&timeout=500ms")).unwrap()
}

/// Its entry stays until the next exclusive grant; its connection is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reader_that_crashed_is_entered_and_not_shown() {
    for server in both().await {
        let (one, other) = (server.backend(MODE), server.backend(MODE));
        let (crashes, stays) = (granted(&one, &reader()).await, granted(&other, &reader()).await);
        let administrator = server.administrator(MODE);
        until_shown(&administrator, &[crashes, stays]).await;
        drop(one);
        for backend in [&other, &administrator] {
            until_shown(backend, &[stays]).await;
        }
        let listed = other.admin().unwrap().list("").await.unwrap();
        assert_eq!(listed.iter().filter_map(|status| status.token).collect::<Vec<_>>(), [stays]);
        let has_both =
            format!("SELECT count(*) FROM leasehold_held WHERE sharers LIKE '%\"{crashes}\"%{stays}%'");
        assert_eq!(server.number(&has_both).await, 1);
        other.close().await.unwrap();
        // The server ends the session a moment after its connection.
        until_shown(&administrator, &[]).await;
        let writer = claim("a");
        granted(&administrator, &writer).await;
        assert_eq!(server.number("SELECT count(*) FROM leasehold_held WHERE sharers IS NULL").await, 1);
    }
}

/// PostgreSQL would let it: the writer was refused by an exclusive owner, so it has left no mark.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reader_does_not_pass_a_writer_of_its_client_that_waits_in_the_server() {
    for server in both().await {
        let (holder, client) = (server.backend(MODE), server.backend(MODE));
        let (owner, first, writer, last) = (claim("a"), reader(), claim("a").with_waiting(true), reader());
        granted(&holder, &owner).await;
        assert!(ask(&client, &writer).await.is_none());
        holder.release(&owner, Duration::ZERO).await.unwrap();
        granted(&holder, &first).await;
        let waits = tokio::time::timeout(Duration::from_millis(300), client.changed(&writer)).await;
        assert!(waits.is_err(), "a writer got the row beside a reader");
        assert!(ask(&client, &last).await.is_none(), "a reader passed a writer");
        holder.release(&first, Duration::ZERO).await.unwrap();
        client.changed(&writer).await;
        granted(&client, &writer).await;
        client.release(&writer, Duration::ZERO).await.unwrap();
        granted(&client, &last).await;
    }
}

/// A session that these credentials do not see may hold.
#[tokio::test]
async fn readers_of_another_user_are_shown_and_not_ended() {
    for server in both().await {
        let (holder, held) = (server.backend(MODE), reader());
        let token = granted(&holder, &held).await;
        let other = other_user(&server).await;
        assert_eq!(shown(&other).await, [token]);
        let error = other.admin().unwrap().force_release(held.name(), None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
        assert_eq!(holder.release(&held, Duration::ZERO).await.unwrap(), Release::Released);
        assert_eq!(shown(&other).await, []);
    }
}

/// The server lets readers pass a writer that waits in its queue, or keeps them out as long as the request is there, also after the
/// writer has gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_writer_keeps_new_readers_out_until_it_has_gone() {
    for server in both().await {
        let (holder, writers, others) = (server.backend(MODE), server.backend(MODE), server.backend(MODE));
        let held = reader();
        granted(&holder, &held).await;
        let writer = claim("a").with_waiting(true);
        for _ in 0..2 {
            assert!(ask(&writers, &writer).await.is_none());
            let waited = tokio::time::timeout(Duration::from_millis(100), writers.changed(&writer)).await;
            assert!(waited.is_err(), "a held lock was given");
            let Attempt::Busy(busy) = others.try_acquire(&reader()).await.unwrap() else {
                panic!("a reader passed a waiting writer")
            };
            assert!(busy.ends_in.is_some_and(|left| left <= Duration::from_secs(2)), "{busy:?}");
        }
        assert_eq!(writers.release(&writer, Duration::ZERO).await.unwrap(), Release::NotHeld);
        granted(&others, &reader()).await;
        assert!(ask(&writers, &claim("a")).await.is_none());
    }
}

/// One statement more than an exclusive owner needs, to look for a writer that waits.
#[tokio::test]
async fn round_trips_of_a_reader_are_counted() {
    for server in both().await {
        let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
        let backend = open(&server.url_at(proxy.address().port(), "locker:sesame", MODE)).unwrap();
        let mut counts = [0; 3];
        // The first rounds connect and prepare.
        for _ in 0..4 {
            let held = reader();
            let before = proxy.requests();
            granted(&backend, &held).await;
            let acquired = proxy.requests();
            backend.renew(std::slice::from_ref(&held)).await.remove(0).unwrap();
            let renewed = proxy.requests();
            backend.release(&held, Duration::ZERO).await.unwrap();
            counts = [acquired - before, renewed - acquired, proxy.requests() - renewed];
        }
        assert_eq!(counts, if server.is_postgres() { [5, 1, 2] } else { [5, 1, 3] });
    }
}

/// The number of the connection would be taken for the hold of this reader as long as a pool keeps it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_of_a_reader_whose_entry_stays_is_closed() {
    for server in both().await {
        let backends = (server.backend("mode=for-update&timeout=300ms"), server.administrator(MODE));
        let held = reader();
        let token = granted(&backends.0, &held).await;
        until_shown(&backends.1, &[token]).await;
        // As long as this transaction is open, the entry cannot be removed.
        let row = "SELECT token FROM leasehold_held WHERE name = 'a' FOR UPDATE";
        if server.is_postgres() {
            let mut other = server.pg().await;
            let mut transaction = other.begin().await.unwrap();
            sqlx::query(row).execute(&mut *transaction).await.unwrap();
            is_released_and_not_shown(&server, &backends, &held, token).await;
        } else {
            let mut other = server.mysql().await;
            let mut transaction = other.begin().await.unwrap();
            sqlx::query(row).execute(&mut *transaction).await.unwrap();
            is_released_and_not_shown(&server, &backends, &held, token).await;
        }
    }
}

async fn is_released_and_not_shown(
    server: &Server,
    (holder, administrator): &(Arc<dyn LockBackend>, Arc<dyn LockBackend>),
    held: &Claim,
    token: FencingToken,
) {
    assert_eq!(holder.release(held, Duration::ZERO).await.unwrap(), Release::Released);
    until_shown(administrator, &[]).await;
    let entry = format!("SELECT count(*) FROM leasehold_held WHERE sharers LIKE '%\"{token}\"%'");
    assert_eq!(server.number(&entry).await, 1, "the entry was removed after all");
}
