//! Settings of a server that are somebody else's business: none of them decides who holds a lock.

use crate::kit::{MODES, Server, ask, claim, claim_for, granted, on_both};
use leasehold_core::{Claim, HolderInfo, LockName, OwnerId, Release, Renewal};
use std::time::Duration;

const OF_MARIADB: [&str; 18] = [
    "SET GLOBAL sql_mode = ''",
    // Assignments from left to right are what a grant is made of; this says that all are made at once.
    "SET GLOBAL sql_mode = 'SIMULTANEOUS_ASSIGNMENT'",
    "SET GLOBAL sql_mode = 'ORACLE'",
    "SET GLOBAL sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,EMPTY_STRING_IS_NULL'",
    "SET GLOBAL sql_mode = 'PAD_CHAR_TO_FULL_LENGTH,TIME_ROUND_FRACTIONAL'",
    "SET GLOBAL sql_mode = DEFAULT",
    "SET GLOBAL autocommit = 0",
    "SET GLOBAL sql_select_limit = 0",
    // Hosts of many users forbid what may read many rows.
    "SET GLOBAL max_join_size = 1",
    "SET GLOBAL tx_isolation = 'SERIALIZABLE'",
    "SET GLOBAL collation_connection = 'latin1_swedish_ci'",
    "SET GLOBAL sql_auto_is_null = 1",
    "SET GLOBAL tx_read_only = 1",
    "SET GLOBAL idle_readonly_transaction_timeout = 1",
    "SET GLOBAL idle_write_transaction_timeout = 1",
    // To switch it on would end the transaction that is begun next.
    "SET GLOBAL autocommit = 1",
    "SET GLOBAL init_connect = 'START TRANSACTION'",
    "SET GLOBAL init_connect = 'START TRANSACTION READ ONLY'",
];

const OF_POSTGRES: [&str; 10] = [
    "ALTER ROLE locker SET default_transaction_isolation = serializable",
    "ALTER ROLE locker SET default_transaction_deferrable = on",
    // Not less: the session must get as far as setting its own.
    "ALTER ROLE locker SET statement_timeout = 50",
    "ALTER ROLE locker SET lock_timeout = 1",
    "ALTER ROLE locker SET idle_in_transaction_session_timeout = 50",
    "ALTER ROLE locker SET client_min_messages = error",
    "ALTER ROLE locker SET standard_conforming_strings = off",
    "ALTER ROLE locker SET bytea_output = escape",
    "ALTER ROLE locker SET enable_indexscan = off",
    "ALTER ROLE locker SET plan_cache_mode = force_generic_plan",
];

pub(crate) async fn one_holds_and_the_others_do_not(server: &Server, setting: &str) {
    for mode in MODES {
        let (backend, other) =
            (server.backend(&format!("mode={mode}")), server.backend(&format!("mode={mode}")));
        let (name, mut last) = (format!("{mode} of {setting}"), None);
        for _ in 0..2 {
            let held = claim(&name);
            let token = granted(&backend, &held).await;
            assert!(last.is_none_or(|last| token > last), "{mode}, {setting}: {token} after {last:?}");
            assert!(ask(&other, &claim(&name)).await.is_none(), "{mode}, {setting}: two holders");
            tokio::time::sleep(Duration::from_millis(60)).await;
            let renewed = backend.renew(std::slice::from_ref(&held)).await.remove(0).unwrap();
            assert_eq!(renewed, Renewal::Renewed, "{mode}, {setting}");
            let shown = other.admin().unwrap().inspect(held.name()).await.unwrap().remove(0);
            assert_eq!(shown.owner, Some(held.owner()), "{mode}, {setting}");
            let released = backend.release(&held, Duration::ZERO).await.unwrap();
            assert_eq!(released, Release::Released, "{mode}, {setting}");
            last = Some(token);
        }
        backend.close().await.unwrap();
        other.close().await.unwrap();
    }
}

#[tokio::test]
async fn server_settings_decide_nothing() {
    on_both(async |server| {
        for setting in if server.is_postgres() { &OF_POSTGRES[..] } else { &OF_MARIADB[..] } {
            server.run(setting).await;
            one_holds_and_the_others_do_not(&server, setting).await;
        }
    })
    .await;
}

/// MariaDB has a limit of its own for transactions that have only read so far, and one that locks a row is of those.
#[tokio::test]
async fn silent_holder_lasts_for_its_ttl_whatever_limit_the_server_has() {
    let server = Server::mariadb(&[]);
    server.furnish().await;
    for (seconds, ttl, outlives) in [(1, Duration::from_secs(30), true), (60, Duration::from_secs(1), false)]
    {
        for kind in ["readonly", "write"] {
            server.run(&format!("SET GLOBAL idle_{kind}_transaction_timeout = {seconds}")).await;
        }
        let (holder, other) = (server.backend("mode=for-update"), server.backend("mode=for-update"));
        let name = format!("{seconds} s");
        granted(&holder, &claim_for(&name, ttl)).await;
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        let next = ask(&other, &claim(&name)).await;
        assert_eq!(next.is_none(), outlives, "silent for 2.5 s of {ttl:?}, others may be for {seconds} s");
    }
}

/// `run` itself shortens what it tells of a command with `…`.
#[tokio::test]
async fn holder_is_stored_whole_by_an_ascii_session() {
    let server = Server::mariadb(&[]);
    server.furnish().await;
    server.run("SET GLOBAL init_connect = 'SET NAMES ascii'").await;
    for mode in MODES {
        let (backend, info) = (server.backend(&format!("mode={mode}")), HolderInfo::this_process());
        let info = info.with_doing("sh …").with_label("où", "日本 🔒");
        let (name, owner) = (LockName::new(mode).unwrap(), OwnerId::random().unwrap());
        let held = Claim::new(name, owner, Duration::from_secs(30), info.to_json().into());
        granted(&backend, &held).await;
        let shown = backend.admin().unwrap().inspect(held.name()).await.unwrap().remove(0);
        assert_eq!(shown.holder, info, "{mode}");
    }
}

#[tokio::test]
async fn server_that_lowers_table_names_excludes_as_others_do() {
    let server = Server::mariadb(&["--lower-case-table-names=1"]);
    server.furnish().await;
    one_holds_and_the_others_do_not(&server, "lower_case_table_names").await;
}
