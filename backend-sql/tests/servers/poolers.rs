//! Poolers between a client and PostgreSQL.

use crate::between::between;
use crate::kit::{MODES, Server, ask, claim, granted};
use leasehold_core::{Claim, ErrorKind, LockBackend, Release, Renewal};
use leasehold_test_stores::servers::PgBouncer;
use sqlx::Executor;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

fn pooled(server: &Server, pooler: &PgBouncer, mode: &str) -> Arc<dyn LockBackend> {
    crate::kit::open(&server.url_at(pooler.port(), "locker:sesame", &format!("mode={mode}"))).unwrap()
}

async fn renewed(backend: &Arc<dyn LockBackend>, held: &Claim) -> Renewal {
    backend.renew(std::slice::from_ref(held)).await.remove(0).unwrap()
}

#[tokio::test]
async fn lease_behind_a_pooler_of_transactions_holds_and_for_update_is_refused() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    for pool_mode in ["transaction", "statement"] {
        let pooler = PgBouncer::start(server.port(), pool_mode).unwrap();
        for mode in ["lease", "optimistic"] {
            let name = format!("{pool_mode} {mode}");
            let open = || pooled(&server, &pooler, mode);
            let (backend, other, direct) = (open(), open(), server.backend(&format!("mode={mode}")));
            let mut last = None;
            for _ in 0..3 {
                let held = claim(&name);
                let token = granted(&backend, &held).await;
                assert!(last.is_none_or(|last| token > last), "{name}: {token} after {last:?}");
                for backend in [&other, &direct] {
                    assert!(ask(backend, &claim(&name)).await.is_none(), "{name}: two holders");
                }
                assert_eq!(renewed(&backend, &held).await, Renewal::Renewed, "{name}");
                assert_eq!(backend.release(&held, Duration::ZERO).await.unwrap(), Release::Released);
                last = Some(token);
            }
            let findings = backend.admin().unwrap().check().await.unwrap();
            assert!(findings.iter().any(|finding| finding.code == "W_POOLER"), "{findings:?}");
            assert!(findings.iter().all(|finding| finding.code != "E_TRIAL"), "{findings:?}");
        }
        let backend = pooled(&server, &pooler, "for-update");
        let error = backend.try_acquire(&claim("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{pool_mode}: {error:?}");
        assert!(error.help().is_some_and(|help| help.contains("session mode")), "{error:?}");
        let error = backend.admin().unwrap().check().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{pool_mode}: {error:?}");
        // Nothing is left in a session for others to meet.
        let open = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'locker' AND state LIKE 'idle in%'";
        assert_eq!(server.number(open).await, 0);
    }
}

/// A session that listens is lent to other clients, and they would get the messages.
#[tokio::test]
async fn waiter_behind_a_pooler_of_transactions_does_not_listen() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let pooler = PgBouncer::start(server.port(), "transaction").unwrap();
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    let direct = server.backend("mode=lease");
    granted(&direct, &claim("a")).await;
    for (backend, listens) in [(pooled(&server, &pooler, "lease"), false), (direct, true)] {
        let waiter = claim("a").with_waiting(true);
        assert!(ask(&backend, &waiter).await.is_none(), "two holders");
        let look = async {
            let mut seen = false;
            for _ in 0..100 {
                seen |= server.number(listening).await > 0;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            seen
        };
        let seen = tokio::select! {
            () = async { loop { backend.changed(&waiter).await } } => unreachable!(),
            seen = look => seen,
        };
        assert_eq!(seen, listens);
    }
}

/// Others use the sessions meanwhile, and leave now this one and now that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pooler_that_is_busy_with_others_is_found() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let pooler = PgBouncer::start(server.port(), "transaction").unwrap();
    let mut others = JoinSet::new();
    for _ in 0..8 {
        let mut other = server.pg_as("locker", pooler.port()).await;
        others
            .spawn(async move { while other.execute("SELECT pg_sleep(random() * 0.002)").await.is_ok() {} });
    }
    for look in 0..20 {
        let backend = pooled(&server, &pooler, "for-update");
        let refused = backend.try_acquire(&claim("a")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Misconfigured, "look {look}: {refused:?}");
        backend.close().await.unwrap();
    }
}

/// All begin in whatever session they are lent. A statement that one prepared there would be met by the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_begin_at_once_behind_a_pooler_execute_their_own_statements() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    for _ in 0..5 {
        let pooler = PgBouncer::start(server.port(), "transaction").unwrap();
        let mut many = JoinSet::new();
        for number in 0..12 {
            let backend = pooled(&server, &pooler, ["lease", "optimistic"][number % 2]);
            many.spawn(async move {
                let held = claim(&number.to_string());
                granted(&backend, &held).await;
                assert_eq!(renewed(&backend, &held).await, Renewal::Renewed);
                assert_eq!(backend.release(&held, Duration::ZERO).await.unwrap(), Release::Released);
                backend.close().await.unwrap();
            });
        }
        many.join_all().await;
    }
}

#[tokio::test]
async fn error_of_a_pooler_that_cannot_pass_is_no_outage() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let pooler = PgBouncer::start(server.port(), "session").unwrap();
    let parameter = between(pooler.port(), |said: &mut [u8]| {
        let word = said.windows(16).position(|word| word == b"application_name");
        word.into_iter().for_each(|at| said[at + 15] = b'X');
        true
    })
    .await;
    let address = |port, login: &str| server.url_at(port, login, "");
    let cases = [
        (address(parameter, "locker:sesame"), ErrorKind::Misconfigured, "unsupported startup parameter"),
        (
            address(pooler.port(), "locker:sesame").replace("/postgres?", "/nosuch?"),
            ErrorKind::Misconfigured,
            "nosuch",
        ),
        (address(pooler.port(), "nosuch:sesame"), ErrorKind::Denied, "refuses these credentials"),
    ];
    for (url, kind, expected) in cases {
        let error = crate::kit::open(&url).unwrap().try_acquire(&claim("a")).await.unwrap_err();
        let said = format!("{error}: {:?}", error.source().map(ToString::to_string));
        assert_eq!(error.kind(), kind, "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[tokio::test]
async fn pooler_of_sessions_is_as_good_as_the_server() {
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
async fn row_locked_outside_a_transaction_is_refused() {
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

/// It is also found if the server's clock is set back while it begins.
#[tokio::test]
async fn transaction_is_recognised_although_the_clock_is_set_back() {
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
