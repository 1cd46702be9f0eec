//! Triggers on the tables, as of an audit or of a tool that copies a table while it is used.

use crate::kit::{MODES, Server, ask, claim, granted};
use leasehold_core::{LockMode, Release};
use std::time::Duration;

/// `MariaDB` leaves `LAST_INSERT_ID()` out of its answer if a trigger ran in the statement.
async fn with_triggers(time: &str) -> Server {
    let server = Server::mariadb(&[]);
    server.furnish().await;
    server.run("CREATE TABLE audit (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARBINARY(640))").await;
    for table in ["leasehold", "leasehold_held"] {
        let audit = "FOR EACH ROW INSERT INTO audit (name) VALUES (NEW.name)";
        server.run(&format!("CREATE TRIGGER of_{table} AFTER {time} ON {table} {audit}")).await;
    }
    server
}

#[tokio::test]
async fn grant_by_update_that_fires_a_trigger_is_a_grant() {
    let server = with_triggers("UPDATE").await;
    for mode in MODES {
        let (backend, other) =
            (server.backend(&format!("mode={mode}")), server.backend(&format!("mode={mode}")));
        let mut last = None;
        for _ in 0..3 {
            let mine = claim(mode);
            let token = granted(&backend, &mine).await;
            assert!(last.is_none_or(|last| token > last), "{mode}: {token} after {last:?}");
            assert_eq!(granted(&backend, &mine).await, token, "{mode}: the reply was lost");
            assert!(ask(&other, &claim(mode)).await.is_none(), "{mode}: two holders");
            assert_eq!(backend.release(&mine, Duration::ZERO).await.unwrap(), Release::Released, "{mode}");
            last = Some(token);
        }
        let readers = [1, 2].map(|_| claim(mode).with_mode(LockMode::Shared));
        for reader in &readers {
            assert!(Some(granted(&backend, reader).await) > last, "{mode}");
        }
        for reader in &readers {
            assert_eq!(backend.release(reader, Duration::ZERO).await.unwrap(), Release::Released, "{mode}");
        }
    }
}

/// The answer does not show either whether the row is new.
#[tokio::test]
async fn grant_by_insert_that_fires_a_trigger_is_a_grant() {
    let server = with_triggers("INSERT").await;
    for mode in MODES {
        let (backend, mine) = (server.backend(&format!("mode={mode}")), claim(mode));
        granted(&backend, &mine).await;
        assert!(ask(&backend, &claim(mode)).await.is_none(), "{mode}: two holders");
        assert_eq!(backend.release(&mine, Duration::ZERO).await.unwrap(), Release::Released, "{mode}");
    }
}

#[tokio::test]
async fn free_row_without_tokens_left_that_fires_a_trigger_is_an_error() {
    let server = with_triggers("UPDATE").await;
    let (backend, mine) = (server.backend(""), claim("a"));
    granted(&backend, &mine).await;
    assert_eq!(backend.release(&mine, Duration::ZERO).await.unwrap(), Release::Released);
    server.run("UPDATE leasehold SET token = 9007199254740991").await;
    let error = server.backend("").try_acquire(&claim("a")).await.unwrap_err();
    assert_eq!(error.to_string(), "the fencing tokens of this name are used up");
}

/// The answer says that the lock is held, so the row is not read.
#[tokio::test]
async fn refusal_without_triggers_is_one_statement() {
    let server = Server::mariadb(&[]);
    server.furnish().await;
    let (holder, other) = (server.backend(""), server.backend(""));
    for name in ["a", "b", "c", "d"] {
        granted(&holder, &claim(name)).await;
    }
    assert!(ask(&other, &claim("a")).await.is_none());
    let said = async |what: &str| {
        let counted = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status";
        server.number(&format!("{counted} WHERE variable_name = 'COM_{what}'")).await
    };
    let before = (said("INSERT").await, said("SELECT").await);
    for name in ["b", "c", "d"] {
        assert!(ask(&other, &claim(name)).await.is_none());
    }
    assert_eq!(said("INSERT").await - before.0, 3);
    // Only the two statements that count.
    assert_eq!(said("SELECT").await - before.1, 2);
}
