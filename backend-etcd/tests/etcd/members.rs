//! Members that are asked in turn.

use crate::kit::*;
use leasehold_core::{ErrorKind, LockBackend, Renewal};
use leasehold_test_stores::servers::EtcdCluster;

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
}
