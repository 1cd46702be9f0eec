//! Input that is refused, each with a message of its own, and nothing lost.

use crate::kit::*;
use leasehold_core::{Claim, ErrorKind, LockBackend, OwnerId, Renewal};
use leasehold_test_stores::servers::{EtcdServer, RedisServer};
use std::io::{Read, Write};
use std::net::TcpListener;

#[tokio::test]
async fn holder_description_above_the_limit_is_refused_and_costs_no_hold() {
    let server = server();
    let backend = backend(&server.url());
    let holder = claim("other");
    hold(&backend, &holder).await;
    let large = Claim::new(name("job"), OwnerId::random().unwrap(), TTL, "x".repeat(65 * 1024).into());
    let error = backend.try_acquire(&large).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), "invalid holder: 66560 bytes, limit 1024");
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
    assert_eq!(keys(&server, "").len(), 1);
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
    let holder = claim("held");
    hold(&backend, &holder).await;
    let large = "x".repeat(100_000);
    until("the quota is used up", || server.ctl(&["put", "large", &large]).is_err());
    let error = answered(backend.try_acquire(&claim("job"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("has used up its quota of space"), "{error:?}");
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
    release(&backend, &holder).await;
}

#[tokio::test]
async fn member_that_is_down_is_unavailable_and_not_unknown() {
    let mut server = server();
    let backend = backend(&server.url());
    server.kill();
    let error = answered(backend.try_acquire(&claim("job"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}
