//! A replica that takes writes (`replica-read-only no`), from the beginning, or while locks are held.

use crate::kit::{
    Look, TTL, answered, attempt_fails, backend, claim, claim_for, client, hold, release, renew, server,
    told, waiter,
};
use leasehold_conformance::server::free_port;
use leasehold_core::{
    AcquireOptions, Attempt, DistributedLockExt, ErrorKind, LockAdmin, LockBackend, Namespace, Release,
    Renewal,
};
use leasehold_redis::{DEFAULT_PREFIX, RedlockBackend};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::RedisServer;
use std::time::{Duration, Instant};

const IS_REPLICA: &str = "it is a replica, and locks are granted by its primary alone";

/// It follows a server that does not answer, so nothing that is written to it is taken away.
fn demote(server: &RedisServer) {
    assert_eq!(server.command(&["CONFIG", "SET", "replica-read-only", "no"]).unwrap(), "+OK");
    let nobody = free_port().unwrap().to_string();
    assert!(server.command(&["REPLICAOF", "127.0.0.1", &nobody]).unwrap().starts_with("+OK"));
    server.set("written", "yes");
}

#[tokio::test]
async fn writable_replica_grants_renews_and_releases_nothing() {
    for query in ["", "?protocol=resp2"] {
        let server = server();
        demote(&server);
        let backend = backend(&format!("{}{query}", server.url()));
        for claim in [claim("job"), waiter("job")] {
            let (kind, said) = attempt_fails(&backend, &claim).await;
            assert!(kind == ErrorKind::Unavailable && said.contains(IS_REPLICA), "{said}");
            for error in [
                renew(&backend, &claim).await.unwrap_err(),
                answered(backend.release(&claim, Duration::ZERO)).await.unwrap_err(),
                answered(backend.inspect(claim.name())).await.unwrap_err(),
                answered(backend.force_release(claim.name(), None)).await.unwrap_err(),
            ] {
                assert!(told(&error).contains(IS_REPLICA), "{}", told(&error));
            }
        }
        assert_eq!(server.keys(), ["written"]);
        let findings = answered(backend.check()).await.unwrap();
        let found = findings.iter().find(|finding| finding.code == "E_REPLICA").unwrap();
        assert_eq!(found.message, IS_REPLICA, "the check and the lock say one thing");

        assert_eq!(server.command(&["REPLICAOF", "NO", "ONE"]).unwrap(), "+OK");
        hold(&backend, &claim("job")).await;
    }
}

