//! `check` tries a lock of a name of its own.

use crate::kit::{Look, backend, server};
use leasehold_core::{LockAdmin, Severity};
use leasehold_test_stores::servers::RedisServer;

#[tokio::test]
async fn trial_of_a_server_that_serves_locks_finds_nothing_and_leaves_nothing() {
    let server = server();
    let findings = backend(&server.url()).check().await.unwrap();
    assert!(findings.iter().all(|finding| finding.severity != Severity::Error), "{findings:?}");
    assert!(!findings.iter().any(|finding| finding.code == "W_UNHEARD"), "{findings:?}");
    assert_eq!(server.keys(), [""; 0]);
    assert!(server.calls("publish") > 0 && server.calls("zadd") > 0, "it was tried");
}

#[tokio::test]
async fn trial_names_the_command_that_the_server_does_not_know() {
    for command in ["EVAL", "TIME", "EXISTS", "PEXPIRE", "ZADD", "ZRANGE", "ZREM", "HSET", "HGET", "HDEL"] {
        let server = RedisServer::start_with(&["--rename-command", command, ""]).unwrap();
        let findings = backend(&server.url()).check().await.unwrap();
        let errors: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
        assert!(
            errors.iter().any(|found| found.code == "E_TRIAL"
                && found.message.contains(&format!("does not know {command}"))),
            "{command}: {findings:?}"
        );
        assert_eq!(server.keys(), [""; 0], "{command}");
    }
}

#[tokio::test]
async fn trial_warns_where_no_message_reaches_a_waiter() {
    let server = RedisServer::start_with(&["--rename-command", "PUBLISH", ""]).unwrap();
    let findings = backend(&server.url()).check().await.unwrap();
    let unheard = findings.iter().filter(|finding| finding.code == "W_UNHEARD");
    assert_eq!(unheard.count(), 1, "{findings:?}");
}
