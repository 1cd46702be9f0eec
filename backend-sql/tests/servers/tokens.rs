//! Several tokens in a row, for the tasks of one process: what a grant reserves, and what the row says of it.

use crate::kit::{Server, both, claim};
use leasehold_core::{Attempt, Claim, FencingToken, Grant, LockBackend, Release};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Executor, Row};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const MODES: [&str; 2] = ["mode=lease", "mode=optimistic"];
const TOKENS: u32 = 64;
const AN_HOUR: i64 = 3_600_000_000;

/// Every server in every mode that has the table of leases.
async fn everywhere() -> Vec<(Arc<Server>, Arc<dyn LockBackend>)> {
    let servers = both().await.map(Arc::new);
    let modes = |server: &Arc<Server>| MODES.map(|mode| (Arc::clone(server), server.backend(mode)));
    servers.iter().flat_map(modes).collect()
}

async fn granted(backend: &Arc<dyn LockBackend>, claim: &Claim) -> Grant {
    match backend.try_acquire(claim).await.unwrap() {
        Attempt::Granted(grant) => grant,
        Attempt::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

fn unix_micros() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_micros()).unwrap()
}

async fn release(backend: &Arc<dyn LockBackend>, claim: &Claim) {
    assert_eq!(backend.release(claim, Duration::ZERO).await.unwrap(), Release::Released);
}

impl Server {
    async fn last(&self) -> i64 {
        self.number("SELECT token FROM leasehold").await
    }
}

#[tokio::test]
async fn they_are_reserved_and_given_to_nobody_else() {
    for (server, backend) in everywhere().await {
        for way in ["a new row", "a row that is there"] {
            let mine = claim("a").with_tokens(TOKENS);
            let grant = granted(&backend, &mine).await;
            assert_eq!(grant.tokens, TOKENS, "{way}");
            assert_eq!(server.last().await, grant.token.last_of(TOKENS).get().cast_signed(), "{way}");

            let again = granted(&backend, &mine).await;
            assert_eq!(again.token, grant.token, "{way}: the reply to the first attempt was lost");
            release(&backend, &mine).await;

            let other = claim("a");
            let next = granted(&backend, &other).await;
            assert!(next.token > grant.token.last_of(TOKENS), "{way}: {next:?} after {grant:?}");
            assert_eq!(next.tokens, 1);
            release(&backend, &other).await;
        }
        server.run("DELETE FROM leasehold").await;
    }
}

/// Turns of a process that are shorter, in microseconds, than the tokens that they reserve.
#[tokio::test]
async fn they_do_not_run_ahead_of_the_clock() {
    for (server, backend) in everywhere().await {
        let (mut last, mut alone) = (FencingToken::new(0), 0);
        for _ in 0..100 {
            let mine = claim("a").with_tokens(1024);
            let grant = granted(&backend, &mine).await;
            assert!(grant.token > last, "{grant:?} after {last}");
            assert!(grant.tokens == 1 || grant.tokens == 1024, "{grant:?}");
            assert_eq!(granted(&backend, &mine).await.token, grant.token, "{grant:?}");
            last = grant.token.last_of(grant.tokens);
            // The servers' clock is this host's.
            let ahead = last.get().saturating_sub(unix_micros());
            assert!(ahead < 2 * 1024, "{last} is {ahead} µs ahead of the clock");
            assert_eq!(server.last().await, last.get().cast_signed());
            alone += u32::from(grant.tokens == 1);
            release(&backend, &mine).await;
        }
        // With a look by another connection in each round, most have time for a new row of tokens.
        assert!(alone < 100, "nothing was reserved");
        server.run("DELETE FROM leasehold").await;
    }
}

/// The clock was set back: the last token is an hour ahead of it, or just a little.
#[tokio::test]
async fn a_token_ahead_of_the_clock_is_one_alone_and_shown_as_it_is() {
    for (server, backend) in everywhere().await {
        for ahead in [AN_HOUR, 900_000] {
            release(&backend, &granted_claim(&backend).await).await;
            server.run(&format!("UPDATE leasehold SET token = token + {ahead}")).await;
            let last = server.last().await;

            let mine = claim("a").with_tokens(TOKENS);
            let grant = granted(&backend, &mine).await;
            assert_eq!((grant.token.get().cast_signed(), grant.tokens), (last + 1, 1));
            assert_eq!(granted(&backend, &mine).await.token, grant.token);
            let shown = backend.admin().unwrap().inspect(mine.name()).await.unwrap().unwrap();
            assert_eq!(shown.token, Some(grant.token));
            server.run("DELETE FROM leasehold").await;
        }
    }
}

async fn granted_claim(backend: &Arc<dyn LockBackend>) -> Claim {
    let mine = claim("a");
    granted(backend, &mine).await;
    mine
}

/// As a program writes it that knows of no row of tokens: one alone that looks like the last of 501. The clock is behind both.
#[tokio::test]
async fn a_token_just_ahead_of_its_time_by_another_hand_is_never_granted_again() {
    for (server, backend) in everywhere().await {
        release(&backend, &granted_claim(&backend).await).await;
        let ahead = AN_HOUR + 500;
        let by_hand = format!("token = acquired_at + {ahead}, acquired_at = acquired_at + {AN_HOUR}");
        server.run(&format!("UPDATE leasehold SET {by_hand}")).await;
        let last = server.last().await;
        let mine = claim("a").with_tokens(TOKENS);
        let grant = granted(&backend, &mine).await;
        assert_eq!((grant.token.get().cast_signed(), grant.tokens), (last + 1, 1));
        assert_eq!(granted(&backend, &mine).await.token, grant.token);
        server.run("DELETE FROM leasehold").await;
    }
}

