//! What a task that waits for a lock keeps in memory, in the core and in this backend together: its futures, its timer, its
//! place in the registry. Counted by the allocator, so it is the same on any machine.

#![expect(clippy::unwrap_used, reason = "tests")]

use leasehold_core::{AcquireOptions, DistributedLock, DistributedLockExt, LockClient, LockName, Namespace};
use leasehold_store_url::StoreUrl;
use leasehold_test_stores::servers::RedisServer;
use leasehold_test_stores::{Footprint, SystemClockWithoutAlarm};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

#[global_allocator]
static FOOTPRINT: Footprint = Footprint::new();

/// So many that what they share, such as the buffers of the connection, is nothing for each.
const WAITERS: usize = 2_000;
/// The bytes that one of them keeps while it waits, beside its task. Guards against growth by accident; small futures are no goal.
const WHILE_WAITING: usize = 1_600;
/// And in the moment in which all of them ask, each with a request in flight, of which the client library makes a copy.
const WHILE_ASKING: usize = 7_500;

#[tokio::test]
async fn waiter_keeps_little_memory() {
    let server = RedisServer::start().unwrap();
    let namespace = Namespace::new(leasehold_redis::DEFAULT_PREFIX).unwrap();
    let backend = leasehold_redis::open(&StoreUrl::parse(&server.url()).unwrap(), &namespace).unwrap();
    let locks = LockClient::builder(backend).with_clock(Arc::<SystemClockWithoutAlarm>::default()).build();
    let name = LockName::new("job").unwrap();
    let _guard = locks.acquire_with(&name, &AcquireOptions::new()).await.unwrap();
    let mut waiters = JoinSet::new();
    // The first one makes what all of them share.
    wait(&mut waiters, &locks, &name, 1);
    queued(&server, 1).await;
    let mut idle = JoinSet::new();
    let without = FOOTPRINT.in_use();
    for _ in 0..WAITERS {
        let its = (locks.clone(), name.clone());
        idle.spawn(async move {
            std::future::pending::<()>().await;
            drop(its);
        });
    }
    let task = (FOOTPRINT.in_use() - without) / WAITERS;
    let before = FOOTPRINT.in_use();
    FOOTPRINT.take_most();
    wait(&mut waiters, &locks, &name, WAITERS);
    queued(&server, 1 + WAITERS).await;
    let each = |bytes: usize| bytes.saturating_sub(before) / WAITERS - task;
    let asking = each(FOOTPRINT.take_most());
    let mut waiting = usize::MAX;
    let all_have_heard = async {
        while waiting > WHILE_WAITING {
            sleep(Duration::from_millis(1)).await;
            waiting = waiting.min(each(FOOTPRINT.in_use()));
        }
    };
    let _ = timeout(Duration::from_secs(30), all_have_heard).await;
    println!("beside a task of {task} bytes: while waiting {waiting} bytes each, while asking {asking}");
    assert!(waiting <= WHILE_WAITING, "{waiting} bytes");
    assert!(asking <= WHILE_ASKING, "{asking} bytes");
    waiters.shutdown().await;
}

fn wait(waiters: &mut JoinSet<()>, locks: &LockClient, name: &LockName, count: usize) {
    for _ in 0..count {
        let (locks, name) = (locks.clone(), name.clone());
        waiters.spawn(async move {
            let _ = locks.acquire_with(&name, locks.defaults()).await;
        });
    }
}

/// Until so many stand in the queue.
async fn queued(server: &RedisServer, count: usize) {
    let length = || server.command(&["ZCARD", "{leasehold:job}:queue"]).unwrap();
    while length().trim() != format!(":{count}") {
        sleep(Duration::from_millis(10)).await;
    }
}
