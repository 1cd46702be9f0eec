//! What a hold, and a task that waits for one, keep in memory: in the core, in this backend and in the client library
//! together. Counted by the allocator, so it is the same on any machine.

#![expect(clippy::unwrap_used, reason = "tests")]

use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, LockClient, LockGuard, LockName, Namespace,
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

/// So many that what they share, such as the buffers of the connection, is little for each; and no more than a session
/// listens to.
const HOLDS: usize = 1_000;
/// Fewer, as they come one after the other.
const WAITERS: usize = 500;
/// What a hold keeps. Nearly half of it is the client library's: the path of the watch, a vector with room for five watches
/// of it, the channel to its future, that future, and its places in two maps.
const OF_A_HOLD: usize = 1_500;
/// What a hold keeps that found no room for a watch, as all but the first thousand of a session.
const OF_A_HOLD_UNWATCHED: usize = 750;
/// The bytes of a waiter, beside its task. Guards against growth by accident; small futures are no goal.
const OF_A_WAITER: usize = 1_400;

/// One after the other, as there is one allocator; each with a session of its own, as the client library keeps for
/// later what was needed once, and a runtime. Each is closed before the other begins: what is given up with its runtime
/// would go on in the next one's.
#[test]
fn what_a_hold_and_a_waiter_keep() {
    let server = ZooKeeperServer::start().unwrap();
    let waiting = Runtime::new().unwrap().block_on(of_a_waiter(&server));
    let (holding, unwatched) = Runtime::new().unwrap().block_on(of_a_hold(&server));
    println!("a hold keeps {holding} bytes, {unwatched} unwatched, a waiter {waiting} beside its task");
    assert!((1..=OF_A_HOLD).contains(&holding), "{holding} bytes");
    assert!((1..=OF_A_HOLD_UNWATCHED).contains(&unwatched), "{unwatched} bytes");
    assert!((1..=OF_A_WAITER).contains(&waiting), "{waiting} bytes");
}

fn client(server: &ZooKeeperServer) -> LockClient {
    let namespace = Namespace::new(leasehold_zk::DEFAULT_PREFIX).unwrap();
    let backend = leasehold_zk::open(&StoreUrl::parse(&server.url()).unwrap(), &namespace).unwrap();
    LockClient::builder(backend).with_clock(Arc::<SystemClockWithoutAlarm>::default()).build()
}

async fn hold(locks: &LockClient, name: &str) -> LockGuard {
    locks.acquire_with(&LockName::new(name).unwrap(), &AcquireOptions::new()).await.unwrap()
}

async fn of_a_hold(server: &ZooKeeperServer) -> (usize, usize) {
    let locks = client(server);
    // The first one makes what all of them share.
    let mut guards = Vec::with_capacity(1 + 4 * HOLDS);
    guards.push(hold(&locks, "first").await);
    let before = FOOTPRINT.in_use();
    for number in 0..HOLDS {
        guards.push(hold(&locks, &format!("held-{number}")).await);
    }
    // Each listens to its node, which it does not at first.
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
    // The last of them are still to be looked at, whether there is room for a watch.
    let unwatched = at_rest(before, 4 * HOLDS - fill, OF_A_HOLD_UNWATCHED).await;
    drop(guards);
    locks.close().await.unwrap();
    (keeps, unwatched)
}

async fn of_a_waiter(server: &ZooKeeperServer) -> usize {
    let locks = client(server);
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
        // One after the other, so that each finds the one before it in the line, which tells it.
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

/// What each of so many keeps: at once, or as soon as it is no more than this. The last of them may still be at it, with a
/// list of all the others in their hands.
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

/// Until so many stand behind the holder.
async fn in_line(server: &ZooKeeperServer, number: usize) {
    counted(server, "zk_ephemerals_count", 1 + number).await;
}

/// Until there are so many watches at the server.
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
