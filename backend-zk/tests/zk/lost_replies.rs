//! Requests that were carried out and whose replies were lost: found again, never repeated, never taken for a refusal.

use crate::kit::*;
use leasehold_conformance::proxy::{Proxy, Traffic};
use leasehold_conformance::server::free_port;
use leasehold_core::{
    AcquireOptions, Attempt, Claim, DistributedLock, DistributedLockExt, ErrorKind, LockAdmin, LockBackend,
    LockClient, Release, Renewal,
};
use leasehold_test_stores::servers::ZooKeeperServer;
use leasehold_zk::ZooKeeperBackend;
use std::sync::Arc;
use std::time::Duration;
use zookeeper_client::CreateMode;

/// A backend behind a proxy. It has its session, and the directory of the lock `job` exists, so its first request creates a node.
async fn behind_proxy(server: &ZooKeeperServer) -> (Proxy, Arc<ZooKeeperBackend>) {
    warm_up(server).await;
    let proxy = proxy_to(server).await;
    // Less than the session, so that the silence is noticed first.
    let backend = backend(&format!("{}&timeout=700ms", url_of(&proxy)));
    backend.init().await.unwrap();
    Look::at(server).await.make(&format!("{BASE}/job"), CreateMode::Persistent).await;
    (proxy, backend)
}

/// Loses the replies that were held back.
fn lose_replies(proxy: &Proxy) {
    proxy.cut();
    proxy.set(Traffic::Pass);
}

