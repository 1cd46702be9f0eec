//! The backend against real members: the recipe, members that fail, other programs in the same queue, users and TLS. Here: claims, and
//! answers that must come.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that unwraps fails, which is what it is for")]

mod access;
mod basics;
mod failed_calls;
mod interop;
mod members;

use futures_util::FutureExt;
use leasehold_conformance::proxy::{Proxy, Traffic};
use leasehold_core::{
    Attempt, Claim, FencingToken, LockBackend, LockName, Namespace, OwnerId, Renewal, Result,
};
use leasehold_etcd::EtcdBackend;
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::EtcdServer;
use std::future::Future;
use std::time::{Duration, Instant};

/// Long enough for nothing to end by itself in a test.
const TTL: Duration = Duration::from_secs(60);
/// Far above every time-out in these tests.
const ANSWERED_WITHIN: Duration = Duration::from_secs(120);

fn server() -> EtcdServer {
    EtcdServer::start().unwrap()
}

fn open(url: &str) -> Result<EtcdBackend> {
    EtcdBackend::open(&StoreUrl::parse(url)?, &Namespace::default())
}

/// With a time-out that a busy machine keeps.
fn backend(url: &str) -> EtcdBackend {
    let mark = if url.contains('?') { '&' } else { '?' };
    open(&format!("{url}{mark}timeout=20s&connect_timeout=20s")).unwrap()
}

fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

/// A claim of a new owner, which makes one attempt.
fn claim(lock: &str) -> Claim {
    Claim::new(name(lock), OwnerId::random().unwrap(), TTL, "{\"pid\":7,\"doing\":\"two words\"}".into())
}

/// A claim that waits.
fn waiter(lock: &str) -> Claim {
    claim(lock).with_waiting(true)
}

async fn answered<T>(call: impl Future<Output = T>) -> T {
    let answer = tokio::time::timeout(ANSWERED_WITHIN, call).await;
    answer.unwrap_or_else(|_| panic!("nothing happened within {ANSWERED_WITHIN:?}"))
}

/// Acquires a lock that must be free.
async fn hold(backend: &EtcdBackend, claim: &Claim) -> FencingToken {
    granted(answered(backend.try_acquire(claim)).await.unwrap())
}

fn granted(attempt: Attempt) -> FencingToken {
    match attempt {
        Attempt::Granted(grant) => grant.token,
        Attempt::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

async fn is_busy(backend: &EtcdBackend, claim: &Claim) -> bool {
    matches!(answered(backend.try_acquire(claim)).await.unwrap(), Attempt::Busy(_))
}

async fn renew(backend: &EtcdBackend, claim: &Claim) -> Result<Renewal> {
    answered(backend.renew(std::slice::from_ref(claim))).await.remove(0)
}

async fn release(backend: &EtcdBackend, claim: &Claim) -> leasehold_core::Release {
    answered(backend.release(claim, Duration::ZERO)).await.unwrap()
}

/// Asks until the lock is granted, as a client does.
async fn wait_for_grant(backend: &EtcdBackend, claim: &Claim) -> FencingToken {
    let asking = async {
        loop {
            match backend.try_acquire(claim).await {
                Ok(Attempt::Granted(grant)) => return grant.token,
                Ok(Attempt::Busy(_)) => {
                    let _ = tokio::time::timeout(Duration::from_secs(5), backend.changed(claim)).await;
                }
                Err(error) if error.is_outage() => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    answered(asking).await
}

/// Leaves a lease in the backend, so that the create is the first request of the next claim.
async fn keep_a_lease(backend: &EtcdBackend) {
    let other = claim("other");
    hold(backend, &other).await;
    release(backend, &other).await;
}

/// Waits until the lock `job` has more keys than this.
async fn until_more_keys(server: &EtcdServer, before: usize) {
    while keys(server, "leasehold/job/").len() <= before {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// An attempt for `job` whose create is answered, and whose watch is kept back by the proxy.
async fn attempt_with_a_late_watch(
    server: &EtcdServer,
    (proxy, backend): (&Proxy, &EtcdBackend),
    claim: &Claim,
) -> Attempt {
    keep_a_lease(backend).await;
    let before = keys(server, "leasehold/job/").len();
    proxy.set(Traffic::HoldReplies);
    let hold_the_watch = async {
        until_more_keys(server, before).await;
        proxy.set(Traffic::HoldRequests);
    };
    let (attempt, ()) = answered(async { tokio::join!(backend.try_acquire(claim), hold_the_watch) }).await;
    attempt.unwrap()
}

/// The keys with this prefix, in the order in which they were created. Asks `etcdctl`.
fn keys(server: &EtcdServer, prefix: &str) -> Vec<String> {
    let arguments = ["get", "--prefix", prefix, "--keys-only", "--sort-by=CREATE", "--order=ASCEND"];
    let keys = server.ctl(&arguments).unwrap();
    keys.lines().filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect()
}

/// The lease on which the only key of a lock lives. Asks `etcdctl`.
fn lease_of(server: &EtcdServer, lock: &str) -> i64 {
    let key = server.ctl(&["get", "--prefix", &format!("leasehold/{lock}/"), "-w", "json"]).unwrap();
    let (_, lease) = key.split_once("\"lease\":").unwrap();
    lease.split([',', '}']).next().unwrap().parse().unwrap()
}

/// True if the backend keeps anything of a claim, but for a suspicion that no keeper has taken.
fn is_known(backend: &EtcdBackend, claim: &Claim) -> bool {
    let _ = backend.suspects().now_or_never();
    format!("{backend:?}").contains(&format!("{:?}", claim.owner()))
}

/// Waits until something holds that needs no runtime.
fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < ANSWERED_WITHIN, "not within {ANSWERED_WITHIN:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
