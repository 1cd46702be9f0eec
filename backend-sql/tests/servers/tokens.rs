//! Fencing tokens of leases: each is larger than the last of its name, whatever the server's clock does.

use crate::kit::{Server, ask, both, claim, granted};
use leasehold_core::{Claim, ErrorKind, LockBackend, LockMode, Release};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Executor, Row};
use std::sync::Arc;
use std::time::Duration;

const MODES: [&str; 2] = ["mode=lease", "mode=optimistic"];
const AN_HOUR: i64 = 3_600_000_000;
const LARGEST: i64 = (1 << 53) - 1;

/// Every server in every mode that has the table of leases.
async fn everywhere() -> Vec<(Arc<Server>, Arc<dyn LockBackend>)> {
    let servers = both().await.map(Arc::new);
    let modes = |server: &Arc<Server>| MODES.map(|mode| (Arc::clone(server), server.backend(mode)));
    servers.iter().flat_map(modes).collect()
}

async fn release(backend: &Arc<dyn LockBackend>, claim: &Claim) {
    assert_eq!(backend.release(claim, Duration::ZERO).await.unwrap(), Release::Released);
}

/// Leaves a row that is free.
async fn grant_and_release(backend: &Arc<dyn LockBackend>) {
    let claim = claim("a");
    granted(backend, &claim).await;
    release(backend, &claim).await;
}

impl Server {
    async fn token_of_the_row(&self) -> i64 {
        self.number("SELECT token FROM leasehold").await
    }
}

/// The lease is counted from the grant, and not from the one before.
#[tokio::test]
async fn grant_of_a_row_that_was_last_granted_an_hour_ago_lasts_a_whole_lease() {
    for (server, backend) in everywhere().await {
        grant_and_release(&backend).await;
        server.run(&format!("UPDATE leasehold SET acquired_at = acquired_at - {AN_HOUR}")).await;
        let claim = claim("a");
        granted(&backend, &claim).await;
        let holders = backend.admin().unwrap().inspect(claim.name()).await.unwrap();
        let ends_in = holders[0].ends_in.unwrap();
        assert!(claim.ttl() / 2 < ends_in && ends_in <= claim.ttl(), "{ends_in:?}");
        release(&backend, &claim).await;
    }
}

#[tokio::test]
async fn token_grows_with_each_grant_and_a_repeated_grant_keeps_it() {
    for (server, backend) in everywhere().await {
        let mut last = None;
        for round in 0..20 {
            let mine = claim("a");
            let token = granted(&backend, &mine).await;
            assert!(last.is_none_or(|last| token > last), "round {round}: {token} after {last:?}");
            assert_eq!(granted(&backend, &mine).await, token, "round {round}: the reply was lost");
            assert!(ask(&backend, &claim("a")).await.is_none(), "round {round}: two holders");
            assert_eq!(server.token_of_the_row().await, token.get().cast_signed());
            release(&backend, &mine).await;
            assert_eq!(server.token_of_the_row().await, token.get().cast_signed(), "kept after the release");
            last = Some(token);
        }
        server.run("DELETE FROM leasehold").await;
    }
}

/// The clock was set back: the last token is an hour ahead of it, or just a little.
#[tokio::test]
async fn token_ahead_of_the_clock_grows_by_one() {
    for (server, backend) in everywhere().await {
        for ahead in [AN_HOUR, 900_000] {
            grant_and_release(&backend).await;
            server.run(&format!("UPDATE leasehold SET token = token + {ahead}")).await;
            let last = server.token_of_the_row().await;

            let mine = claim("a");
            let token = granted(&backend, &mine).await;
            assert_eq!(token.get().cast_signed(), last + 1);
            assert_eq!(granted(&backend, &mine).await, token, "the reply was lost");
            let shown = backend.admin().unwrap().inspect(mine.name()).await.unwrap().remove(0);
            assert_eq!(shown.token, Some(token));
            server.run("DELETE FROM leasehold").await;
        }
    }
}

/// What makes the entry of a late statement none.
#[tokio::test]
async fn token_ahead_of_the_clock_grows_by_one_for_a_holder_and_for_a_reader_of_for_update() {
    for server in both().await {
        let backend = server.backend("mode=for-update");
        for mode in [LockMode::Exclusive, LockMode::Shared] {
            grant_and_release(&backend).await;
            server.run(&format!("UPDATE leasehold_held SET token = token + {AN_HOUR}")).await;
            let last = server.number("SELECT token FROM leasehold_held").await;
            let mine = claim("a").with_mode(mode);
            let token = granted(&backend, &mine).await;
            assert_eq!(token.get().cast_signed(), last + 1, "{mode:?}");
            let shown = backend.admin().unwrap().inspect(mine.name()).await.unwrap();
            assert_eq!((shown.len(), shown[0].token), (1, Some(token)), "{mode:?}");
            release(&backend, &mine).await;
            server.run("DELETE FROM leasehold_held").await;
        }
    }
}