/// The connection is from before. No answer of the replica ends a hold, or makes one.
#[tokio::test]
async fn server_that_becomes_a_writable_replica_is_found_out_within_a_second() {
    for query in ["", "?protocol=resp2"] {
        let server = server();
        let backend = backend(&format!("{}{query}", server.url()));
        let held = claim("job");
        hold(&backend, &held).await;
        demote(&server);
        let start = Instant::now();
        while answered(backend.try_acquire(&claim("other")))
            .await
            .is_ok_and(|it| matches!(it, Attempt::Granted(_)))
        {
            server.del("leasehold:other");
            server.del("{leasehold:other}:holder");
            assert!(start.elapsed() < Duration::from_secs(15), "it is never found out");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        server.del("leasehold:job");
        for _ in 0..3 {
            let (_, told_of_attempt) = attempt_fails(&backend, &claim("other")).await;
            assert!(told_of_attempt.contains(IS_REPLICA), "{told_of_attempt}");
            let error = renew(&backend, &held).await.unwrap_err();
            assert!(
                error.kind() == ErrorKind::Unavailable && told(&error).contains(IS_REPLICA),
                "{}",
                told(&error)
            );
            assert!(
                answered(backend.release(&held, Duration::ZERO)).await.is_err(),
                "\"not held\" to a holder"
            );
        }
    }
}

#[tokio::test]
async fn holder_on_a_server_that_becomes_a_writable_replica_is_told_by_its_deadline() {
    let server = server();
    let ttl = Duration::from_secs(3);
    let locks = client(&server.url());
    let guard = locks.acquire_with("job", &AcquireOptions::new().with_ttl(ttl)).await.unwrap();
    demote(&server);
    // A renewal within the first second after the switch may still have counted.
    tokio::time::timeout(ttl * 2 + Duration::from_secs(5), guard.lost()).await.expect("it is never told");
    assert!(!guard.is_held());
}

/// It has no locks of which it could tell, be its copy empty, old or on its way.
#[tokio::test]
async fn replica_shows_no_locks_and_names_itself() {
    let primary = server();
    hold(&backend(&primary.url()), &claim("job")).await;
    let nobody = free_port().unwrap().to_string();
    for port in [nobody, primary.port().to_string()] {
        for query in ["", "?protocol=resp2"] {
            let replica = server();
            let connected = backend(&format!("{}{query}", replica.url()));
            hold(&connected, &claim("other")).await;
            assert!(replica.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap().starts_with("+OK"));
            let asked = backend(&format!("{}{query}", replica.url()));
            let (kind, said) = attempt_fails(&asked, &claim("job")).await;
            for error in [
                answered(asked.list_reachable("")).await.unwrap_err(),
                answered(asked.inspect(claim("job").name())).await.unwrap_err(),
                answered(asked.init()).await.unwrap_err(),
            ] {
                assert_eq!((error.kind(), told(&error)), (kind, said.clone()));
                assert!(said.contains(IS_REPLICA), "{said}");
            }
            let start = Instant::now();
            while answered(connected.list("")).await.is_ok() {
                assert!(start.elapsed() < Duration::from_secs(15), "the connection from before is believed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// The question for the role travels with a script, once a second.
#[tokio::test]
async fn role_costs_at_most_one_command_a_second_and_no_round_trip() {
    let server = server();
    let backend = backend(&server.url());
    hold(&backend, &claim("warm")).await;
    let (hello, start) = (server.calls("hello"), Instant::now());
    let (mut locks, packets) = (0, server.calls("evalsha"));
    while start.elapsed() < Duration::from_millis(1500) {
        let claim = claim("job");
        hold(&backend, &claim).await;
        assert_eq!(release(&backend, &claim).await, Release::Released);
        locks += 1;
    }
    let asked = server.calls("hello") - hello;
    assert!(asked >= 1 && asked <= 1 + start.elapsed().as_secs(), "{asked} in {:?}", start.elapsed());
    assert!(server.calls("evalsha") - packets <= 2 * locks, "two scripts a lock");
}

#[tokio::test]
async fn writable_replica_counts_as_a_failed_node_of_a_majority() {
    let servers = [server(), server(), server()];
    demote(&servers[0]);
    let hosts: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let url = StoreUrl::parse(&format!("redlock://{}", hosts.join(","))).unwrap();
    let backend = RedlockBackend::open(&url, &Namespace::new(DEFAULT_PREFIX).unwrap()).unwrap();
    let held = claim_for("job", TTL);
    assert!(matches!(answered(backend.try_acquire(&held)).await, Ok(Attempt::Granted(_))));
    assert_eq!(servers[0].keys(), ["written"]);
    let findings = answered(backend.check()).await.unwrap();
    assert!(findings.iter().any(|finding| finding.code == "E_REPLICA"), "{findings:?}");
    demote(&servers[1]);
    let start = Instant::now();
    let renewed = async || answered(backend.renew(std::slice::from_ref(&held))).await.pop().unwrap();
    while matches!(renewed().await, Ok(Renewal::Renewed)) {
        assert!(start.elapsed() < Duration::from_secs(15), "two of three are replicas");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(
        !matches!(renewed().await, Ok(Renewal::Renewed | Renewal::Lost(_))),
        "a replica's word does not count"
    );
}
