//! What is refused, and what `check` finds.

use crate::kit::{MODES, Server, ask, both, claim, granted, open};
use leasehold_core::{Attempt, ErrorKind, LockBackend, Renewal, Severity};
use std::sync::Arc;

async fn refusal(backend: &Arc<dyn LockBackend>) -> String {
    let error = backend.try_acquire(&claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    error.to_string()
}

#[tokio::test]
async fn foreign_row_is_refused_by_name_and_hides_no_other() {
    for server in both().await {
        let backend = server.backend("");
        let admin = backend.admin().unwrap();
        granted(&backend, &claim("held")).await;
        granted(&backend, &claim("bad")).await;
        assert_eq!(server.run("UPDATE leasehold SET token = -5 WHERE name = 'bad'").await, 1);
        let listed: Vec<_> = admin.list("").await.unwrap().into_iter().map(|lock| lock.name).collect();
        assert_eq!(listed, [claim("held").name().clone()]);
        let error = admin.inspect(claim("bad").name()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().starts_with("the row of \"bad\" in "), "{error}");
        assert!(error.help().unwrap().contains("delete it"));
        assert!(!matches!(backend.try_acquire(&claim("bad")).await, Ok(Attempt::Granted(_))));
        // An optimistic grant, which reads before it writes, says so too.
        let error = server.backend("mode=optimistic").try_acquire(&claim("bad")).await.unwrap_err();
        assert!(error.to_string().starts_with("the row of \"bad\" in "), "{error}");
    }
}

#[tokio::test]
async fn table_that_merges_names_or_forgets_rows_is_refused() {
    let [mariadb, postgres] = both().await;
    let cases = [
        (
            &mariadb,
            "engine",
            "ALTER TABLE leasehold ENGINE = MyISAM",
            "it has \"BASE TABLE of MyISAM\" in place of \"BASE TABLE of InnoDB\"",
        ),
        (
            &mariadb,
            "length",
            "ALTER TABLE leasehold MODIFY name VARBINARY(64) NOT NULL",
            "it has \"name varbinary(64) not null primary key\" in place of \"name varbinary(640) not null primary key\"",
        ),
        (
            &mariadb,
            "collation",
            "ALTER TABLE leasehold MODIFY name VARCHAR(640) CHARACTER SET latin1 NOT NULL",
            "it has \"name varchar(640) latin1_swedish_ci not null primary key\" in place of",
        ),
        (
            &mariadb,
            "key",
            "ALTER TABLE leasehold DROP PRIMARY KEY",
            "it has \"name varbinary(640) not null\" in place of",
        ),
        (
            &mariadb,
            "part of the key",
            "ALTER TABLE leasehold DROP PRIMARY KEY, ADD PRIMARY KEY (name(8))",
            "it has \"name varbinary(640) not null primary key(8)\" in place of",
        ),
        // What is in the way of a grant is then the row of another name, which is granted in its place.
        (
            &mariadb,
            "another key",
            "ALTER TABLE leasehold ADD UNIQUE (token)",
            "it has \"token bigint not null unique\" in place of \"token bigint not null\"",
        ),
        (&postgres, "unlogged", "ALTER TABLE leasehold SET UNLOGGED", "it has \"UNLOGGED rows"),
        (
            &postgres,
            "type",
            "ALTER TABLE leasehold ALTER token TYPE integer",
            "it has \"token integer not null\" in place of \"token bigint not null\"",
        ),
        (&postgres, "column", "ALTER TABLE leasehold DROP holder", "it has no \"holder text not null\""),
    ];
    for (server, what, change, expected) in cases {
        server.run("DROP TABLE leasehold").await;
        server.administrator("").admin().unwrap().init().await.unwrap();
        server.run(change).await;
        let said = refusal(&server.administrator("")).await;
        assert!(said.contains(expected), "{what}: {said}");
        let by_check = server.administrator("").admin().unwrap().check().await.unwrap_err();
        assert!(by_check.to_string().contains(expected), "{what} in check: {by_check}");
    }
}

#[tokio::test]
async fn rights_that_are_missing_are_denied_and_not_called_an_outage() {
    for server in both().await {
        let revoke = match &server {
            Server::MariaDb(_) => "REVOKE UPDATE ON locks.leasehold FROM locker@'127.0.0.1'",
            Server::Postgres(_) => "REVOKE UPDATE ON leasehold FROM locker",
        };
        server.run(revoke).await;
        let error = server.backend("").try_acquire(&claim("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        let url = server.url_at(server.port(), "locker:S3CR3T", "");
        let error = open(&url).unwrap().try_acquire(&claim("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(!format!("{error:?}").contains("S3CR3T"));
    }
}

fn denied(findings: Vec<leasehold_core::Finding>) -> Vec<String> {
    findings.into_iter().filter(|it| it.code == "E_DENIED").map(|it| it.message).collect()
}

/// A trigger for each statement fires for one that changes no row.
#[tokio::test]
async fn check_of_rights_fires_no_trigger() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    server
        .run(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION 'fired' USING ERRCODE = 'insufficient_privilege'; END $$;
             CREATE TRIGGER refuses BEFORE INSERT OR UPDATE ON leasehold EXECUTE FUNCTION refuse()",
        )
        .await;
    let backend = server.backend("");
    let error = backend.try_acquire(&claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "it fires: {error}");
    assert_eq!(denied(backend.admin().unwrap().check().await.unwrap()), Vec::<String>::new());
}

#[tokio::test]
async fn rights_that_are_missing_are_found_by_check() {
    for server in both().await {
        for (mode, right, table) in [
            ("lease", "UPDATE", "leasehold"),
            ("optimistic", "INSERT", "leasehold"),
            ("for-update", "INSERT, UPDATE", "leasehold_held_rows"),
        ] {
            let backend = server.backend(&format!("mode={mode}"));
            let admin = backend.admin().unwrap();
            assert_eq!(denied(admin.check().await.unwrap()), Vec::<String>::new());
            let (change, user) = match &server {
                Server::MariaDb(_) => (format!("{right} ON locks.{table}"), "locker@'127.0.0.1'"),
                Server::Postgres(_) => (format!("{right} ON {table}"), "locker"),
            };
            server.run(&format!("REVOKE {change} FROM {user}")).await;
            let said = denied(admin.check().await.unwrap());
            assert_eq!(said.len(), 1, "{mode} without {right}: {said:?}");
            assert!(said[0].ends_with(&format!("may not use {table}")), "{said:?}");
            server.run(&format!("GRANT {change} TO {user}")).await;
        }
    }
}

/// As where it has no connections left: it may have some in a moment.
#[tokio::test]
async fn server_without_room_for_a_prepared_statement_is_unavailable() {
    let server = Server::mariadb(&[]);
    server.furnish().await;
    server.run("SET GLOBAL max_prepared_stmt_count = 0").await;
    let error = server.backend("").try_acquire(&claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("no room for prepared statements"), "{error}");
}

#[tokio::test]
async fn settings_that_forget_commits_are_found() {
    let [mariadb, postgres] = both().await;
    let codes = |findings: Vec<leasehold_core::Finding>| {
        findings.into_iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    // Both run as tests do: fast, and forgetful if the machine were to fail.
    assert_eq!(codes(mariadb.backend("").admin().unwrap().check().await.unwrap()), ["W_FLUSH"]);
    assert_eq!(codes(postgres.backend("").admin().unwrap().check().await.unwrap()), ["W_FSYNC"]);
    mariadb.run("SET GLOBAL innodb_flush_log_at_trx_commit = 1").await;
    assert!(mariadb.backend("").admin().unwrap().check().await.unwrap().is_empty());
}

/// With a binary log it is that which decides what is there after a crash.
#[tokio::test]
async fn unsynced_binary_log_is_found() {
    let server = Server::mariadb(&["--server-id=1", "--log-bin=changes", "--sync-binlog=0"]);
    server.furnish().await;
    for (flush, expected) in [(1, ["W_SYNC_BINLOG"].as_slice()), (3, &[]), (0, &["W_FLUSH", "W_SYNC_BINLOG"])]
    {
        server.run(&format!("SET GLOBAL innodb_flush_log_at_trx_commit = {flush}")).await;
        let findings = server.backend("").admin().unwrap().check().await.unwrap();
        let codes: Vec<&str> = findings.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, expected, "flush {flush}");
    }
}

/// By the variable that a node has on, here without a cluster: what two nodes would do is not tried.
#[tokio::test]
async fn galera_node_is_refused_unless_it_is_the_single_writer() {
    let server = Server::mariadb(&["--wsrep-on=ON"]);
    server.furnish().await;
    let found = |query: &'static str| {
        let backend = server.backend(query);
        async move { backend.admin().unwrap().check().await.unwrap() }
    };
    let galera = found("").await.into_iter().find(|finding| finding.code == "E_GALERA").unwrap();
    assert_eq!(galera.severity, Severity::Error);
    assert!(galera.help.contains("galera=single-writer"), "{galera:?}");
    assert!(found("galera=single-writer").await.iter().all(|finding| finding.code != "E_GALERA"));
    let refused = refusal(&server.backend("")).await;
    assert!(refused.contains("two of its nodes may grant one lock"), "{refused}");
    let one = server.backend("galera=single-writer");
    assert!(matches!(one.try_acquire(&claim("a")).await.unwrap(), Attempt::Granted(_)));
}

#[tokio::test]
async fn commits_are_asked_to_be_durable_where_the_server_would_not() {
    let server = Server::postgres(&["-c", "synchronous_commit=off"]);
    server.furnish().await;
    let backend = server.backend("mode=for-update");
    let held = claim("a");
    backend.try_acquire(&held).await.unwrap();
    // The session that waits in its transaction is one of ours, and can be asked for its setting only by itself; that it
    // survives a crash is what counts.
    drop(backend);
    let mut server = server;
    let lease = server.backend("");
    lease.try_acquire(&claim("kept")).await.unwrap();
    server.process().kill();
    server.process().restart(true).unwrap();
    assert_eq!(server.number("SELECT count(*) FROM leasehold WHERE owner IS NOT NULL").await, 1);
}

/// By hand, or by a program that made the row.
#[tokio::test]
async fn refused_attempt_takes_nothing_over_if_the_token_is_0() {
    for server in both().await {
        let backend = server.backend("");
        let held = claim("a");
        granted(&backend, &held).await;
        server.run("UPDATE leasehold SET token = 0").await;
        assert!(ask(&backend, &claim("a")).await.is_none());
        let renewed = backend.renew(std::slice::from_ref(&held)).await.remove(0);
        assert_eq!(renewed.unwrap(), Renewal::Renewed);
    }
}

/// There `InnoDB` locks no row under READ COMMITTED, without which a lock of `for-update` cannot be taken.
#[tokio::test]
async fn binary_log_of_statements_is_an_error_in_for_update_mode() {
    let server = Server::mariadb(&["--server-id=1", "--log-bin=changes", "--binlog-format=STATEMENT"]);
    server.furnish().await;
    for mode in MODES {
        let held = mode == "for-update";
        let backend = server.backend(&format!("mode={mode}"));
        let findings = backend.admin().unwrap().check().await.unwrap();
        let code = if held { "E_BINLOG" } else { "W_BINLOG" };
        let found = findings.iter().find(|finding| finding.code == code).unwrap();
        assert_eq!(found.severity == Severity::Error, held, "{mode}: {found:?}");
        if held {
            let error = backend.try_acquire(&claim("a")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
            assert!(format!("{error:?}").contains("BINLOG_FORMAT = STATEMENT"), "{error:?}");
        } else {
            granted(&backend, &claim(mode)).await;
        }
    }
}

/// The code and message of the error that a check finds, if any.
async fn error_found(server: &Server, mode: &str) -> Option<(&'static str, String)> {
    let findings = server.backend(&format!("mode={mode}")).admin().unwrap().check().await.unwrap();
    let error = findings.into_iter().find(|finding| finding.severity == Severity::Error)?;
    Some((error.code, error.message))
}

/// None of it shows in the columns, the rights or the settings.
#[tokio::test]
async fn check_reports_a_trial_lock_that_fails() {
    let [mariadb, postgres] = both().await;
    let cases = [
        (
            &postgres,
            "ALTER TABLE {} ENABLE ROW LEVEL SECURITY; CREATE POLICY none ON {} USING (false)",
            "DROP POLICY none ON {}; ALTER TABLE {} DISABLE ROW LEVEL SECURITY",
            "row-level security",
        ),
        (
            &postgres,
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no change today'; END $$; \
             CREATE TRIGGER refuse BEFORE UPDATE OR INSERT ON {} FOR EACH ROW EXECUTE FUNCTION refuse()",
            "DROP FUNCTION refuse CASCADE",
            "no change today",
        ),
        (
            &postgres,
            "CREATE FUNCTION ignore() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; \
             CREATE TRIGGER ignore BEFORE UPDATE OR INSERT ON {} FOR EACH ROW EXECUTE FUNCTION ignore()",
            "DROP FUNCTION ignore CASCADE",
            "a trial lock could not be acquired",
        ),
        (
            &mariadb,
            "CREATE TRIGGER refuse BEFORE UPDATE ON {} FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no change today'",
            "DROP TRIGGER refuse",
            "no change today",
        ),
    ];
    for (server, change, back, expected) in cases {
        for (mode, table) in
            [("lease", "leasehold"), ("optimistic", "leasehold"), ("for-update", "leasehold_held")]
        {
            assert_eq!(error_found(server, mode).await, None, "before {change}");
            server.run(&change.replace("{}", table)).await;
            let (code, message) = error_found(server, mode).await.unwrap();
            assert!(code == "E_TRIAL" && message.contains(expected), "{mode}: {code} {message}");
            server.run(&back.replace("{}", table)).await;
        }
    }
    let rows = "SELECT count(*) FROM leasehold WHERE owner IS NOT NULL";
    for server in [&mariadb, &postgres] {
        assert_eq!(server.number(rows).await, 0, "a trial is still held");
    }
}

#[tokio::test]
async fn check_removes_its_trial_lock_where_it_may_delete() {
    for server in both().await {
        for (mode, table) in [("lease", "leasehold"), ("for-update", "leasehold_held")] {
            let admin = server.administrator(&format!("mode={mode}"));
            admin.admin().unwrap().check().await.unwrap();
            assert_eq!(server.number(&format!("SELECT count(*) FROM {table}")).await, 0, "{mode}");
            for _ in 0..2 {
                assert_eq!(error_found(&server, mode).await, None, "{mode}");
            }
            assert_eq!(server.number(&format!("SELECT count(*) FROM {table}")).await, 1, "{mode}");
        }
    }
}

#[tokio::test]
async fn checks_at_the_same_time_do_not_disturb_each_other() {
    for server in both().await {
        for mode in MODES {
            let errors = futures_util::future::join_all((0..4).map(|_| error_found(&server, mode))).await;
            assert!(errors.iter().all(Option::is_none), "{mode}: {errors:?}");
        }
    }
}

/// Every commit hangs, also that of a statement which has a time limit.
#[tokio::test]
async fn check_finds_that_commits_wait_for_a_standby_that_is_missing() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    server.run("ALTER SYSTEM SET synchronous_standby_names = '*'").await;
    server.run("SELECT pg_reload_conf()").await;
    while server
        .number("SELECT count(*) FROM pg_settings WHERE name = 'synchronous_standby_names' AND setting = '*'")
        .await
        == 0
    {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    for mode in MODES {
        assert_eq!(error_found(&server, mode).await.unwrap().0, "E_NO_STANDBY", "{mode}");
    }
}

/// The driver tells where in its sources PostgreSQL has reported an error, and MySQL quotes the statement.
#[tokio::test]
async fn cause_of_an_error_has_no_line_of_the_source_of_the_server() {
    for server in both().await {
        let nobody = open(&server.url_at(server.port(), "nobody:sesame", "")).unwrap();
        let refused = nobody.try_acquire(&claim("a")).await.unwrap_err();
        let said = format!("{refused:?}");
        assert!(said.contains("nobody") && !said.contains(" at line ") && !said.contains(".c\""), "{said}");
    }
}
