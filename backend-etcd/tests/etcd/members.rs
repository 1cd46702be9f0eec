//! Members that are asked in turn, that fail, or that are none; and URLs of none.

use crate::*;
use leasehold_core::{ErrorKind, LockAdmin, LockBackend, Renewal};
use leasehold_test_stores::servers::{EtcdCluster, EtcdServer, RedisServer};
use std::io::{Read, Write};
use std::net::TcpListener;

#[tokio::test(flavor = "multi_thread")]
async fn hold_and_queue_outlive_the_member_that_was_asked() {
    let mut cluster = EtcdCluster::start().unwrap();
    let backend = backend(&cluster.url());
    let (holder, next) = (waiter("job"), waiter("job"));
    let token = hold(&backend, &holder).await;
    assert!(is_busy(&backend, &next).await);
    // The first of the URL is the one that is asked.
    cluster.members_mut()[0].kill();
    let renewed = answered(async {
        loop {
            match renew(&backend, &holder).await {
                Err(error) if error.is_outage() => {}
                renewed => return renewed,
            }
        }
    });
    assert_eq!(renewed.await.unwrap(), Renewal::Renewed);
    release(&backend, &holder).await;
    assert!(wait_for_grant(&backend, &next).await > token);
}

#[tokio::test(flavor = "multi_thread")]
async fn member_that_is_stopped_is_left_for_another() {
    let cluster = EtcdCluster::start().unwrap();
    let leader = cluster.wait_until_served(3).unwrap();
    // A member that is no leader: without it, the others need no election.
    let stopped = (leader + 1) % 3;
    let mut order: Vec<String> = cluster.members().iter().map(|member| member.address()).collect();
    order.swap(0, stopped);
    let backend = backend(&format!("etcd://{}", order.join(",")));
    let holder = claim("job");
    hold(&backend, &holder).await;
    cluster.members()[stopped].pause();
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
    cluster.members()[stopped].resume();
    release(&backend, &holder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn minority_grants_nothing() {
    let mut cluster = EtcdCluster::start().unwrap();
    let backend = backend(&cluster.url());
    hold(&backend, &claim("other")).await;
    for member in [1, 2] {
        cluster.members_mut()[member].kill();
    }
    let error = answered(backend.try_acquire(&claim("job"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let error = answered(backend.init()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

#[tokio::test]
async fn server_that_is_no_etcd_is_named() {
    let redis = RedisServer::start().unwrap();
    let url = format!("etcd://127.0.0.1:{}", redis.port());
    let error = answered(backend(&url).try_acquire(&claim("job"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert!(error.to_string().contains("is no etcd with the API of version 3"), "{error:?}");
}

/// A member that speaks version 2 only is a server of HTTP/1.
#[tokio::test]
async fn member_that_speaks_version_2_only_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = [0; 24];
            let _ = stream.read_exact(&mut request);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
            // The connection stays open until the client has read that.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let error = answered(backend(&format!("etcd://127.0.0.1:{port}")).try_acquire(&claim("job"))).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert!(error.to_string().contains("is no etcd with the API of version 3"), "{error:?}");
}

#[tokio::test]
async fn members_of_two_clusters_are_refused() {
    let (mut one, two) = (server(), EtcdServer::start().unwrap());
    let backend = backend(&format!("{},{}", one.url(), two.address()));
    hold(&backend, &claim("job")).await;
    one.kill();
    let error = answered(backend.try_acquire(&claim("job"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert!(error.to_string().contains("is a member of cluster"), "{error:?}");
    assert_eq!(keys(&two, ""), [""; 0]);
}

#[tokio::test]
async fn keyspace_without_space_takes_no_lock_and_keeps_those_that_are_held() {
    let server = EtcdServer::start_with(&["--quota-backend-bytes", "200000"]).unwrap();
    let backend = backend(&server.url());
    let (holder, longer) = (claim("held"), claim("longer").with_ttl(TTL * 2));
    hold(&backend, &holder).await;
    let unsure = claim("unsure").with_ttl(TTL * 3);
    // Their leases are kept: the key of the holder may be moved to one, and the other is there for a create.
    for kept in [&longer, &unsure] {
        hold(&backend, kept).await;
        release(&backend, kept).await;
    }
    let large = "x".repeat(100_000);
    until("the quota is used up", || server.ctl(&["put", "large", &large]).is_err());
    let watches = || server.counter("grpc_server_started_total{grpc_method=\"Watch\"").unwrap();
    let before = watches();
    let error = answered(backend.try_acquire(&claim("job"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("has used up its quota of space"), "{error:?}");
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
    let error = renew(&backend, &holder.clone().with_ttl(TTL * 2)).await.unwrap_err();
    assert!(error.to_string().contains("has used up its quota of space"), "{error:?}");
    // The move that was refused is given up.
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
    // etcd would carry out the create that uses up the space, and answer likewise: its lease goes to no other claim.
    let error = answered(backend.try_acquire(&unsure)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");
    let revokes = || server.counter("grpc_server_started_total{grpc_method=\"LeaseRevoke\"").unwrap();
    let revoked = revokes();
    release(&backend, &unsure).await;
    assert_eq!(revokes(), revoked + 1);
    // Every member would have refused: the holder keeps its connection, and the watch there.
    assert_eq!(watches(), before);
    release(&backend, &holder).await;
}

/// Its own key is deleted by its release alone, so a watch on it would tell nothing.
#[tokio::test]
async fn waiter_that_is_first_and_whose_move_is_refused_asks_again_soon() {
    let server = EtcdServer::start_with(&["--quota-backend-bytes", "200000"]).unwrap();
    let backend = backend(&server.url());
    let (holder, next) = (claim("job"), waiter("job"));
    hold(&backend, &holder).await;
    assert!(is_busy(&backend, &next).await);
    let large = "x".repeat(100_000);
    until("the quota is used up", || server.ctl(&["put", "large", &large]).is_err());
    release(&backend, &holder).await;
    let longer = next.with_ttl(TTL * 2);
    let error = answered(backend.try_acquire(&longer)).await.unwrap_err();
    assert!(error.to_string().contains("has used up its quota of space"), "{error:?}");
    let is_soon = tokio::time::timeout(TTL / 4, backend.changed(&longer)).await;
    assert!(is_soon.is_ok(), "it waits for the end of its own key");
}

#[tokio::test]
async fn member_that_is_down_is_unavailable_and_not_unknown() {
    let mut server = server();
    let backend = backend(&server.url());
    server.kill();
    let error = answered(backend.try_acquire(&claim("job"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

#[test]
fn url_that_cannot_be_meant_is_refused_with_its_fix() {
    for (url, message) in [
        ("etcd://e1/a//", "invalid path of the store URL: it ends with several slashes"),
        ("etcd://e1?timeout=5ms", "invalid timeout: 5ms, at least 10ms"),
        ("etcd://e1?timeout=2h", "invalid timeout: 7200s, at most 60s"),
        ("etcd://ada@e1", "invalid store URL: it has a user and no password"),
        ("etcd://e1?tls_ca=ca.pem", "invalid store URL: unknown parameter \"tls_ca\""),
        ("etcds://e1", "\"etcds\" is no scheme of etcd"),
    ] {
        let error = open(url).unwrap_err();
        assert_eq!(error.to_string(), message, "{url}");
        assert!(error.help().is_some_and(|help| !help.is_empty()), "{url}");
    }
    let shown = format!("{:?}", open("etcd://ada:s3cret@e1,e2:2300,[::1]/shop/locks?timeout=3s").unwrap());
    for part in ["port: Some(2379)", "port: Some(2300)", "\"::1\"", "\"shop/locks/\"", "timeout: 3s"] {
        assert!(shown.contains(part), "{shown}");
    }
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(open("etcd://e1?timout=1s").unwrap_err().help().unwrap().contains("timeout"));
}
