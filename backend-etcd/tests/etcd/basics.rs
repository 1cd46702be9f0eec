//! One claim and several, on one member.

use crate::*;
use leasehold_core::{
    Attempt, ErrorKind, FencingToken, LockAdmin, LockBackend, LockMode, LossCause, Release, Renewal,
};
use leasehold_test_stores::servers::EtcdServer;
use std::time::Duration;

#[tokio::test]
async fn acquired_lock_is_one_key_and_its_token_is_the_create_revision() {
    let server = server();
    let backend = backend(&server.url());
    let (holder, other) = (claim("a/b"), claim("a/b"));
    let token = hold(&backend, &holder).await;
    assert!(is_busy(&backend, &other).await);
    let found = keys(&server, "");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("leasehold/a%2Fb/"), "{found:?}");
    let shown = server.ctl(&["get", &found[0], "-w", "fields"]).unwrap();
    assert!(shown.contains(&format!("\"CreateRevision\" : {token}")), "{shown}");
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
    assert_eq!(release(&backend, &holder).await, Release::Released);
    assert_eq!(release(&backend, &holder).await, Release::NotHeld);
    assert_eq!(keys(&server, ""), [""; 0]);
    assert!(hold(&backend, &other).await > token);
}

#[tokio::test]
async fn claim_that_asks_again_is_granted_with_the_same_token() {
    let server = server();
    let backend = backend(&server.url());
    let claim = claim("job");
    let token = hold(&backend, &claim).await;
    assert_eq!(hold(&backend, &claim).await, token);
    assert_eq!(release(&backend, &claim).await, Release::Released);
}

/// The table of `docs/etcd.md`, as the server counts.
#[tokio::test]
async fn operations_cost_the_requests_and_commits_of_the_documentation() {
    let server = server();
    let backend = backend(&server.url());
    let counts = || {
        let methods = ["Range", "Txn", "LeaseKeepAlive", "LeaseGrant"]
            .map(|method| format!("grpc_server_started_total{{grpc_method=\"{method}\""));
        let [range, txn, keep_alive, grant] = methods.map(|name| server.counter(&name).unwrap());
        [range, txn, keep_alive, grant, server.counter("etcd_server_proposals_committed_total").unwrap()]
    };
    let (holder, next, other) = (waiter("job"), waiter("job"), claim("other"));
    hold(&backend, &waiter("first")).await;
    let mut before = counts();
    let mut costs = |operation: &str, expected: [u64; 5]| {
        let now = counts();
        let cost: [u64; 5] = std::array::from_fn(|at| now[at] - before[at]);
        assert_eq!(cost, expected, "{operation}: Range, Txn, LeaseKeepAlive, LeaseGrant, commits");
        before = now;
    };
    hold(&backend, &holder).await;
    costs("the first acquire of its kind", [0, 1, 1, 1, 2]);
    assert!(is_busy(&backend, &next).await);
    costs("the first wait of its kind", [0, 1, 1, 1, 2]);
    assert!(is_busy(&backend, &next).await);
    costs("a question of a waiter", [0, 1, 1, 0, 0]);
    assert!(is_busy(&backend, &claim("job")).await);
    costs("a refused try", [1, 0, 0, 0, 0]);
    release(&backend, &holder).await;
    costs("a release", [0, 1, 0, 0, 1]);
    hold(&backend, &next).await;
    costs("a waiter that was woken", [0, 1, 1, 0, 0]);
    hold(&backend, &other).await;
    costs("a try", [1, 1, 1, 0, 1]);
    answered(backend.renew(&[next.clone(), other.clone()])).await;
    costs("a renewal of two locks", [0, 2, 2, 0, 0]);
    release(&backend, &other).await;
    costs("a release", [0, 1, 0, 0, 1]);
    hold(&backend, &waiter("other")).await;
    costs("an acquire", [0, 1, 1, 0, 1]);
    renew(&backend, &next.with_ttl(TTL * 2)).await.unwrap();
    costs("a renewal for longer", [0, 1, 1, 1, 2]);
}

#[tokio::test]
async fn waiters_are_served_in_their_order_and_readers_together() {
    let server = server();
    let backend = backend(&server.url());
    let holder = waiter("job");
    hold(&backend, &holder).await;
    let readers = [waiter("job").with_mode(LockMode::Shared), waiter("job").with_mode(LockMode::Shared)];
    let (writer, last) =
        (waiter("job").with_mode(LockMode::Write), waiter("job").with_mode(LockMode::Shared));
    for claim in [&readers[0], &readers[1], &writer, &last] {
        assert!(is_busy(&backend, claim).await);
    }
    let waiting = backend.waiters(&name("job")).await.unwrap();
    let owners: Vec<_> = waiting.iter().filter_map(|waiter| waiter.owner).collect();
    assert_eq!(owners, [&readers[0], &readers[1], &writer, &last].map(Claim::owner));
    release(&backend, &holder).await;
    for reader in &readers {
        wait_for_grant(&backend, reader).await;
    }
    assert!(is_busy(&backend, &last).await, "a reader does not pass a waiting writer");
    assert_eq!(backend.inspect(&name("job")).await.unwrap().len(), 2);
    for reader in &readers {
        release(&backend, reader).await;
    }
    wait_for_grant(&backend, &writer).await;
    release(&backend, &writer).await;
    wait_for_grant(&backend, &last).await;
    release(&backend, &last).await;
    assert_eq!(keys(&server, ""), [""; 0]);
}

