//! Few connections, many users.

use crate::kit::{MODES, Server, ask, both, claim, granted, on_both, open};
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, ErrorKind, LockClient, LockName, Release, Renewal,
    Wait,
};
use leasehold_test_stores::servers::PgBouncer;
use std::time::Duration;
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundred_tasks_share_one_connection_or_two() {
    for server in both().await {
        for mode in ["lease", "optimistic"] {
            for connections in [1, 2] {
                let backend = server.backend(&format!("mode={mode}&connections={connections}&timeout=30s"));
                let mut tasks = JoinSet::new();
                for task in 0..100 {
                    let backend = backend.clone();
                    tasks.spawn(async move {
                        let held = claim(&format!("{connections}-{task}"));
                        granted(&backend, &held).await;
                        let renewed = backend.renew(std::slice::from_ref(&held)).await.remove(0).unwrap();
                        assert_eq!(renewed, Renewal::Renewed);
                        assert_eq!(backend.release(&held, Duration::ZERO).await.unwrap(), Release::Released);
                    });
                }
                tasks.join_all().await;
                let open = server.number(&connections_of(server.is_postgres())).await;
                assert!(open <= i64::from(connections), "{open} connections are open in {mode}");
                backend.close().await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn for_update_lock_beyond_the_limit_of_holds_is_unavailable() {
    for server in both().await {
        let backend = server.backend("mode=for-update&holds=2&timeout=1s&connections=5");
        let (one, two) = (claim("one"), claim("two"));
        granted(&backend, &one).await;
        granted(&backend, &two).await;
        assert!(
            ask(&backend, &claim("one")).await.is_none(),
            "what is held here is busy without a connection"
        );
        let error = backend.try_acquire(&claim("three")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.help().is_some_and(|help| help.contains("holds=N")), "{error:?}");
        backend.release(&one, Duration::ZERO).await.unwrap();
        granted(&backend, &claim("three")).await;
        assert_eq!(backend.renew(std::slice::from_ref(&two)).await.remove(0).unwrap(), Renewal::Renewed);
    }
}

#[tokio::test]
async fn server_without_a_connection_left_is_unavailable() {
    for server in both().await {
        for mode in MODES {
            // Two, and the one that has looked for a pooler: the server notices its goodbye a moment later.
            limit_connections(&server, 3).await;
            let first = server.backend("mode=for-update");
            let held = claim("held");
            granted(&first, &held).await;
            limit_connections(&server, 1).await;
            let error = server.backend(&format!("mode={mode}")).try_acquire(&claim("a")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{mode}: {error}");
            first.release(&held, Duration::ZERO).await.unwrap();
            first.close().await.unwrap();
            // The server notices the goodbye a moment later.
            while server.number(&connections_of(server.is_postgres())).await > 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    }
}

/// Each needs two connections at once to acquire, and one to hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_over_half_as_many_connections_all_have_their_turn() {
    on_both(async |server| {
        limit_connections(&server, 4).await;
        let mut ways = vec![server.url("mode=for-update")];
        let pooler = server.is_postgres().then(|| PgBouncer::start(server.port(), "session").unwrap());
        ways.extend(pooler.iter().map(|it| server.url_at(it.port(), "locker:sesame", "mode=for-update")));
        for url in ways {
            for round in 0..2 {
                let mut clients = JoinSet::new();
                for _ in 0..8 {
                    let client = LockClient::new(open(&url).unwrap());
                    clients.spawn(async move {
                        let options = AcquireOptions::new().with_wait(Wait::UpTo(Duration::from_secs(20)));
                        let name = LockName::new("x").unwrap();
                        let guard = client.acquire_with(&name, &options).await.unwrap();
                        guard.release().await.unwrap();
                        client.close().await.unwrap();
                    });
                }
                let turns = clients.join_all().await.len();
                assert_eq!(turns, 8, "round {round} of {url}");
            }
        }
    })
    .await;
}

/// The waiters are twice as many as the connections, and all of them connect again in the same moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_among_waiters_without_connections_survives_that_all_are_cut() {
    on_both(cut_all_connections_twice).await;
}

async fn cut_all_connections_twice(server: Server) {
    const TTL: Duration = Duration::from_secs(4);
    limit_connections(&server, 4).await;
    let options = AcquireOptions::new().with_ttl(TTL).with_wait(Wait::UpTo(Duration::from_secs(60)));
    let client = || LockClient::new(server.backend(""));
    let name = LockName::new("x").unwrap();
    let guard = client().acquire_with(&name, &options).await.unwrap();
    let mut waiters = JoinSet::new();
    for _ in 0..8 {
        let (client, name, options) = (client(), name.clone(), options.clone());
        waiters.spawn(async move { client.acquire_with(&name, &options).await.map(drop) });
    }
    for round in 0..2 {
        tokio::time::sleep(TTL / 2).await;
        server.kill_connections().await;
        tokio::time::sleep(TTL * 5 / 4).await;
        assert!(guard.is_held(), "round {round}: {:?}", guard.loss());
    }
    waiters.shutdown().await;
    guard.release().await.unwrap();
}

async fn limit_connections(server: &Server, limit: u32) {
    server
        .run(&match server.is_postgres() {
            true => format!("ALTER ROLE locker CONNECTION LIMIT {limit}"),
            false => format!("ALTER USER locker@'127.0.0.1' WITH MAX_USER_CONNECTIONS {limit}"),
        })
        .await;
}

fn connections_of(postgres: bool) -> String {
    match postgres {
        true => "SELECT count(*) FROM pg_stat_activity WHERE usename = 'locker'".to_owned(),
        false => "SELECT count(*) FROM information_schema.processlist WHERE user = 'locker'".to_owned(),
    }
}
