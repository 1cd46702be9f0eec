//! What a task that waits for a lock keeps in memory, in the core and in this backend together: its futures, its timer, its
//! place in the mailbox. Counted by the allocator, so it is the same on any machine.

#![expect(unsafe_code, reason = "an allocator is unsafe by its trait; every call is passed on as it came")]
#![expect(clippy::unwrap_used, reason = "tests")]

use leasehold_conformance::servers::RedisServer;
use leasehold_core::{
    AcquireOptions, Clock, DistributedLock, LockClient, LockName, Moment, Namespace, Sleep, StoreUrl,
    SystemClock,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The system's allocator, counting.
struct Counting;

/// The bytes that are in use.
static IN_USE: AtomicUsize = AtomicUsize::new(0);
/// The most that ever were, since this was last set.
static MOST: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: `System` keeps the contract, and nothing is changed on the way to it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let in_use = IN_USE.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(in_use, Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// So many that what they share, such as the buffers of the connection, is nothing for each.
const WAITERS: usize = 2_000;
/// What one of them keeps while it waits, beside the task that it is.
const WHILE_WAITING: usize = 640;
/// And in the moment in which all of them ask, each with a request of half a kilobyte under way.
const WHILE_ASKING: usize = 6_000;

/// The system's clock, on which no sleep ends during the test: waiters ask some times a second, in case that a message was
/// lost, and there would be no moment in which none of so many does.
#[derive(Debug)]
struct Late;

impl Clock for Late {
    fn now(&self) -> Moment {
        SystemClock::new().now()
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        SystemClock::new().sleep_until(moment.plus(Duration::from_secs(3600)))
    }
}

#[tokio::test]
async fn a_waiter_keeps_little() {
    let server = RedisServer::start().unwrap();
    let namespace = Namespace::new(leasehold_redis::DEFAULT_PREFIX).unwrap();
    let backend = leasehold_redis::open(&StoreUrl::parse(&server.url()).unwrap(), &namespace).unwrap();
    let locks = LockClient::builder(backend).with_clock(Arc::new(Late)).build();
    let name = LockName::new("job").unwrap();
    let _guard = locks.acquire_with(&name, &AcquireOptions::new()).await.unwrap();
    let mut waiters = JoinSet::new();
    // The first one makes what all of them share.
    wait(&mut waiters, &locks, &name, 1);
    queued(&server, 1).await;
    let mut idle = JoinSet::new();
    let without = IN_USE.load(Relaxed);
    for _ in 0..WAITERS {
        let its = (locks.clone(), name.clone());
        idle.spawn(async move {
            std::future::pending::<()>().await;
            drop(its);
        });
    }
    let task = (IN_USE.load(Relaxed) - without) / WAITERS;
    let before = IN_USE.load(Relaxed);
    MOST.store(before, Relaxed);
    wait(&mut waiters, &locks, &name, WAITERS);
    queued(&server, 1 + WAITERS).await;
    let each = |bytes: &AtomicUsize| bytes.load(Relaxed).saturating_sub(before) / WAITERS - task;
    let asking = each(&MOST);
    let mut waiting = usize::MAX;
    let all_have_heard = async {
        while waiting > WHILE_WAITING {
            sleep(Duration::from_millis(1)).await;
            waiting = waiting.min(each(&IN_USE));
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