#[tokio::test]
async fn deleted_key_is_told_at_once_and_as_taken_by_the_next() {
    let server = server();
    let backend = backend(&server.url());
    let (holder, next) = (claim("job"), waiter("job"));
    hold(&backend, &holder).await;
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
    assert!(is_busy(&backend, &next).await);
    assert_eq!(backend.force_release(&name("job"), Some(FencingToken::new(1))).await.unwrap().len(), 0);
    assert_eq!(backend.force_release(&name("job"), None).await.unwrap().len(), 1);
    assert_eq!(answered(backend.suspects()).await, [holder.owner()]);
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Lost(LossCause::Taken));
    wait_for_grant(&backend, &next).await;
}

#[tokio::test]
async fn lease_of_a_short_ttl_ends_and_a_longer_ttl_makes_it_longer() {
    let server = server();
    let backend = backend(&server.url());
    let short = waiter("short").with_ttl(Duration::from_secs(1));
    hold(&backend, &short).await;
    let kept = waiter("kept").with_ttl(Duration::from_secs(20));
    let token = hold(&backend, &kept).await;
    assert_eq!(renew(&backend, &kept.clone().with_ttl(TTL)).await.unwrap(), Renewal::Renewed);
    wait_for_grant(&backend, &claim("short").with_ttl(TTL).with_waiting(true)).await;
    assert_eq!(renew(&backend, &short).await.unwrap(), Renewal::Lost(LossCause::Taken));
    let status = backend.inspect(&name("kept")).await.unwrap().remove(0);
    assert_eq!(status.token, Some(token));
    assert!(status.ends_in.unwrap() > Duration::from_secs(30), "{status:?}");
}

/// A create that was not answered may be carried out late: after the release it would take the lock for nobody.
#[tokio::test]
async fn hold_after_an_unanswered_create_lives_on_another_lease_and_the_first_is_revoked() {
    let server = server();
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let backend = backend(&format!("etcd://{}", proxy.address()));
    let holder = waiter("job");
    keep_a_lease(&backend).await;
    proxy.set(Traffic::HoldReplies);
    let lose_the_answer = async {
        until_more_keys(&server, 0).await;
        proxy.set(Traffic::Pass);
        proxy.cut();
    };
    let (attempt, ()) = answered(async { tokio::join!(backend.try_acquire(&holder), lose_the_answer) }).await;
    granted(attempt.unwrap());
    let key = keys(&server, "leasehold/job/").remove(0);
    let first = key.rsplit('/').next().unwrap();
    assert_ne!(i64::from_str_radix(first, 16).unwrap(), lease_of(&server, "job"));
    let told = server.ctl(&["lease", "timetolive", first]).unwrap();
    assert!(told.contains("already expired"), "{told}");
    assert_eq!(release(&backend, &holder).await, Release::Released);
    assert_eq!(keys(&server, ""), [""; 0]);
}

/// Such a watch begins after the deletion, so no event tells of it.
#[tokio::test]
async fn waiter_whose_key_in_front_goes_before_its_watch_is_set_is_woken() {
    let server = server();
    let proxy = Proxy::to(([127, 0, 0, 1], server.port()).into()).await.unwrap();
    let (holders, waiters) = (backend(&server.url()), backend(&format!("etcd://{}", proxy.address())));
    let (holder, next) = (claim("job"), waiter("job"));
    hold(&holders, &holder).await;
    let attempt = attempt_with_a_late_watch(&server, (&proxy, &waiters), &next).await;
    assert!(matches!(attempt, Attempt::Busy(_)));
    release(&holders, &holder).await;
    proxy.set(Traffic::Pass);
    answered(waiters.changed(&next)).await;
    hold(&waiters, &next).await;
}

/// If only the move of the key is carried out, and not the extension of its new lease, the holder still believes in the old one.
#[tokio::test]
async fn key_moves_to_a_kept_lease_only_if_that_lives_as_long() {
    let server = server();
    let backend = backend(&server.url());
    let [short, long] = [10, 14].map(Duration::from_secs);
    for (lock, age, is_taken) in [("fresh", 0, true), ("old", 5, false)] {
        let (other, holder) = (claim("other").with_ttl(long), claim(lock).with_ttl(short));
        hold(&backend, &other).await;
        let kept = lease_of(&server, "other");
        release(&backend, &other).await;
        tokio::time::sleep(Duration::from_secs(age)).await;
        hold(&backend, &holder).await;
        assert_eq!(renew(&backend, &holder.clone().with_ttl(long)).await.unwrap(), Renewal::Renewed);
        assert_eq!(lease_of(&server, lock) == kept, is_taken, "{lock}");
    }
}

