//! Servers from which rights were taken that everybody has by default, as guides to hardening say.

use crate::kit::{MODES, Server, both, claim, granted, open};
use crate::settings::one_holds_and_the_others_do_not;
use leasehold_core::{ErrorKind, LockMode, Release, Severity};
use leasehold_test_stores::servers::PgBouncer;
use std::time::Duration;

/// What no lock needs. PostgreSQL gives all of it to PUBLIC.
const NOT_NEEDED: [&str; 11] = [
    "EXECUTE ON FUNCTION pg_notify(text, text)",
    "EXECUTE ON FUNCTION set_config(text, text, boolean)",
    "EXECUTE ON FUNCTION pg_control_system()",
    "EXECUTE ON FUNCTION pg_postmaster_start_time()",
    "EXECUTE ON FUNCTION pg_sleep(double precision)",
    "SELECT ON pg_stat_replication",
    "SELECT ON pg_settings",
    "SELECT ON pg_roles",
    "USAGE ON LANGUAGE plpgsql",
    "CREATE, TEMPORARY ON DATABASE postgres",
    "CREATE ON SCHEMA public",
];

/// What every lock needs, and PostgreSQL gives to PUBLIC too.
const NEEDED: [&str; 10] = [
    "USAGE ON SCHEMA pg_catalog",
    "SELECT ON pg_class",
    "SELECT ON pg_attribute",
    "SELECT ON pg_index",
    "EXECUTE ON FUNCTION clock_timestamp()",
    "EXECUTE ON FUNCTION pg_backend_pid()",
    "EXECUTE ON FUNCTION current_setting(text)",
    "EXECUTE ON FUNCTION current_setting(text, boolean)",
    "EXECUTE ON FUNCTION to_regclass(text)",
    "EXECUTE ON FUNCTION format_type(oid, integer)",
];

/// What `check` needs to see the settings.
const SEEN_BY: [&str; 2] =
    ["EXECUTE ON FUNCTION pg_is_in_recovery()", "EXECUTE ON FUNCTION pg_stat_get_activity(integer)"];

#[tokio::test]
async fn postgres_without_a_right_of_the_table_is_denied() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    for right in NEEDED {
        server.run(&format!("REVOKE {right} FROM PUBLIC")).await;
        for mode in MODES {
            let error = server.backend(&format!("mode={mode}")).try_acquire(&claim("a")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{mode} without {right}: {error:?}");
        }
        server.run(&format!("GRANT {right} TO PUBLIC")).await;
    }
    for right in SEEN_BY {
        server.run(&format!("REVOKE {right} FROM PUBLIC")).await;
        one_holds_and_the_others_do_not(&server, right).await;
        let findings = server.backend("").admin().unwrap().check().await.unwrap();
        assert!(findings.iter().any(|finding| finding.code == "W_DENIED"), "{right}: {findings:?}");
        server.run(&format!("GRANT {right} TO PUBLIC")).await;
    }
}

#[tokio::test]
async fn postgres_without_rights_of_public_serves_every_mode() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    for right in NOT_NEEDED {
        server.run(&format!("REVOKE {right} FROM PUBLIC")).await;
        one_holds_and_the_others_do_not(&server, right).await;
        for mode in MODES {
            let (backend, reader) =
                (server.backend(&format!("mode={mode}")), claim("shared").with_mode(LockMode::Shared));
            granted(&backend, &reader).await;
            assert_eq!(
                backend.release(&reader, Duration::ZERO).await.unwrap(),
                Release::Released,
                "{mode} {right}"
            );
            let findings = backend.admin().unwrap().check().await.unwrap();
            assert!(findings.iter().all(|it| it.severity != Severity::Error), "{mode} {right}: {findings:?}");
        }
    }
    let codes: Vec<&str> = server
        .backend("")
        .admin()
        .unwrap()
        .check()
        .await
        .unwrap()
        .iter()
        .map(|finding| finding.code)
        .collect();
    assert_eq!(codes, ["W_DENIED"], "what the settings are is not seen any more");
}

#[tokio::test]
async fn user_that_may_not_notify_is_found_by_check_and_ends_holds_of_others() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    server.run("REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC").await;
    let backend = server.backend("");
    let findings = backend.admin().unwrap().check().await.unwrap();
    let unheard = findings.iter().find(|finding| finding.code == "W_UNHEARD").unwrap();
    assert!(unheard.help.contains("pg_notify"), "{unheard:?}");
    granted(&server.backend(""), &claim("a")).await;
    let ended = backend.admin().unwrap().force_release(claim("a").name(), None).await.unwrap();
    assert_eq!(ended.len(), 1);
    granted(&backend, &claim("a")).await;
}

