//! A server that must not be written to, and users that may write to it all the same.

use crate::kit::{MODES, Server, ask, both, claim, claim_for, granted, until};
use leasehold_core::{
    Claim, ErrorKind, LockBackend, LockMode, LockName, LossCause, Release, Renewal, Result, Severity,
};
use leasehold_test_stores::servers::PostgresServer;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sessions that are open notice it a moment later.
const NOTICED_WITHIN: Duration = Duration::from_secs(60);

async fn set_read_only(server: &Server, is_on: bool) {
    let value = if is_on { "on" } else { "off" };
    match server {
        Server::MariaDb(_) => {
            server.run(&format!("SET GLOBAL read_only = {value}")).await;
        }
        Server::Postgres(_) => {
            server.run(&format!("ALTER SYSTEM SET default_transaction_read_only = {value}")).await;
            server.run("SELECT pg_reload_conf()").await;
            let seen = format!(
                "SELECT count(*) FROM pg_settings WHERE name = 'default_transaction_read_only' AND setting = '{value}'"
            );
            until("new sessions see the setting", server, &seen).await;
        }
    }
}

async fn renew(backend: &Arc<dyn LockBackend>, claim: &Claim) -> Result<Renewal> {
    backend.renew(std::slice::from_ref(claim)).await.remove(0)
}

fn users(server: &Server, mode: &str) -> [Arc<dyn LockBackend>; 2] {
    let query = format!("mode={mode}");
    [server.backend(&query), server.administrator(&query)]
}

#[tokio::test]
async fn read_only_server_grants_nothing_to_any_user_and_is_found_by_check() {
    for server in both().await {
        set_read_only(&server, true).await;
        for mode in MODES {
            for backend in users(&server, mode) {
                for lock_mode in [LockMode::Exclusive, LockMode::Shared] {
                    let error = backend.try_acquire(&claim("a").with_mode(lock_mode)).await.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{mode} {lock_mode:?}: {error:?}");
                    assert!(error.to_string().ends_with("takes no writes"), "{mode} {lock_mode:?}: {error}");
                }
                let findings = backend.admin().unwrap().check().await.unwrap();
                let errors: Vec<&str> = findings
                    .iter()
                    .filter(|finding| finding.severity == Severity::Error)
                    .map(|finding| finding.code)
                    .collect();
                assert_eq!(errors, ["E_READ_ONLY"], "{mode}");
            }
        }
        for table in ["leasehold", "leasehold_held", "leasehold_held_rows"] {
            assert_eq!(
                server.number(&format!("SELECT count(*) FROM {table}")).await,
                0,
                "{table} was written to"
            );
        }
        set_read_only(&server, false).await;
        for mode in MODES {
            let [backend, _] = users(&server, mode);
            granted(&backend, &claim(&format!("after {mode}"))).await;
        }
    }
}

#[tokio::test]
async fn known_name_is_not_granted_by_a_server_that_became_read_only() {
    for server in both().await {
        for mode in MODES {
            for backend in users(&server, mode) {
                let held = claim(mode);
                granted(&backend, &held).await;
                assert_eq!(backend.release(&held, Duration::ZERO).await.unwrap(), Release::Released);
                set_read_only(&server, true).await;
                let start = Instant::now();
                let error = loop {
                    match backend.try_acquire(&claim(mode)).await {
                        Err(error) => break error,
                        Ok(_) if !server.is_postgres() => panic!("{mode}: granted"),
                        Ok(attempt) => assert!(start.elapsed() < NOTICED_WITHIN, "{mode}: {attempt:?}"),
                    }
                };
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{mode}: {error:?}");
                set_read_only(&server, false).await;
                backend.close().await.unwrap();
                let end = match &server {
                    _ if mode == "for-update" => continue,
                    _ => "UPDATE leasehold SET ends_at = 0",
                };
                server.run(end).await;
            }
        }
    }
}

/// A lease is not renewed, and ends; a transaction is over, since another server may have given the row to another owner.
#[tokio::test]
async fn holder_is_told_that_its_server_became_read_only() {
    for server in both().await {
        for mode in MODES {
            for backend in users(&server, mode) {
                for lock_mode in [LockMode::Exclusive, LockMode::Shared] {
                    let held = claim(&format!("{mode} {lock_mode:?}")).with_mode(lock_mode);
                    granted(&backend, &held).await;
                    set_read_only(&server, true).await;
                    let start = Instant::now();
                    let told = loop {
                        match renew(&backend, &held).await {
                            Ok(Renewal::Renewed) if server.is_postgres() => {
                                assert!(start.elapsed() < NOTICED_WITHIN, "{mode} {lock_mode:?}: renewed");
                            }
                            told => break told,
                        }
                    };
                    match (mode, told) {
                        ("for-update", Ok(Renewal::Lost(LossCause::ReadOnly))) => {
                            let again = renew(&backend, &held).await.unwrap();
                            assert_eq!(again, Renewal::Lost(LossCause::ReadOnly), "{lock_mode:?}");
                        }
                        ("lease" | "optimistic", Err(error)) if error.kind() == ErrorKind::Unavailable => {}
                        (_, told) => panic!("{mode} {lock_mode:?}: {told:?}"),
                    }
                    let released = backend.release(&held, Duration::ZERO).await;
                    assert!(!matches!(released, Ok(Release::Released)), "{mode} {lock_mode:?}: {released:?}");
                    set_read_only(&server, false).await;
                    if mode != "for-update" {
                        assert_eq!(
                            renew(&backend, &held).await.unwrap(),
                            Renewal::Renewed,
                            "{mode} {lock_mode:?}"
                        );
                        backend.release(&held, Duration::ZERO).await.unwrap();
                    }
                }
            }
        }
    }
}