#[tokio::test]
async fn largest_token_is_granted_once_and_then_the_name_is_refused() {
    for (server, backend) in everywhere().await {
        grant_and_release(&backend).await;
        server.run(&format!("UPDATE leasehold SET token = {LARGEST} - 1")).await;
        let mine = claim("a");
        let token = granted(&backend, &mine).await;
        assert_eq!(token.get().cast_signed(), LARGEST);
        assert_eq!(granted(&backend, &mine).await, token, "the reply was lost");
        assert!(ask(&backend, &claim("a")).await.is_none(), "it is held still");
        release(&backend, &mine).await;
        is_used_up(&backend, &claim("a"), "after the largest").await;
        assert_eq!(server.token_of_the_row().await, LARGEST);
        server.run("DELETE FROM leasehold").await;
    }
}

async fn is_used_up(backend: &Arc<dyn LockBackend>, claim: &Claim, of: &str) {
    let error = backend.try_acquire(claim).await.expect_err(of);
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{of}: {error:?}");
    assert_eq!(error.to_string(), "the fencing tokens of this name are used up", "{of}");
}

/// Each attempt is the first of its client, as that of a process which asks once.
#[tokio::test]
async fn free_row_without_tokens_left_is_an_error_for_each_kind_of_claim() {
    for server in both().await {
        for mode in ["lease", "optimistic", "for-update"] {
            let table = if mode == "for-update" { "leasehold_held" } else { "leasehold" };
            let fresh = || server.backend(&format!("mode={mode}"));
            grant_and_release(&fresh()).await;
            for last in [LARGEST, LARGEST + 1, i64::MAX] {
                for lock_mode in [LockMode::Exclusive, LockMode::Shared] {
                    for waits in [false, true] {
                        server.run(&format!("UPDATE {table} SET token = {last}")).await;
                        let wanted = claim("a").with_mode(lock_mode).with_waiting(waits);
                        let of = format!("{mode} {lock_mode:?} after {last}, waits: {waits}");
                        is_used_up(&fresh(), &wanted, &of).await;
                    }
                }
            }
            server.run(&format!("DELETE FROM {table}")).await;
        }
    }
}

#[tokio::test]
async fn force_release_ends_only_the_grant_with_the_given_token() {
    for (server, backend) in everywhere().await {
        let earlier = claim("a");
        let earlier_token = granted(&backend, &earlier).await;
        release(&backend, &earlier).await;
        let mine = claim("a");
        let token = granted(&backend, &mine).await;
        let admin = backend.admin().unwrap();
        assert!(admin.force_release(mine.name(), Some(earlier_token)).await.unwrap().is_empty());
        assert!(ask(&backend, &claim("a")).await.is_none());
        let broken = admin.force_release(mine.name(), Some(token)).await.unwrap().remove(0);
        assert_eq!(broken.token, Some(token));
        assert!(granted(&backend, &claim("a")).await > token);
        server.run("DELETE FROM leasehold").await;
    }
}

/// The time that a moving clock shows: the first of 2040.
const MIDNIGHT: u64 = 2_208_988_800_000_000;

/// Each look at the clock within one statement sees another time, as when the server is paused or its clock is set there.
#[tokio::test]
async fn clock_that_moves_within_a_statement_of_postgres_repeats_no_token() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    for statement in [
        "CREATE SCHEMA moved",
        "CREATE SEQUENCE moved.looks",
        "CREATE TABLE moved.by (micros bigint)",
        "INSERT INTO moved.by VALUES (0)",
        "GRANT USAGE ON SCHEMA moved TO locker",
        "GRANT USAGE ON SEQUENCE moved.looks TO locker",
        "GRANT SELECT ON moved.by TO locker",
        "CREATE FUNCTION moved.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$ \
         SELECT timestamptz '2040-01-01 00:00:00+00' + interval '1 microsecond' \
            * (SELECT look + look * look % 7 * micros FROM moved.by, nextval('moved.looks') AS look) $$",
        "ALTER ROLE locker SET search_path = moved, pg_catalog, public",
    ] {
        server.run(statement).await;
    }
    let backend = server.backend("mode=lease");
    for by in [0_i64, 5, 700] {
        server.run(&format!("UPDATE moved.by SET micros = {by}")).await;
        for ahead in (0..8_000).step_by(400) {
            grant_and_release(&backend).await;
            server.run(&format!("UPDATE leasehold SET token = {MIDNIGHT} + {ahead}")).await;
            let last = server.token_of_the_row().await;
            let mine = claim("a");
            let token = granted(&backend, &mine).await;
            assert!(token.get() >= MIDNIGHT, "{token} is not of this clock");
            let case = format!("{ahead} µs after midnight, steps of {by}");
            assert!(token.get().cast_signed() > last, "{token} after {last}, {case}");
            assert_eq!(server.token_of_the_row().await, token.get().cast_signed(), "{case}");
            assert_eq!(granted(&backend, &mine).await, token, "the reply was lost, {case}");
            server.run("DELETE FROM leasehold").await;
        }
    }
}

