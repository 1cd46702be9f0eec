//! What `check` finds about a server.

use crate::fake::{Fake, WELCOME};
use crate::kit::{backend, server, told};
use crate::sentinel::Sentinel;
use leasehold_conformance::server::free_port;
use leasehold_core::{ErrorKind, Finding, LockAdmin, Namespace, Severity};
use leasehold_redis::{DEFAULT_PREFIX, RedlockBackend};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::RedisServer;

async fn findings(server: &RedisServer) -> Vec<Finding> {
    backend(&server.url()).check().await.unwrap()
}

fn severity(findings: &[Finding], code: &str) -> Option<Severity> {
    findings.iter().find(|finding| finding.code == code).map(|finding| finding.severity)
}

#[tokio::test]
async fn check_of_a_server_that_keeps_everything_warns_of_nothing() {
    let server = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
    let findings = findings(&server).await;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(severity(&findings, "I_SERVER"), Some(Severity::Info));
    assert!(findings[0].message.ends_with(", standalone, master"), "{findings:?}");
}

#[tokio::test]
async fn eviction_is_warned_of() {
    let server = server();
    for policy in ["allkeys-lru", "volatile-ttl", "allkeys-random"] {
        server.command(&["CONFIG", "SET", "maxmemory-policy", policy]).unwrap();
        let findings = findings(&server).await;
        assert_eq!(severity(&findings, "W_EVICT"), Some(Severity::Warning));
        assert!(findings.iter().any(|finding| finding.message.contains(policy)));
    }
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).unwrap();
    assert_eq!(severity(&findings(&server).await, "W_EVICT"), None);
}

#[tokio::test]
async fn check_names_the_grants_lost_by_a_restart_or_a_power_loss() {
    let forgetful = server();
    assert_eq!(severity(&findings(&forgetful).await, "W_RESTART"), Some(Severity::Warning));
    let logging = RedisServer::start_with(&["--appendonly", "yes"]).unwrap();
    let findings = findings(&logging).await;
    assert_eq!(severity(&findings, "I_POWER_LOSS"), Some(Severity::Info));
    assert_eq!(severity(&findings, "W_RESTART"), None);
}

#[tokio::test]
async fn check_of_a_replica_finds_an_error_and_of_a_cluster_node_fails() {
    let replica = server();
    replica.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    assert_eq!(severity(&findings(&replica).await, "E_REPLICA"), Some(Severity::Error));
    let port = free_port().unwrap().to_string();
    let node = RedisServer::start_with(&["--cluster-enabled", "yes", "--cluster-port", &port]).unwrap();
    let error = backend(&node.url()).check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(told(&error).contains("redis+cluster://"), "{}", told(&error));
}

#[tokio::test]
async fn check_of_a_sentinel_or_an_old_server_fails() {
    let sentinel = Sentinel::start();
    let old = Fake::answering(|_| WELCOME.replace("7.0.15", "6.2.14")).await;
    for (url, expected) in [
        (format!("redis://127.0.0.1:{}", sentinel.port), "it is a Sentinel"),
        (old.url(), "it is redis 6.2.14, which lacks"),
    ] {
        let error = backend(&url).check().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn check_with_a_refused_password_fails() {
    let server = RedisServer::start_with(&["--requirepass", "other"]).unwrap();
    for url in [server.url(), server.url().replace("redis://", "redis://:wrong@")] {
        let error = backend(&url).check().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.help().is_some());
    }
}

#[tokio::test]
async fn password_refused_by_one_node_is_a_warning_and_by_a_majority_a_failure() {
    let mut servers = [server(), server(), server()];
    let lock_out = |server: &RedisServer| {
        assert_eq!(server.command(&["CONFIG", "SET", "requirepass", "other"]).unwrap(), "+OK");
    };
    let check = async |servers: &[RedisServer]| {
        let hosts: Vec<String> =
            servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
        let url = StoreUrl::parse(&format!("redlock://{}", hosts.join(","))).unwrap();
        RedlockBackend::open(&url, &Namespace::new(DEFAULT_PREFIX).unwrap()).unwrap().check().await
    };
    lock_out(&servers[0]);
    let found = check(&servers).await.unwrap();
    assert_eq!(severity(&found, "W_NODE"), Some(Severity::Warning), "{found:?}");
    assert!(found.iter().all(|found| found.severity != Severity::Error), "{found:?}");
    servers[1].kill();
    // The one that is down may come back, and then there is a majority.
    assert_eq!(check(&servers).await.unwrap_err().kind(), ErrorKind::Unavailable);
    servers[1].restart(true).unwrap();
    lock_out(&servers[1]);
    let error = check(&servers).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().starts_with("2 of 3 nodes cannot be used, and 2 must be: "), "{error}");
    lock_out(&servers[2]);
    assert_eq!(check(&servers).await.unwrap_err().kind(), ErrorKind::Denied);
}

/// Over a network without TLS; not over a socket of the host.
#[tokio::test]
async fn password_in_clear_text_is_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("redis.sock");
    let server =
        RedisServer::start_with(&["--requirepass", "right", "--unixsocket", socket.to_str().unwrap()])
            .unwrap();
    let over_socket = format!("redis+unix://:right@{}", socket.display());
    let over_network = server.url().replace("redis://", "redis://:right@");
    for (url, expected) in [(over_network, Some(Severity::Warning)), (over_socket, None)] {
        let findings = backend(&url).check().await.unwrap();
        assert_eq!(severity(&findings, "W_CLEAR_TEXT"), expected, "{findings:?}");
    }
}

#[tokio::test]
async fn check_of_a_server_that_shows_nothing_succeeds() {
    let fake = Fake::answering(|words| match words {
        [hello, _, ..] if hello == "HELLO" => WELCOME.to_owned(),
        _ => "-ERR unknown command 'CONFIG', with args beginning with: 'GET'\r\n".to_owned(),
    })
    .await;
    let findings = backend(&fake.url()).check().await.unwrap();
    assert_eq!(findings.iter().filter(|finding| finding.code == "I_NOT_SEEN").count(), 3, "{findings:?}");
}

#[tokio::test]
async fn check_of_a_server_that_is_down_fails() {
    let mut server = server();
    server.kill();
    let error = backend(&server.url()).check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}