/// The server of MySQL or MariaDB that was replaced may have the row locked still. PostgreSQL ends the hold, and the entry stays.
#[tokio::test]
async fn release_on_a_server_that_became_read_only_says_that_it_was_lost_for_that() {
    let server = Server::mariadb(&[]);
    server.furnish().await;
    for backend in users(&server, "for-update") {
        for lock_mode in [LockMode::Exclusive, LockMode::Shared] {
            let held = claim(&format!("{lock_mode:?}")).with_mode(lock_mode);
            granted(&backend, &held).await;
            set_read_only(&server, true).await;
            let error = backend.release(&held, Duration::ZERO).await.expect_err("it was lost");
            let cause = error.loss().map(leasehold_core::Loss::cause);
            assert_eq!(cause, Some(LossCause::ReadOnly), "{lock_mode:?}: {error:?}");
            assert_eq!(
                backend.release(&held, Duration::ZERO).await.unwrap(),
                Release::NotHeld,
                "{lock_mode:?}"
            );
            set_read_only(&server, false).await;
        }
    }
}

/// What a replica knows of a hold says nothing.
#[tokio::test]
async fn read_only_server_tells_no_holder_that_it_holds_nothing() {
    for server in both().await {
        for backend in [server.backend(""), server.administrator("")] {
            granted(&backend, &claim("known")).await;
            set_read_only(&server, true).await;
            for lock_mode in [LockMode::Exclusive, LockMode::Shared] {
                for name in ["known", "unknown"] {
                    let elsewhere = claim_for(name, Duration::from_secs(9)).with_mode(lock_mode);
                    let start = Instant::now();
                    while let Ok(answer) = renew(&backend, &elsewhere).await {
                        assert!(
                            server.is_postgres() && start.elapsed() < NOTICED_WITHIN,
                            "{lock_mode:?} of {name}: {answer:?}"
                        );
                    }
                    let released = backend.release(&elsewhere, Duration::ZERO).await;
                    assert!(released.is_err(), "{lock_mode:?} of {name}: {released:?}");
                }
            }
            set_read_only(&server, false).await;
            server.run("DELETE FROM leasehold").await;
        }
    }
}

fn is_refusal<T: std::fmt::Debug>(answer: Result<T>, of: &str) {
    let error = answer.expect_err(of);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{of}: {error:?}");
    assert!(error.to_string().ends_with("takes no writes"), "{of}: {error}");
}

/// A list of leases shows what the server knows; nothing else of what may be wrong is answered.
async fn questions_are_refused(server: &Server) {
    for mode in MODES {
        for backend in users(server, mode) {
            let admin = backend.admin().unwrap();
            for name in ["held", "unknown"] {
                let (name, of) = (LockName::new(name).unwrap(), format!("{mode}: {name}"));
                is_refusal(admin.inspect(&name).await, &of);
                is_refusal(admin.force_release(&name, None).await, &of);
            }
            for prefix in ["", "unknown"] {
                match mode {
                    "for-update" => is_refusal(admin.list(prefix).await, &format!("list of {prefix:?}")),
                    _ => assert_eq!(admin.list(prefix).await.unwrap().len(), usize::from(prefix.is_empty())),
                }
            }
        }
    }
}

#[tokio::test]
async fn question_whether_a_lock_is_free_is_refused_by_a_read_only_server() {
    for server in both().await {
        let holders = [server.backend("mode=lease"), server.backend("mode=for-update")];
        for holder in &holders {
            granted(holder, &claim("held")).await;
        }
        set_read_only(&server, true).await;
        questions_are_refused(&server).await;
        set_read_only(&server, false).await;
    }
}

#[tokio::test]
async fn question_whether_a_lock_is_free_is_refused_by_a_standby() {
    let primary = PostgresServer::start().unwrap();
    let standby = Server::Postgres(PostgresServer::start_standby_of(&primary).unwrap());
    let primary = Server::Postgres(primary);
    primary.furnish().await;
    let holders = [primary.backend("mode=lease"), primary.backend("mode=for-update")];
    for holder in &holders {
        granted(holder, &claim("held")).await;
    }
    until("the standby has the holders", &standby, "SELECT count(*) FROM leasehold, leasehold_held").await;
    questions_are_refused(&standby).await;
}

/// The setting of a database, with which it is kept as it is while it is moved.
#[tokio::test]
async fn read_only_database_or_role_of_postgres_grants_nothing() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    for whose in ["DATABASE postgres", "ROLE locker"] {
        server.run(&format!("ALTER {whose} SET default_transaction_read_only = on")).await;
        for mode in MODES {
            let error = server.backend(&format!("mode={mode}")).try_acquire(&claim("a")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{whose} {mode}: {error:?}");
            assert!(error.help().is_some_and(|help| help.contains("default_transaction_read_only")));
        }
        let off = format!("BEGIN READ WRITE; ALTER {whose} RESET default_transaction_read_only; COMMIT");
        server.run(&off).await;
    }
    assert!(ask(&server.backend(""), &claim("a")).await.is_some());
}
