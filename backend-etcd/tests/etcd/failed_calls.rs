//! Releases that fail, calls that are dropped, and answers that come late: what stays of a claim, in the client and in the store.

use crate::*;
use leasehold_core::{LockAdmin, LockBackend, Release, Renewal};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;
use tokio::time::sleep;

const PAUSE: Duration = Duration::from_millis(10);

async fn behind_a_proxy(server: &EtcdServer) -> (Proxy, EtcdBackend) {
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let backend = backend(&format!("etcd://{}", proxy.address()));
    (proxy, backend)
}

/// Every request fails at once, until the proxy leads to the member again, whose address this answers.
fn take_away(proxy: &Proxy) -> SocketAddr {
    // A reserved port, on which nothing listens.
    let member = proxy.lead_to(([127, 0, 0, 1], 1).into());
    proxy.cut();
    member
}

/// Passes on one piece of the replies after the other, until something holds in the store. The reply that tells of it is kept back.
async fn pass_replies_until(proxy: &Proxy, holds: impl Fn() -> bool) {
    let mut passed = proxy.reply_bytes();
    loop {
        let read = proxy.reply_bytes();
        if holds() {
            return;
        }
        if read > passed {
            passed = read;
            proxy.pass_one_reply();
        }
        sleep(PAUSE).await;
    }
}

async fn fail_to_release(backend: &EtcdBackend, claim: &Claim) {
    let error = answered(backend.release(claim, Duration::ZERO)).await.unwrap_err();
    assert!(error.is_outage(), "{error:?}");
}

#[tokio::test]
async fn claim_whose_release_fails_is_kept_while_its_lease_may_live_and_no_longer() {
    let server = server();
    let (proxy, backend) = behind_a_proxy(&server).await;
    let ttl = Duration::from_secs(2);
    let (short, long) = (claim("short").with_ttl(ttl), claim("long"));
    hold(&backend, &long).await;
    wait_for_grant(&backend, &short).await;
    let member = take_away(&proxy);
    let start = Instant::now();
    fail_to_release(&backend, &short).await;
    fail_to_release(&backend, &long).await;
    let forgotten = async {
        while is_known(&backend, &short) {
            // Any call forgets the claims whose time is over.
            backend.try_acquire(&claim("other")).await.unwrap_err();
            sleep(PAUSE).await;
        }
    };
    answered(forgotten).await;
    assert!(start.elapsed() > ttl);
    assert!(is_known(&backend, &long));
    proxy.lead_to(member);
    assert_eq!(release(&backend, &long).await, Release::Released);
    assert!(!is_known(&backend, &long));
    assert_eq!(keys(&server, "leasehold/long/"), [""; 0]);
}

/// Else a third call could begin for the claim beside it.
#[tokio::test]
async fn claim_whose_release_is_repeated_is_not_forgotten_meanwhile() {
    let server = server();
    let (proxy, backend) = behind_a_proxy(&server).await;
    let holder = claim("job").with_ttl(Duration::from_secs(2));
    wait_for_grant(&backend, &holder).await;
    let member = take_away(&proxy);
    fail_to_release(&backend, &holder).await;
    let would_be_forgotten = Instant::now() + Duration::from_secs(5);
    proxy.set(Traffic::HoldRequests);
    proxy.lead_to(member);
    let others = async {
        // Any call forgets the claims whose time is over.
        while Instant::now() < would_be_forgotten {
            let other = claim("other");
            let _ = tokio::time::timeout(PAUSE * 10, backend.try_acquire(&other)).await;
            assert!(is_known(&backend, &holder));
        }
        proxy.set(Traffic::Pass);
    };
    let released = backend.release(&holder, Duration::ZERO);
    let (released, ()) = answered(async { tokio::join!(released, others) }).await;
    assert_eq!(released.unwrap(), Release::NotHeld);
    assert!(!is_known(&backend, &holder));
}

#[tokio::test]
async fn lease_of_a_create_that_was_not_sent_is_used_again() {
    let server = server();
    let (proxy, backend) = behind_a_proxy(&server).await;
    let next = waiter("job");
    keep_a_lease(&backend).await;
    let grants = || server.counter("grpc_server_started_total{grpc_method=\"LeaseGrant\"").unwrap();
    let before = grants();
    let member = take_away(&proxy);
    // From then on the broken connection is known, and nothing is sent.
    answered(backend.try_acquire(&claim("other"))).await.unwrap_err();
    let error = answered(backend.try_acquire(&next)).await.unwrap_err();
    assert!(error.is_outage() && !error.is_indeterminate(), "{error:?}");
    proxy.lead_to(member);
    hold(&backend, &next).await;
    assert_eq!(grants(), before);
}