#[tokio::test]
async fn the_first_of_them_is_what_people_see_and_name() {
    for (server, backend) in everywhere().await {
        let mine = claim("a").with_tokens(TOKENS);
        let grant = granted(&backend, &mine).await;
        let admin = backend.admin().unwrap();
        let shown = admin.inspect(mine.name()).await.unwrap().unwrap();
        assert_eq!(shown.token, Some(grant.token));

        let other = grant.token.last_of(TOKENS);
        assert!(admin.force_release(mine.name(), Some(other)).await.unwrap().is_none());
        let broken = admin.force_release(mine.name(), Some(grant.token)).await.unwrap().unwrap();
        assert_eq!(broken.token, Some(grant.token));
        assert!(granted(&backend, &claim("a")).await.token > other);
        server.run("DELETE FROM leasehold").await;
    }
}

/// The time that is shown where a clock moves within a statement: the first of 2040.
const MIDNIGHT: u64 = 2_208_988_800_000_000;

/// Each look at the clock within one statement sees another time: the server is interrupted there, or its clock is set.
#[tokio::test]
async fn a_clock_that_moves_within_a_statement_repeats_no_token() {
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
    for by in [0_i64, 5, 100, 300, 700] {
        server.run(&format!("UPDATE moved.by SET micros = {by}")).await;
        for ahead in (0..8_000).step_by(100) {
            release(&backend, &granted_claim(&backend).await).await;
            server.run(&format!("UPDATE leasehold SET token = {MIDNIGHT} + {ahead}")).await;
            let last = server.last().await;
            let mine = claim("a").with_tokens(TOKENS);
            let grant = granted(&backend, &mine).await;
            assert!(grant.token.get() >= MIDNIGHT, "{grant:?} is not of this clock");
            let case = format!("{ahead} µs behind midnight, steps of {by}");
            assert!(grant.token.get().cast_signed() > last, "{grant:?} after {last}, {case}");
            assert_eq!(granted(&backend, &mine).await.token, grant.token, "{case}");
            server.run("DELETE FROM leasehold").await;
        }
    }
}

/// The same on MariaDB, whose own functions nobody can put others before: there the statement itself asks another clock.
#[tokio::test]
async fn a_clock_that_moves_within_a_statement_of_mariadb_repeats_no_token() {
    let server = Server::mariadb(&[]);
    server.furnish().await;
    let mut session = server.mysql().await;
    let moved = "CREATE FUNCTION moved() RETURNS BIGINT NO SQL BEGIN SET @look = @look + 1; \
        RETURN @midnight + @look + @look * @look % 7 * @by; END";
    session.execute(moved).await.unwrap();
    session.execute(AssertSqlSafe(format!("SET @midnight = {MIDNIGHT}, @look = 0"))).await.unwrap();
    for by in [0, 5, 100, 300, 700] {
        session.execute(AssertSqlSafe(format!("SET @by = {by}"))).await.unwrap();
        for ahead in (0..8_000).step_by(100) {
            let last = MIDNIGHT + ahead;
            session.execute("DELETE FROM leasehold").await.unwrap();
            let row = format!("INSERT INTO leasehold VALUES ('a', NULL, {last}, 0, {last}, 1, '')");
            session.execute(AssertSqlSafe(row)).await.unwrap();
            let case = format!("{ahead} µs behind midnight, steps of {by}");
            let (first, tokens) = granted_by_hand(&mut session).await;
            assert!(first > last, "{first} after {last}, {case}");
            assert!(tokens == 1 || tokens == u64::from(TOKENS), "{tokens} tokens, {case}");
            let written = session.fetch_one("SELECT token, acquired_at FROM leasehold").await.unwrap();
            let (token, at): (i64, i64) = (written.get(0), written.get(1));
            assert_eq!(token.cast_unsigned(), first + tokens - 1, "{case}");
            // What the row says of the first of them, by `Tokens::of_row`.
            let is_first = (0..1024).contains(&(token - at));
            assert_eq!(if is_first { at } else { token }.cast_unsigned(), first, "{case}");
            assert_eq!(granted_by_hand(&mut session).await, (first, 1), "{case}: the reply was lost");
        }
    }
}

/// The first token of a grant, and how many came with it.
async fn granted_by_hand(session: &mut MySqlConnection) -> (u64, u64) {
    let text = include_str!("../../src/mysql/acquire.sql");
    let text = text.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
    let text = text.replace("{table}", "leasehold").replace("{now}", "moved()");
    let more = (TOKENS - 1).to_string();
    let values = ["'a'", "REPEAT('o', 16)", "30000000", "'{}'", more.as_str()];
    let place = |text: String, (at, value): (usize, &&str)| text.replace(&format!(":{}", at + 1), value);
    let text = values.iter().enumerate().fold(text, place);
    session.execute(AssertSqlSafe(text)).await.unwrap();
    // Who calls a function of somebody's is not told with the answer.
    let id: u64 = session.fetch_one("SELECT LAST_INSERT_ID()").await.unwrap().get_unchecked(0);
    assert_ne!(id % 4, 0, "it is free");
    (id / 4, if id % 4 == 1 { u64::from(TOKENS) } else { 1 })
}