#[tokio::test]
async fn empty_search_path_is_named_and_a_schema_in_the_url_serves() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    for role in ["locker", "postgres"] {
        server.run(&format!("ALTER ROLE {role} SET search_path = ''")).await;
    }
    for mode in MODES {
        let query = format!("mode={mode}");
        let error = server.backend(&query).try_acquire(&claim("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
        assert!(error.help().is_some_and(|help| help.contains("schema=NAME")), "{error:?}");
        let error = server.administrator(&query).admin().unwrap().init().await.unwrap_err();
        assert!(error.to_string().contains("search_path"), "{error:?}");

        let query = format!("mode={mode}&schema=public");
        server.administrator(&query).admin().unwrap().init().await.unwrap();
        let (backend, other) = (server.backend(&query), server.backend(&query));
        let held = claim(mode);
        granted(&backend, &held).await;
        assert!(crate::kit::ask(&other, &claim(mode)).await.is_none(), "{mode}: two holders");
        assert_eq!(backend.release(&held, Duration::ZERO).await.unwrap(), Release::Released);
        let findings = backend.admin().unwrap().check().await.unwrap();
        assert!(findings.iter().all(|it| it.severity != Severity::Error), "{mode}: {findings:?}");
    }
    let error = open(&server.url("schema=a.b")).unwrap_err();
    assert!(error.to_string().contains("schema"), "{error}");
}

#[tokio::test]
async fn schema_of_the_url_that_is_not_there_is_named_with_the_way_to_make_it() {
    let server = Server::postgres(&[]);
    for mode in MODES {
        let backend = server.administrator(&format!("mode={mode}&schema=nosuch"));
        let error = backend.admin().unwrap().init().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
        assert!(error.to_string().starts_with("there is no schema \"nosuch\", at "), "{error}");
        assert!(error.help().is_some_and(|help| help.contains("CREATE SCHEMA")), "{error:?}");
    }
}

#[tokio::test]
async fn pooler_that_refuses_the_simple_protocol_is_named() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    let pooler = PgBouncer::start(server.port(), "session\ndisable_pqexec = 1").unwrap();
    for mode in MODES {
        let url = server.url_at(pooler.port(), "locker:sesame", &format!("mode={mode}"));
        let error = open(&url).unwrap().try_acquire(&claim("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
        assert!(error.help().is_some_and(|help| help.contains("disable_pqexec")), "{error:?}");
    }
}

#[tokio::test]
async fn mariadb_with_hardened_settings_serves_every_mode() {
    let server = Server::mariadb(&[
        "--skip-show-database",
        "--skip-name-resolve",
        "--local-infile=0",
        "--symbolic-links=0",
        "--sql-mode=STRICT_ALL_TABLES,NO_AUTO_CREATE_USER,ERROR_FOR_DIVISION_BY_ZERO",
    ]);
    server.furnish().await;
    one_holds_and_the_others_do_not(&server, "hardened").await;
    let findings = server.backend("").admin().unwrap().check().await.unwrap();
    assert!(findings.iter().all(|finding| finding.severity != Severity::Error), "{findings:?}");
}

/// As an administrator runs it, for the user whose URL it was printed for.
#[tokio::test]
async fn printed_script_names_the_rights_that_the_mode_needs() {
    for server in both().await {
        for mode in MODES {
            let query = format!("mode={mode}&table=printed_{}", mode.replace('-', "_"));
            let script = server.backend(&query).admin().unwrap().init_script().unwrap();
            let tables = if mode == "for-update" { 2 } else { 1 };
            assert_eq!(script.matches("GRANT SELECT, INSERT, UPDATE ON ").count(), tables, "{script}");
            assert!(script.contains("locker"), "{script}");
            // The account of MySQL and MariaDB has a host, which no URL names.
            let script = script
                .replace("-- GRANT", "GRANT")
                .replace("'locker'@'%'", "'locker'@'127.0.0.1'")
                .replace(";\n", ";\n\n");
            for statement in script.split("\n\n").filter(|it| it.contains("CREATE") || it.contains("GRANT")) {
                server.run(statement).await;
            }
            granted(&server.backend(&query), &claim("a")).await;
        }
    }
}
