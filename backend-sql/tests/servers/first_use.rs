//! The first use of a name, of a table, of a server.

use crate::kit::{MODES, Server, ask, both, claim, until};
use leasehold_core::ErrorKind;
use sqlx::{AssertSqlSafe, Executor};
use std::time::Duration;
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_clients_that_meet_at_a_new_name_make_one_holder() {
    for server in both().await {
        for mode in MODES {
            for round in 0..5 {
                let mut clients = JoinSet::new();
                for _ in 0..20 {
                    let backend =
                        server.backend(&format!("mode={mode}&connections=2&timeout=20s&connect_timeout=20s"));
                    clients.spawn(async move {
                        let granted = ask(&backend, &claim(&format!("new-{round}"))).await;
                        (backend, granted)
                    });
                }
                let all = clients.join_all().await;
                let holders = all.iter().filter(|(_, granted)| granted.is_some()).count();
                assert!(holders <= 1, "{holders} holders in {mode}");
                // An optimistic attempt may lose to another that loses as well, and one for update is refused by a row
                // that another has locked for a moment only. A lease is decided by one statement.
                assert!(holders == 1 || mode != "lease", "nobody got a free lock in {mode}");
                for (backend, _) in all {
                    backend.close().await.unwrap();
                }
            }
        }
    }
}

#[tokio::test]
async fn missing_table_is_refused_with_the_way_to_make_it() {
    for server in both().await {
        for mode in MODES {
            let backend = server.backend(&format!("mode={mode}&table=nowhere"));
            let error = backend.try_acquire(&claim("a")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
            assert!(error.help().is_some_and(|help| help.contains("leasehold init")), "{error:?}");
        }
    }
}

/// As a deployment runs it each time, with no more rights than locking needs.
#[tokio::test]
async fn user_without_create_right_needs_it_only_if_the_tables_are_missing() {
    for server in both().await {
        for mode in MODES {
            let backend = server.backend(&format!("mode={mode}"));
            backend.admin().unwrap().init().await.unwrap();
            let backend = server.backend(&format!("mode={mode}&table=nowhere"));
            let error = backend.admin().unwrap().init().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert!(error.to_string().contains("may not make the table nowhere"), "{error}");
            assert!(error.help().is_some_and(|help| help.contains("init --print")), "{error:?}");
        }
    }
}

#[tokio::test]
async fn printed_init_script_is_the_one_that_runs() {
    for server in both().await {
        for mode in MODES {
            let query = format!("mode={mode}&table=by_hand_{}", mode.replace('-', "_"));
            let backend = server.administrator(&query);
            let script = backend.admin().unwrap().init_script().unwrap();
            server.run(&script).await;
            let held = claim("a");
            assert!(ask(&backend, &held).await.is_some());
            backend.release(&held, Duration::ZERO).await.unwrap();
            backend.admin().unwrap().init().await.unwrap();
        }
    }
}

/// `IF NOT EXISTS` does not see what another has not committed yet, and the server then says that it is there already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn init_beside_another_init_succeeds() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    for mode in MODES {
        let query = format!("mode={mode}&table=twice_{}&timeout=20s", mode.replace('-', "_"));
        let backend = server.administrator(&query);
        let script = backend.admin().unwrap().init_script().unwrap();
        let mut first = server.pg().await;
        first.execute("BEGIN").await.unwrap();
        first.execute(AssertSqlSafe(script)).await.unwrap();
        let second = tokio::spawn({
            let backend = backend.clone();
            async move { backend.admin().unwrap().init().await }
        });
        let waits = "SELECT count(*) FROM pg_stat_activity \
                     WHERE application_name = 'leasehold' AND wait_event_type = 'Lock'";
        until("the second waits for the first", &server, waits).await;
        first.execute("COMMIT").await.unwrap();
        second.await.unwrap().unwrap();
        assert!(ask(&backend, &claim("a")).await.is_some());
    }
}
