//! Wake-ups of the keeper: a lock that is released before it is due causes none.

use crate::faulty_store::{FaultyStore, TTL, run_ready_tasks};
use leasehold_core::{Clock, DistributedLockExt, Moment, RuntimeClock, Sleep};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::time::sleep;

/// Counts the calls of `sleep_until`.
#[derive(Debug, Default)]
struct SleepCounter {
    clock: RuntimeClock,
    sleeps: AtomicUsize,
}

impl Clock for SleepCounter {
    fn now(&self) -> Moment {
        self.clock.now()
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        self.sleeps.fetch_add(1, SeqCst);
        self.clock.sleep_until(moment)
    }
}

#[tokio::test(start_paused = true)]
async fn locks_released_at_once_do_not_wake_the_keeper() {
    let (store, clock) = (FaultyStore::new(), Arc::new(SleepCounter::default()));
    let client = store.client_on(Arc::clone(&clock) as Arc<dyn Clock>, Arc::default());
    for _ in 0..100 {
        client.acquire("job").await.unwrap().release().await.unwrap();
        run_ready_tasks().await;
    }
    let sleeps = clock.sleeps.load(SeqCst);
    assert!(sleeps <= 5, "the keeper woke up {sleeps} times");
    // After its last plan the keeper sleeps for ever.
    sleep(TTL).await;
    let sleeps = clock.sleeps.load(SeqCst);
    sleep(TTL * 5).await;
    assert_eq!(clock.sleeps.load(SeqCst), sleeps);
}