/// It was on its way when the guard was released. Belief is over, so that it could only keep others out.
#[tokio::test]
async fn renewal_behind_a_failed_release_is_lost_and_extends_nothing() {
    let server = server();
    let (proxy, backend) = behind_a_proxy(&server).await;
    let holder = claim("job");
    hold(&backend, &holder).await;
    let member = take_away(&proxy);
    fail_to_release(&backend, &holder).await;
    proxy.lead_to(member);
    let extensions = || server.counter("grpc_server_started_total{grpc_method=\"LeaseKeepAlive\"").unwrap();
    let before = extensions();
    let renewed = renew(&backend, &holder).await.unwrap();
    assert!(matches!(renewed, Renewal::Lost(_)), "{renewed:?}");
    assert_eq!(extensions(), before);
    assert_eq!(release(&backend, &holder).await, Release::Released);
    assert_eq!(keys(&server, ""), [""; 0]);
}

/// The lock is to stay taken for a least time, without an owner.
#[tokio::test]
async fn renewal_behind_an_unanswered_release_does_not_take_the_key_back() {
    let server = server();
    let (proxy, backend) = behind_a_proxy(&server).await;
    let holder = claim("job");
    hold(&backend, &holder).await;
    let first = lease_of(&server, "job");
    proxy.set(Traffic::HoldReplies);
    let lose_the_answer = async {
        pass_replies_until(&proxy, || lease_of(&server, "job") != first).await;
        proxy.cut();
        proxy.set(Traffic::Pass);
    };
    let (released, ()) =
        answered(async { tokio::join!(backend.release(&holder, TTL), lose_the_answer) }).await;
    let error = released.unwrap_err();
    assert!(error.is_indeterminate(), "{error:?}");
    let lease = lease_of(&server, "job");
    let renewed = renew(&backend, &holder).await.unwrap();
    assert!(matches!(renewed, Renewal::Lost(_)), "{renewed:?}");
    assert_eq!(lease_of(&server, "job"), lease);
    let status = backend.inspect(&name("job")).await.unwrap().remove(0);
    assert!(status.is_released(), "{status:?}");
    assert_eq!(release(&backend, &holder).await, Release::Released);
    assert_eq!(keys(&server, ""), [""; 0]);
}

/// The create without an answer may still be carried out on that lease, and the revoke had no answer either.
#[tokio::test]
async fn lease_whose_revoke_was_dropped_without_an_answer_is_not_given_back() {
    let server = server();
    let (proxy, backend) = behind_a_proxy(&server).await;
    let holder = waiter("job");
    keep_a_lease(&backend).await;
    proxy.set(Traffic::HoldReplies);
    let carry_out_the_revoke = async {
        until_more_keys(&server, 0).await;
        let first = format!("{:x}", lease_of(&server, "job"));
        proxy.cut();
        let has_ended = || server.ctl(&["lease", "timetolive", &first]).unwrap().contains("already expired");
        pass_replies_until(&proxy, has_ended).await;
    };
    let dropped = async {
        tokio::select! {
            attempt = backend.try_acquire(&holder) => panic!("{attempt:?}"),
            () = carry_out_the_revoke => {}
        }
    };
    answered(dropped).await;
    proxy.set(Traffic::Pass);
    let revokes = || server.counter("grpc_server_started_total{grpc_method=\"LeaseRevoke\"").unwrap();
    assert_eq!(revokes(), 1);
    assert_eq!(release(&backend, &holder).await, Release::Released);
    assert_eq!(revokes(), 2);
    assert_eq!(keys(&server, ""), [""; 0]);
}

#[tokio::test]
async fn lease_that_ends_before_every_answer_is_named_with_its_length() {
    let server = server();
    let (proxy, backend) = behind_a_proxy(&server).await;
    hold(&backend, &claim("other")).await;
    // Half a second there and half a second back: as long as the lease, by the clock of a leader that is 1 % ahead.
    proxy.set(Traffic::Slow(NonZeroUsize::MAX, Duration::from_millis(500)));
    let short = waiter("job").with_ttl(Duration::from_secs(1));
    let error = answered(backend.try_acquire(&short)).await.unwrap_err();
    assert!(error.is_outage(), "{error:?}");
    assert!(error.to_string().contains("take longer than a lease of 1 s lasts"), "{error:?}");
    assert_eq!(error.help(), Some("lengthen the ttl, or find out why the store is slow"));
}