#[tokio::test]
async fn create_without_a_reply_is_found_and_not_repeated() {
    let server = server();
    let look = Look::at(&server).await;
    let (proxy, backend) = behind_proxy(&server).await;
    let (claim, next) = (claim("job"), claim("job"));

    proxy.set(Traffic::HoldReplies);
    let error = answered(backend.try_acquire(&claim)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    let made = look.only_node("job").await;
    lose_replies(&proxy);

    changed(&backend, &claim).await;
    let token = hold(&backend, &claim).await;
    assert_eq!(look.only_node("job").await, made);
    // No second node was made and deleted: the next waiter has the next number.
    busy(&backend, &next).await;
    assert!(look.line("job").await.iter().any(|node| node.ends_with("0000000001")));
    release(&backend, &next).await;
    let (_, stat) = look.0.get_data(&made).await.unwrap();
    assert_eq!(token.get(), stat.czxid.unsigned_abs());
    assert_eq!(renew(&backend, &claim).await.unwrap(), Renewal::Renewed);
    assert_eq!(release(&backend, &claim).await, Release::Released);
    assert_eq!(look.line("job").await, [""; 0]);
}

#[tokio::test]
async fn create_that_breaks_with_its_connection_is_found_in_the_same_attempt() {
    let server = server();
    let look = Look::at(&server).await;
    let (proxy, backend) = behind_proxy(&server).await;
    let claim = claim("job");

    proxy.set(Traffic::HoldReplies);
    let attempt = async { backend.try_acquire(&claim).await };
    let meanwhile = async {
        eventually(async || (!look.line("job").await.is_empty()).then_some(())).await;
        lose_replies(&proxy);
    };
    let (attempt, ()) = answered(async { tokio::join!(attempt, meanwhile) }).await;

    assert!(matches!(attempt.unwrap(), Attempt::Granted(_)));
    look.only_node("job").await;
    release(&backend, &claim).await;
    assert_eq!(look.line("job").await, [""; 0]);
}

#[tokio::test]
async fn create_without_a_reply_can_be_released() {
    let server = server();
    let look = Look::at(&server).await;
    let (proxy, backend) = behind_proxy(&server).await;
    let claim = claim("job");

    proxy.set(Traffic::HoldReplies);
    answered(backend.try_acquire(&claim)).await.unwrap_err();
    look.only_node("job").await;
    lose_replies(&proxy);

    let released = eventually(async || backend.release(&claim, Duration::ZERO).await.ok()).await;
    assert_eq!(released, Release::Released, "it was first in line");
    assert_eq!(look.line("job").await, [""; 0]);
}

#[tokio::test]
async fn create_that_never_arrived_is_repeated() {
    let server = server();
    let look = Look::at(&server).await;
    let (proxy, backend) = behind_proxy(&server).await;
    let claim = claim("job");

    proxy.set(Traffic::BlackHole);
    let error = answered(backend.try_acquire(&claim)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    lose_replies(&proxy);

    changed(&backend, &claim).await;
    hold(&backend, &claim).await;
    look.only_node("job").await;
}

/// The core asks again after a grant that came too late.
#[tokio::test]
async fn holder_whose_second_attempt_has_no_answer_asks_again_soon() {
    let server = server();
    let (proxy, backend) = behind_proxy(&server).await;
    let claim = claim("job");
    let token = hold(&backend, &claim).await;

    proxy.set(Traffic::HoldReplies);
    let error = answered(backend.try_acquire(&claim)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    lose_replies(&proxy);

    within(Duration::from_secs(3), backend.changed(&claim)).await;
    let attempt = eventually(async || backend.try_acquire(&claim).await.ok()).await;
    assert!(matches!(attempt, Attempt::Granted(grant) if grant.token == token));
}

#[tokio::test]
async fn delete_without_a_reply_is_recognised() {
    let server = server();
    let look = Look::at(&server).await;
    let (proxy, backend) = behind_proxy(&server).await;
    let claim = claim("job");
    hold(&backend, &claim).await;

    proxy.set(Traffic::HoldReplies);
    let error = answered(backend.release(&claim, Duration::ZERO)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert_eq!(look.line("job").await, [""; 0], "the request was applied");
    lose_replies(&proxy);

    let again = eventually(async || backend.release(&claim, Duration::ZERO).await.ok()).await;
    assert_eq!(again, Release::NotHeld);
}

#[tokio::test]
async fn release_that_is_answered_late_is_a_success() {
    let server = server();
    let (proxy, backend) = behind_proxy(&server).await;
    let client = LockClient::new(backend);
    let guard = client.acquire("job").await.unwrap();

    proxy.set(Traffic::HoldReplies);
    let look = Look::at(&server).await;
    let meanwhile = async {
        eventually(async || look.line("job").await.is_empty().then_some(())).await;
        lose_replies(&proxy);
    };
    let (released, ()) = answered(async { tokio::join!(guard.release(), meanwhile) }).await;
    released.unwrap();
}

#[tokio::test]
async fn store_that_was_never_reached_is_unavailable() {
    let port = free_port().unwrap();
    let backend = backend(&format!("zk://127.0.0.1:{port}?connect_timeout=1s"));
    let error = answered(backend.try_acquire(&claim("job"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("Connection refused"), "{error}");
    // Without a session nothing was sent, so there is nothing to release.
    assert_eq!(answered(backend.release(&claim("job"), Duration::ZERO)).await.unwrap(), Release::NotHeld);
}

/// Otherwise each would leave a task that tries to release until there is a server.
#[tokio::test]
async fn acquire_that_never_reached_the_store_leaves_no_release() {
    let server = server();
    let proxy = proxy_to(&server).await;
    proxy.set(Traffic::BlackHole);
    let locks = client(&format!("zk://{}?connect_timeout=500ms", proxy.address()));
    let options = AcquireOptions::new().with_wait(Duration::from_millis(200));
    for number in 0..10 {
        let error = locks.acquire_with(&name(&format!("job/{number}")), &options).await.unwrap_err();
        assert!(error.is_outage(), "{error}");
    }
    let start = std::time::Instant::now();
    locks.close().await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(4), "something was under way for {:?}", start.elapsed());
}

/// The first call finds no server, and removes the entry of the claim while the second one waits for it.
#[tokio::test]
async fn call_that_waited_for_another_call_of_its_claim_keeps_its_grant() {
    let server = server();
    warm_up(&server).await;
    let proxy = proxy_to(&server).await;
    proxy.set(Traffic::BlackHole);
    let backend = backend(&format!("zk://{}?connect_timeout=1s", proxy.address()));
    let claim = claim("job");
    let (mut first, mut second) = (backend.try_acquire(&claim), backend.try_acquire(&claim));
    assert!(futures_util::poll!(&mut first).is_pending() && futures_util::poll!(&mut second).is_pending());
    answered(first).await.unwrap_err();
    proxy.set(Traffic::Pass);
    // The pause after a failed connection.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(matches!(answered(second).await.unwrap(), Attempt::Granted(_)));
    let renewed = answered(backend.renew(std::slice::from_ref(&claim))).await.remove(0);
    assert_eq!(renewed.unwrap(), Renewal::Renewed);
}

#[tokio::test]
async fn server_with_too_many_connections_is_named_as_such() {
    let server = ZooKeeperServer::start_with(&["maxClientCnxns=1"]).unwrap();
    let _only = Look::at(&server).await;
    for _ in 0..10 {
        let backend = backend(&format!("{}?connect_timeout=300ms", server.url()));
        let error = answered(backend.try_acquire(&claim("job"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.help().unwrap().contains("maxClientCnxns"), "{error:?}");
    }
}

#[tokio::test]
async fn silent_store_is_given_up_in_time() {
    let server = server();
    let proxy = proxy_to(&server).await;
    proxy.set(Traffic::BlackHole);
    let url = format!("zk://{}?connect_timeout=500ms", proxy.address());
    let backend = backend(&url);
    let start = std::time::Instant::now();
    // All at once: they share one attempt to connect.
    let claims: Vec<Claim> = (0..10).map(|_| claim("job")).collect();
    let attempts = claims.iter().map(|claim| backend.try_acquire(claim));
    for attempt in answered(futures_util::future::join_all(attempts)).await {
        assert_eq!(attempt.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

/// It is a refusal: another owner holds the lock. The node, which may still be there, is left to the release.
#[tokio::test]
async fn attempt_that_does_not_wait_is_busy_without_a_reply_to_its_delete() {
    let server = server();
    let look = Look::at(&server).await;
    let (proxy, other) = behind_proxy(&server).await;
    let one = backend(&server.url());
    hold(&one, &claim("job")).await;
    for round in 0.. {
        assert!(round < 20, "the reply to the delete was never the first that was held");
        let attempt = claim("job").with_waiting(false);
        // The replies to the create and to the list come in one piece or in two.
        proxy.set(Traffic::HoldRepliesFrom(1 + round % 2));
        let answer = answered(other.try_acquire(&attempt)).await;
        lose_replies(&proxy);
        eventually(async || other.release(&attempt, Duration::ZERO).await.ok()).await;
        assert_eq!(look.line("job").await.len(), 1);
        match answer {
            Ok(Attempt::Busy(busy)) if busy.queued => break,
            Ok(Attempt::Busy(_)) => {}
            Ok(Attempt::Granted(grant)) => panic!("granted: {grant:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}"),
        }
    }
}
