//! The bytes of a hold and of a waiter: in the core, in this backend and in the client library together. Counted by the
//! allocator, so they are the same on any machine.

#![expect(clippy::unwrap_used, reason = "tests")]

use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, LockBackend, LockClient, LockGuard, LockName,
    Namespace,
};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::ZooKeeperServer;
use leasehold_test_stores::{Footprint, SystemClockWithoutAlarm};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

#[global_allocator]
static FOOTPRINT: Footprint = Footprint::new();

/// Enough to make shared memory, such as the buffers of the connection, small for each; and no more than a session watches.
const HOLDS: usize = 400;
const WAITERS: usize = 500;
/// The bytes of a hold. Nearly half of them are the client library's: the path of the watch, a vector with room for five
/// watches of it, the channel to its future, that future, and its entries in two maps.
const OF_A_HOLD: usize = 1_700;
/// The bytes of a hold without a watch: beyond the limit of a session, or before its first renewal.
const OF_A_HOLD_UNWATCHED: usize = 1_100;
/// The bytes of a waiter, beside its task. Guards against growth by accident; small futures are no goal.
const OF_A_WAITER: usize = 2_700;

/// One after the other, because there is one allocator. Each has its own runtime and session, because the client library keeps
/// memory for later, and is closed before the next begins, so that no release of it goes on there.
#[test]
fn hold_and_waiter_stay_within_their_bytes() {
    let server = ZooKeeperServer::start().unwrap();
    let waiting = Runtime::new().unwrap().block_on(of_a_waiter(&server));
    let (holding, unwatched) = Runtime::new().unwrap().block_on(of_a_hold(&server));
    println!("a hold keeps {holding} bytes, {unwatched} unwatched, a waiter {waiting} beside its task");
    assert!((1..=OF_A_HOLD).contains(&holding), "{holding} bytes");
    assert!((1..=OF_A_HOLD_UNWATCHED).contains(&unwatched), "{unwatched} bytes");
    assert!((1..=OF_A_WAITER).contains(&waiting), "{waiting} bytes");
}

fn backend(server: &ZooKeeperServer, query: &str) -> Arc<dyn LockBackend> {
    let namespace = Namespace::new(leasehold_zk::DEFAULT_PREFIX).unwrap();
    let url = StoreUrl::parse(&format!("{}{query}", server.url())).unwrap();
    leasehold_zk::open(&url, &namespace).unwrap()
}

async fn hold(locks: &LockClient, name: &str) -> LockGuard {
    locks.acquire_with(&LockName::new(name).unwrap(), &AcquireOptions::new()).await.unwrap()
}

async fn of_a_hold(server: &ZooKeeperServer) -> (usize, usize) {
    let locks = LockClient::new(backend(server, ""));
    // The first hold makes what all of them share.
    let mut guards = Vec::with_capacity(1 + 4 * HOLDS);
    guards.push(hold(&locks, "first").await);
    let before = FOOTPRINT.in_use();
    for number in 0..HOLDS {
        guards.push(hold(&locks, &format!("held-{number}")).await);
    }
    // The first renewal sets the watch.
    watched(server, 1 + HOLDS).await;
    let keeps = at_rest(before, HOLDS, OF_A_HOLD).await;
    let fill = 2 * HOLDS;
    for number in HOLDS..fill {
        guards.push(hold(&locks, &format!("held-{number}")).await);
    }
    let before = FOOTPRINT.in_use();
    for number in fill..4 * HOLDS {
        guards.push(hold(&locks, &format!("held-{number}")).await);
    }
    let unwatched = at_rest(before, 4 * HOLDS - fill, OF_A_HOLD_UNWATCHED).await;
    drop(guards);
    locks.close().await.unwrap();
    (keeps, unwatched)
}

async fn of_a_waiter(server: &ZooKeeperServer) -> usize {
    // The holder is not renewed, and no waiter asks by its fallback interval.
    let backend = backend(server, "?session_timeout=40s");
    let locks = LockClient::builder(backend).with_clock(Arc::<SystemClockWithoutAlarm>::default()).build();
    let guard = hold(&locks, "job").await;
    let name = guard.name();
    let (mut idle, mut waiters) = (JoinSet::new(), JoinSet::new());
    let without = FOOTPRINT.in_use();
    for _ in 0..WAITERS {
        let its = (locks.clone(), name.clone());
        idle.spawn(async move {
            std::future::pending::<()>().await;
            drop(its);
        });
    }
    let before = FOOTPRINT.in_use();
    for number in 1..=WAITERS {
        let (locks, name) = (locks.clone(), name.clone());
        waiters.spawn(async move {
            let _ = locks.acquire_with(&name, locks.defaults()).await;
        });
        in_line(server, number).await;
    }
    let task = (before - without) / WAITERS;
    let keeps = at_rest(before, WAITERS, task + OF_A_WAITER).await.saturating_sub(task);
    waiters.shutdown().await;
    idle.shutdown().await;
    guard.release().await.unwrap();
    locks.close().await.unwrap();
    keeps
}

/// The bytes of each, as soon as they are no more than `most`: the last of them may still read a list of all the others.
async fn at_rest(before: usize, number: usize, most: usize) -> usize {
    let each = || FOOTPRINT.in_use().saturating_sub(before) / number;
    sleep(Duration::from_millis(200)).await;
    for _ in 0..200 {
        if each() <= most {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    each()
}

/// Waits until so many wait behind the holder.
async fn in_line(server: &ZooKeeperServer, number: usize) {
    counted(server, "zk_ephemerals_count", 1 + number).await;
}

/// Waits until the server has so many watches.
async fn watched(server: &ZooKeeperServer, number: usize) {
    counted(server, "zk_watch_count", number).await;
}

async fn counted(server: &ZooKeeperServer, what: &str, number: usize) {
    let all = async {
        while server.counter(what).unwrap() != number as u64 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(60), all).await.unwrap();
}