#[tokio::test]
async fn released_lock_stays_taken_for_its_least_time() {
    let server = server();
    let backend = backend(&server.url());
    let holder = claim("job");
    hold(&backend, &holder).await;
    let linger = Duration::from_secs(5);
    assert_eq!(answered(backend.release(&holder, linger)).await.unwrap(), Release::Released);
    let status = backend.inspect(&name("job")).await.unwrap().remove(0);
    assert!(status.is_released(), "{status:?}");
    assert!(is_busy(&backend, &claim("job")).await);
    assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Lost(LossCause::Gone));
    wait_for_grant(&backend, &waiter("job")).await;
}

#[tokio::test]
async fn list_shows_held_locks_of_the_prefix_in_the_order_of_names() {
    let server = server();
    let backend = backend(&server.url());
    for lock in ["b/2", "b/1", "a", "b/1"] {
        let _: Attempt = answered(backend.try_acquire(&waiter(lock))).await.unwrap();
    }
    server.ctl(&["put", "leasehold/other", "1"]).unwrap();
    let found = backend.list("b/").await.unwrap();
    let names: Vec<&str> = found.iter().map(|status| status.name.as_str()).collect();
    assert_eq!(names, ["b/1", "b/2"]);
}

#[tokio::test]
async fn prefix_without_a_separator_has_one_and_sees_no_key_that_only_begins_like_it() {
    let server = server();
    let backend = backend(&format!("{}/shop", server.url()));
    server.ctl(&["put", "shopping/job/1", "1"]).unwrap();
    assert_eq!(backend.list("").await.unwrap().len(), 0);
    hold(&backend, &claim("job")).await;
    assert_eq!(keys(&server, "shop/job/").len(), 1);
}

/// The least lease is one and a half times the election time-out.
#[tokio::test]
async fn lease_below_the_least_of_the_server_is_a_finding_and_can_be_renewed() {
    let server =
        EtcdServer::start_with(&["--election-timeout", "4000", "--heartbeat-interval", "400"]).unwrap();
    let backend = backend(&server.url());
    let short = claim("job").with_ttl(Duration::from_secs(2));
    hold(&backend, &short).await;
    assert_eq!(renew(&backend, &short).await.unwrap(), Renewal::Renewed);
    let status = backend.inspect(&name("job")).await.unwrap().remove(0);
    assert!(status.ends_in.unwrap() > Duration::from_secs(4), "{status:?}");
    let found = backend.check().await.unwrap();
    let finding = found.iter().find(|finding| finding.code == "W_LONG_LEASE").unwrap();
    assert!(finding.message.contains("the shortest lease is 6 s"), "{finding:?}");
}

#[test]
fn hold_outlives_the_runtime_that_made_its_connection() {
    let server = server();
    let (backend, holder, next) = (backend(&server.url()), waiter("job"), waiter("job"));
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime().block_on(async {
        hold(&backend, &holder).await;
        assert!(is_busy(&backend, &next).await);
    });
    runtime().block_on(async {
        assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
        release(&backend, &holder).await;
        wait_for_grant(&backend, &next).await;
    });
}

#[tokio::test]
async fn closed_backend_refuses_later_calls() {
    let server = server();
    let backend = backend(&server.url());
    let held = claim("job");
    hold(&backend, &held).await;
    backend.close().await.unwrap();
    let refusals = [
        answered(backend.try_acquire(&claim("job"))).await.map(drop),
        renew(&backend, &held).await.map(drop),
        backend.release(&held, Duration::ZERO).await.map(drop),
    ];
    for refusal in refusals {
        assert_eq!(refusal.unwrap_err().kind(), ErrorKind::Closed);
    }
}

#[tokio::test]
async fn check_names_version_missing_authentication_and_alarm() {
    let server = EtcdServer::start_with(&["--quota-backend-bytes", "200000"]).unwrap();
    let backend = backend(&server.url());
    let codes = async || {
        let found = backend.check().await.unwrap();
        found.into_iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    let found = codes().await;
    assert!(found.contains(&"I_SERVER") && found.contains(&"W_NO_AUTH"), "{found:?}");
    assert!(!found.contains(&"E_TRIAL"), "{found:?}");
    let large = "x".repeat(100_000);
    until("the quota is used up", || server.ctl(&["put", "large", &large]).is_err());
    let found = codes().await;
    assert!(found.contains(&"E_NO_SPACE") && found.contains(&"E_TRIAL"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_and_holder_have_one_watch_each_and_none_after_their_release() {
    let server = server();
    let backend = backend(&server.url());
    let watches = || server.traffic().unwrap().waiting;
    let (holder, next) = (waiter("job").with_ttl(Duration::from_secs(20)), waiter("job"));
    hold(&backend, &holder).await;
    until("the holder's key is watched", || watches() == 1);
    // A longer ttl moves the key to another lease.
    let holder = holder.with_ttl(TTL);
    for _ in 0..3 {
        assert!(is_busy(&backend, &next).await);
        assert_eq!(renew(&backend, &holder).await.unwrap(), Renewal::Renewed);
    }
    until("the key in front is watched", || watches() == 2);
    release(&backend, &holder).await;
    wait_for_grant(&backend, &next).await;
    release(&backend, &next).await;
    until("nothing is watched", || watches() == 0);
}
