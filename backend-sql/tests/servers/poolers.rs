//! Poolers between a client and PostgreSQL.

use crate::between::between;
use crate::kit::{MODES, Server, ask, claim, granted};
use leasehold_conformance::servers::PgBouncer;
use leasehold_core::{ErrorKind, Renewal};
use sqlx::Executor;
use std::time::Duration;
use tokio::task::JoinSet;

#[tokio::test]
async fn a_pooler_that_mixes_up_sessions_is_refused_in_every_mode_with_the_way_out() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    for pool_mode in ["transaction", "statement"] {
        let pooler = PgBouncer::start(server.port(), pool_mode).unwrap();
        for mode in MODES {
            // Again, because the first may be lucky: it is the sessions that are left to the second which are not new.
            for _ in 0..3 {
                let url = server.url_at(pooler.port(), "locker:sesame", &format!("mode={mode}"));
                let backend = crate::kit::open(&url).unwrap();
                let error = backend.try_acquire(&claim("a")).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misconfigured, "{pool_mode}, {mode}: {error:?}");
                assert!(error.to_string().contains("pooler"), "{pool_mode}, {mode}: {error:?}");
                assert!(error.help().is_some_and(|help| help.contains("session mode")), "{error:?}");
                let error = backend.admin().unwrap().check().await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misconfigured, "{pool_mode}, {mode}: {error:?}");
                backend.close().await.unwrap();
            }
        }
        // Nothing is left behind that others could fall into.
        let open = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'locker' AND state LIKE 'idle in%'";
        assert_eq!(server.number(open).await, 0);
        assert_eq!(server.number("SELECT count(*) FROM leasehold").await, 0);
    }
}

/// Others use the sessions meanwhile, and leave to one who looks now this one and now that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_is_busy_with_others_is_seen_all_the_same() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let pooler = PgBouncer::start(server.port(), "transaction").unwrap();
    let mut others = JoinSet::new();
    for _ in 0..8 {
        let mut other = server.pg_as("locker", pooler.port()).await;
        others
            .spawn(async move { while other.execute("SELECT pg_sleep(random() * 0.002)").await.is_ok() {} });
    }
    let mut let_in = Vec::new();
    for look in 0..20 {
        for mode in MODES {
            let url = server.url_at(pooler.port(), "locker:sesame", &format!("mode={mode}"));
            let backend = crate::kit::open(&url).unwrap();
            match backend.try_acquire(&claim("a")).await {
                Err(error) if error.kind() == ErrorKind::Misconfigured => {}
                answer => let_in.push((look, mode, answer)),
            }
            backend.close().await.unwrap();
        }
    }
    assert!(let_in.is_empty(), "{let_in:?}");
}

/// All prepare their first statements in whatever session they are lent, under the same names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_many_begin_to_use_at_once_is_refused_by_each() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    for _ in 0..5 {
        let pooler = PgBouncer::start(server.port(), "transaction").unwrap();
        let mut many = JoinSet::new();
        for number in 0..12 {
            let url = server.url_at(pooler.port(), "locker:sesame", "mode=optimistic");
            many.spawn(async move {
                let backend = crate::kit::open(&url).unwrap();
                let answer = backend.try_acquire(&claim(&number.to_string())).await;
                backend.close().await.unwrap();
                answer
            });
        }
        while let Some(answer) = many.join_next().await {
            let answer = answer.unwrap();
            assert!(
                answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Misconfigured),
                "{answer:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_pooler_that_lends_a_session_for_good_is_as_good_as_the_server() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let pooler = PgBouncer::start(server.port(), "session").unwrap();
    for mode in MODES {
        let backend = |port| {
            let query = format!("mode={mode}&connections=2&holds=2");
            crate::kit::open(&server.url_at(port, "locker:sesame", &query)).unwrap()
        };
        let (pooled, direct) = (backend(pooler.port()), backend(server.port()));
        let held = claim(mode);
        granted(&pooled, &held).await;
        assert!(ask(&direct, &claim(mode)).await.is_none());
        assert_eq!(pooled.renew(std::slice::from_ref(&held)).await.remove(0).unwrap(), Renewal::Renewed);
        pooled.release(&held, Duration::ZERO).await.unwrap();
        granted(&direct, &claim(mode)).await;
        let findings = pooled.admin().unwrap().check().await.unwrap();
        assert!(findings.iter().all(|finding| finding.code != "W_POOLER"), "{findings:?}");
        pooled.close().await.unwrap();
    }
}

/// A lock would end with the statement that has taken it.
#[tokio::test]
async fn a_transaction_that_something_in_between_does_not_begin_is_missed() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let port = between(server.port(), without_begin).await;
    let open = || crate::kit::open(&server.url_at(port, "locker:sesame", "mode=for-update")).unwrap();
    for backend in [open(), open()] {
        let error = backend.try_acquire(&claim("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
        assert!(error.to_string().contains("in a transaction"), "{error:?}");
    }
}

/// Nor is it missed where the server's clock is set back while it begins.
#[tokio::test]
async fn a_transaction_is_not_known_by_the_clock() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    for statement in [
        "CREATE SCHEMA back",
        "GRANT USAGE ON SCHEMA back TO locker",
        "CREATE FUNCTION back.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS \
         $$ SELECT pg_catalog.now() - interval '1 second' $$",
        "ALTER ROLE locker SET search_path = back, pg_catalog, public",
    ] {
        server.run(statement).await;
    }
    let (backend, other) = (server.backend("mode=for-update"), server.backend("mode=for-update"));
    granted(&backend, &claim("a")).await;
    assert!(ask(&other, &claim("a")).await.is_none());
}

/// Hands everything on to the server but the word that begins a transaction.
fn without_begin(said: &mut [u8]) -> bool {
    let word = said.windows(6).position(|six| six == b"BEGIN;");
    word.into_iter().for_each(|at| said[at..at + 5].fill(b' '));
    true
}
