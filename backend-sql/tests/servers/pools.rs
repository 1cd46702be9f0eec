//! Few connections, many users.

use crate::kit::{MODES, ask, both, claim, granted};
use leasehold_core::{ErrorKind, Release, Renewal};
use std::time::Duration;
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_and_two_do_for_a_hundred_tasks() {
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
async fn a_lock_that_is_a_connection_says_when_there_are_none_left() {
    for server in both().await {
        let backend = server.backend("mode=for-update&holds=2&timeout=200ms&connections=5");
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
async fn a_server_without_a_connection_left_is_unavailable() {
    for server in both().await {
        let limit = match server.is_postgres() {
            true => "ALTER ROLE locker CONNECTION LIMIT 1",
            false => "ALTER USER locker@'127.0.0.1' WITH MAX_USER_CONNECTIONS 1",
        };
        server.run(limit).await;
        for mode in MODES {
            let first = server.backend("");
            let held = claim("held");
            granted(&first, &held).await;
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

fn connections_of(postgres: bool) -> String {
    match postgres {
        true => "SELECT count(*) FROM pg_stat_activity WHERE usename = 'locker'".to_owned(),
        false => "SELECT count(*) FROM information_schema.processlist WHERE user = 'locker'".to_owned(),
    }
}
