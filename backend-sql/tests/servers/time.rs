//! The clock and the time zone that decide.

use crate::kit::{MODES, Server, ask, both, claim, claim_for, granted};
use leasehold_core::LockMode;
use std::time::Duration;

#[tokio::test]
async fn time_zone_of_a_session_shifts_no_lease() {
    let mariadb = Server::mariadb(&["--init-connect=SET time_zone = '+02:00'", "--default-time-zone=-11:00"]);
    let postgres = Server::postgres(&["-c", "timezone=Pacific/Kiritimati"]);
    for server in [mariadb, postgres] {
        server.furnish().await;
        let (here, there) = (server.backend(""), server.backend(""));
        let held = claim("a");
        let before = micros_since_1970();
        let token = granted(&here, &held).await.get();
        assert!(token.abs_diff(before) < 60_000_000, "token {token}, and it is {before} since 1970");
        assert!(ask(&there, &claim("a")).await.is_none(), "a fresh lease is over in another session");
        let status = there.admin().unwrap().inspect(held.name()).await.unwrap().remove(0);
        assert!(status.ends_in.is_some_and(|left| left > Duration::from_secs(20)), "{status:?}");
        let row = server.number("SELECT ends_at FROM leasehold").await;
        assert!(u64::try_from(row).unwrap().abs_diff(before + 30_000_000) < 60_000_000, "ends at {row}");
    }
}

/// `init_connect` fixes the time of users with few rights, and `SYSDATE` is fixed with it: an administrator has another time.
#[tokio::test]
async fn time_that_init_connect_has_fixed_ends_and_keeps_no_lease() {
    let server = Server::mariadb(&["--sysdate-is-now", "--init-connect=SET timestamp = 1700000000"]);
    server.furnish().await;
    for mode in MODES {
        for lock_mode in [LockMode::Exclusive, LockMode::Shared] {
            let query = format!("mode={mode}");
            let (fixed, other) = (server.backend(&query), server.administrator(&query));
            let (name, before) = (format!("{mode} {lock_mode:?}"), micros_since_1970());
            let held = claim(&name).with_mode(lock_mode);
            let token = granted(&fixed, &held).await.get();
            assert!(
                token.abs_diff(before) < 60_000_000,
                "{name}: token {token}, and it is {before} since 1970"
            );
            assert!(ask(&other, &claim(&name)).await.is_none(), "{name}: two holders");
            if mode != "for-update" {
                let short = claim_for(&format!("{name} short"), Duration::from_secs(1)).with_mode(lock_mode);
                granted(&fixed, &short).await;
                tokio::time::sleep(Duration::from_millis(1_500)).await;
                let next = claim(short.name().as_str());
                assert!(ask(&fixed, &next).await.is_some(), "{name}: a lease of 1 s lasts for ever");
            }
        }
    }
}

/// There a session may not set its time, but for that of the server.
#[tokio::test]
async fn server_that_lets_no_session_fix_its_time_grants() {
    let server = Server::mariadb(&["--secure-timestamp=YES"]);
    server.furnish().await;
    let (held, backend) = (claim("a"), server.backend(""));
    granted(&backend, &held).await;
    assert!(ask(&backend, &claim("a")).await.is_none());
}

/// A statement that waited for the row looks at the clock when it has it, not when it began.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statement_that_waited_for_its_row_reads_the_clock_afterwards() {
    let wait = Duration::from_millis(1_000);
    for server in both().await {
        let backend = server.backend("timeout=10s");
        let held = claim_for("a", Duration::from_secs(5));
        granted(&backend, &held).await;
        backend.release(&held, Duration::ZERO).await.unwrap();
        let again = claim_for("a", Duration::from_secs(5));
        let (lock, unlock) = ("SELECT name FROM leasehold FOR UPDATE", "COMMIT");
        let waited = tokio::spawn({
            let (backend, again) = (backend.clone(), again.clone());
            async move { granted(&backend, &again).await }
        });
        // In either order the row is locked for a while by a third party, or the grant came first and nothing is shown.
        match &server {
            Server::MariaDb(_) => hold(server.mysql().await, lock, unlock, wait).await,
            Server::Postgres(_) => hold(server.pg().await, lock, unlock, wait).await,
        }
        waited.await.unwrap();
        let status = backend.admin().unwrap().inspect(again.name()).await.unwrap().remove(0);
        let left = status.ends_in.unwrap();
        assert!(left <= Duration::from_secs(5), "{left:?} are left of 5 s");
    }
}

async fn hold<C: sqlx::Connection>(
    mut connection: C,
    lock: &'static str,
    unlock: &'static str,
    time: Duration,
) where
    for<'c> &'c mut C: sqlx::Executor<'c>,
{
    use sqlx::Executor;
    (&mut connection).execute(sqlx::AssertSqlSafe("BEGIN".to_owned())).await.map(drop).unwrap();
    (&mut connection).execute(sqlx::AssertSqlSafe(lock.to_owned())).await.map(drop).unwrap();
    tokio::time::sleep(time).await;
    (&mut connection).execute(sqlx::AssertSqlSafe(unlock.to_owned())).await.map(drop).unwrap();
}

fn micros_since_1970() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_micros()).unwrap()
}

/// As behind something that sends reads to a replica. Its clock may say that a lease is over, and the grant is made by
/// another.
#[tokio::test]
async fn clock_of_a_replica_ends_no_lease() {
    let server = Server::postgres(&[]);
    server.furnish().await;
    server.run("CREATE SCHEMA ahead").await;
    server.run("GRANT USAGE ON SCHEMA ahead TO locker").await;
    let an_hour_ahead_in_reads = "CREATE FUNCTION ahead.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS \
        $$ SELECT pg_catalog.clock_timestamp() \
           + CASE WHEN current_query() LIKE 'SELECT%' THEN interval '1 hour' ELSE interval '0' END $$";
    server.run(an_hour_ahead_in_reads).await;
    server.run("ALTER ROLE locker SET search_path = ahead, pg_catalog, public").await;
    let (holder, other) = (server.backend("mode=optimistic"), server.backend("mode=optimistic"));
    let held = claim("a");
    granted(&holder, &held).await;
    let shown = other.admin().unwrap().inspect(held.name()).await.unwrap();
    assert!(shown.is_empty(), "by the clock of who reads it is over: {shown:?}");
    assert!(ask(&other, &claim("a")).await.is_none(), "two hold it");
}