/// The same on MariaDB, whose own functions cannot be replaced: there the statement itself asks another clock.
#[tokio::test]
async fn clock_that_moves_within_a_statement_of_mariadb_repeats_no_token() {
    let server = Server::mariadb(&[]);
    server.furnish().await;
    let mut session = server.mysql().await;
    let moved = "CREATE FUNCTION moved() RETURNS BIGINT NO SQL BEGIN SET @look = @look + 1; \
        RETURN @midnight + @look + @look * @look % 7 * @by; END";
    session.execute(moved).await.unwrap();
    session.execute(AssertSqlSafe(format!("SET @midnight = {MIDNIGHT}, @look = 0"))).await.unwrap();
    for by in [0, 5, 700] {
        session.execute(AssertSqlSafe(format!("SET @by = {by}"))).await.unwrap();
        for ahead in (0..8_000).step_by(400) {
            let last = MIDNIGHT + ahead;
            session.execute("DELETE FROM leasehold").await.unwrap();
            let row = format!("INSERT INTO leasehold VALUES ('a', NULL, {last}, 0, {last}, 1, '', NULL)");
            session.execute(AssertSqlSafe(row)).await.unwrap();
            let case = format!("{ahead} µs after midnight, steps of {by}");
            let token = granted_by_hand(&mut session, "o").await;
            assert!(token > last, "{token} after {last}, {case}");
            let row: i64 = session.fetch_one("SELECT token FROM leasehold").await.unwrap().get(0);
            assert_eq!(row.cast_unsigned(), token, "{case}");
            assert_eq!(granted_by_hand(&mut session, "o").await, token, "the reply was lost, {case}");
            assert!(
                granted_by_hand(&mut session, "x").await > LARGEST.cast_unsigned(),
                "two holders, {case}"
            );
        }
    }
}

/// What `mysql/acquire.sql` answers to an owner of this letter.
async fn granted_by_hand(session: &mut MySqlConnection, owner: &str) -> u64 {
    let text = include_str!("../../src/mysql/acquire.sql");
    let text = text.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
    let text =
        text.replace("{table}", "leasehold").replace("{now}", "moved()").replace("{one_if_writable}", "1");
    let values =
        ["'a'", &format!("REPEAT('{owner}', 16)"), "30000000", "'{}'", "60000000"].map(str::to_owned);
    let place = |text: String, (at, value): (usize, &String)| text.replace(&format!(":{}", at + 1), value);
    let text = values.iter().enumerate().fold(text, place);
    session.execute(AssertSqlSafe(text)).await.unwrap();
    // MariaDB leaves the number out of its answer if a stored function ran in the statement.
    session.fetch_one("SELECT LAST_INSERT_ID()").await.unwrap().get_unchecked(0)
}

/// A waiter must hear it at its first question: the poller finds the row free again and again.
#[tokio::test]
async fn waiter_of_a_row_without_tokens_left_hears_an_error() {
    for server in both().await {
        let backend = server.backend("");
        granted(&backend, &claim("a")).await;
        let used_up = "UPDATE leasehold SET ends_at = 0, token = 9007199254740991 WHERE name = 'a'";
        assert_eq!(server.run(used_up).await, 1);
        let error = backend.try_acquire(&claim("a").with_waiting(true)).await.unwrap_err();
        assert!(error.to_string().contains("token"), "{error}");
    }
}

/// Its first refusal leaves the mark, without another question.
#[tokio::test]
async fn waiting_writer_that_was_refused_once_keeps_new_readers_out() {
    for server in both().await {
        let backend = server.backend("");
        let reader = || claim("a").with_mode(LockMode::Shared);
        granted(&backend, &reader()).await;
        assert!(ask(&backend, &claim("a").with_waiting(true)).await.is_none());
        assert!(ask(&backend, &reader()).await.is_none(), "a reader passed a writer that waits");
    }
}
